/* The compiled drafting core: counts of token windows, and the growth of draft trees.
 *
 * windows.py and growth.py say what is counted and drafted, and why; they are the slow twins, and tests
 * hold both to the same results, to the last bit. This header says how it is laid out here.
 *
 * A trie is one array of nodes that know each other by index; node 0 is the root. A node that was freed
 * is used again before the array grows. What a step costs behind a long prompt is the memory it has to
 * fetch, so a node is 32 bytes and knows its followers' tokens and counts itself: of one follower, which is
 * what most nodes have, in the node; of several in an array, the most frequent first. Among more than FEW
 * a token is found in one hash table for the whole trie, with open addressing and linear probing, at most
 * half full.
 *
 * Contexts, the nodes that match the end of a text, are objects that name their trie and its epoch. An
 * epoch ends when nodes may have been freed, so no index is ever followed to a node that has become another.
 *
 * _windows.c: the trie, plain C. _growth.c: the draft tree. _core.c: the types and the module.
 */

#ifndef RAGLA_CORE_H
#define RAGLA_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { SINGLE, REPEATED, SEVERAL, KINDS }; /* kinds of evidence */
enum { ROOT = 0, NONE = -1 };

#define MAX_ORDER 64
#define ASKED 64
#define FEW 8

/* A follower as its parent knows it. */
typedef struct {
    int32_t token;
    int32_t count;
    int32_t node;
} Edge;

typedef struct {
    int32_t token; /* NONE in the root and in free nodes */
    int32_t total; /* the sum of the followers' counts */
    int32_t position;
    int32_t parent; /* of a free node: the next free one, or NONE */
    int32_t place;  /* index among the parent's followers */
    int32_t n_followers;
    union {
        struct {
            int32_t node, token; /* its count is the total */
        } one;
        Edge *many; /* of two and more; room for the next power of two */
    } followers;
} Node;

typedef struct {
    uint32_t hash;
    int32_t node; /* ROOT, which follows nothing: the slot is empty */
} Slot;

typedef struct {
    PyObject_HEAD
    int32_t order;
    int32_t length; /* tokens counted so far */
    int64_t epoch;  /* contexts of an earlier one are stale */
    int32_t readers; /* growths under way: Python code that they call must not change what they read */
    int32_t n_open;
    int32_t open[MAX_ORDER + 1]; /* the contexts of the sequence that is being counted */
    Node *nodes;
    int32_t n_nodes, n_free, room; /* indices in use or freed; of these free; room in the array */
    int32_t first_free;
    Slot *slots;
    uint32_t n_slots, n_keys; /* n_slots is 0 or a power of two */
    size_t follower_bytes;
} Windows;

typedef struct {
    PyObject_VAR_HEAD
    Windows *windows;
    int64_t epoch;
    int32_t nodes[]; /* entry k: the context of the last k tokens */
} Contexts;

typedef struct {
    PyTypeObject *windows_type;
    PyTypeObject *contexts_type;
    PyObject *grown_type; /* growth.Grown */
} CoreState;

/* _windows.c. What can fail returns -1, or NULL, with a Python exception set. */
void *resized(void *items, Py_ssize_t n_items, size_t width); /* moves an array to where there is room */
int windows_clear(Windows *windows);
void windows_free(Windows *windows);
void windows_start(Windows *windows);
int windows_count(Windows *windows, const int32_t *tokens, Py_ssize_t n_tokens);
void windows_forget(Windows *windows, const int32_t *tokens, Py_ssize_t n_tokens);
size_t windows_bytes(const Windows *windows);
int32_t windows_follow(const Windows *windows, const int32_t *contexts, int32_t n_contexts, int32_t token,
                       int32_t *advanced);
int32_t find_follower(const Windows *windows, int32_t parent, int32_t token);
int32_t counted(const Windows *windows, int32_t node, int32_t token);
int32_t added(const Windows *windows, int32_t node, int32_t longer);
int kind(const Windows *windows, int32_t node, int32_t longer);

/* A node's followers; if there is one, in `room`. */
static inline const Edge *followers_of(const Node *node, Edge *room) {
    if (node->n_followers > 1) {
        return node->followers.many;
    }
    *room = (Edge){node->followers.one.token, node->total, node->followers.one.node};
    return room;
}

/* splitmix64's finalizer (Steele, Lea and Flood, 2014): every bit of the key moves every bit of the hash. */
static inline uint32_t hash_of(int32_t parent, int32_t token) {
    uint64_t key = ((uint64_t)(uint32_t)parent << 32) | (uint32_t)token;
    key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((key ^ (key >> 31)) >> 16);
}

/* _core.c */
int token_from(PyObject *object, int32_t *token);
int32_t *tokens_from(PyObject *sequence, Py_ssize_t most, Py_ssize_t *n_tokens);
Contexts *contexts_from(CoreState *state, Windows *windows, PyObject *object);
int32_t step_contexts(const Windows *windows, const int32_t *contexts, int32_t n_contexts, int32_t token,
                      PyObject *variants, int32_t *advanced);

/* _growth.c */
PyObject *core_grow(PyObject *module, PyObject *const *args, Py_ssize_t n_args);

#endif
