/* What _growth.c, which grows the tree, and _arguments.c, which reads what bounds it, share. */

#ifndef RAGLA_GROWTH_H
#define RAGLA_GROWTH_H

#include "_core.h"

#define STANDINGS 5 /* what the model itself thought of a token the last time it stood there */
#define CLASSES (5 * 2 * STANDINGS)
#define UNRANKED INT32_MAX
#define NO_SOURCE (-1)

/* A token that may come next, and the node it was read in. `share` is raw, `chance` calibrated. */
typedef struct {
    int32_t token, source, read, rank, group; /* `rank`: among the second thoughts after the same token */
    double share, score, chance;
} Follower;

/* A node of the tree, or one of the heap, of which a parent is in the tree. `number`: when it was pushed. */
typedef struct {
    int32_t token, parent, source, read, position, group; /* `position`: once it is in the tree */
    double probability, score;
    int64_t number;
} Branch;

typedef struct {
    int32_t n_nodes;
    int32_t nodes[MAX_ORDER + 1];
} Reached;

/* An entry of the table of followers by token. One with an older stamp is empty. */
typedef struct {
    uint32_t stamp;
    int32_t follower;
} Seat;

typedef struct {
    PyObject *tries; /* a tuple of Windows */
    int32_t n_tries;

    /* limits */
    Py_ssize_t budget, max_depth, root_width, width;
    PyObject *forbidden, *barred; /* sets, borrowed */
    int32_t *tail, *stops;        /* `stops`: all sequences, one after the other */
    Py_ssize_t *stop_ends;
    Py_ssize_t n_tail, n_stops;

    /* beliefs */
    PyObject *ranks, *variants, *going_on; /* dicts, borrowed */
    Py_buffer *confidence;      /* of each trie */
    Py_buffer rank_confidence, calibration;
    double frequent_confidence;
    Follower *extras;
    Py_ssize_t n_extras;

    /* the tree; for each node its depth, and the contexts of each trie */
    Branch *tree;
    Reached *reached;
    int32_t *depths;
    Py_ssize_t n_tree, tree_room;

    /* a binary heap, the likeliest branch on top */
    Branch *heap;
    Py_ssize_t n_heap, heap_room;
    int64_t n_pushed;

    /* what may follow the node that is looked at */
    Follower *found;
    Seat *seats; /* a power of two, at least twice as many as found */
    Py_ssize_t n_found, found_room, n_seats;
    uint32_t stamp;
    int ranked; /* whether there are second thoughts after it */
    int32_t *longer; /* of each trie: the last context that was asked */
} Growth;

static inline const Windows *trie_at(const Growth *growth, int32_t source) {
    return (const Windows *)PyTuple_GET_ITEM(growth->tries, source);
}

static inline const Reached *reached_at(const Growth *growth, Py_ssize_t node, int32_t source) {
    return &growth->reached[node * growth->n_tries + source];
}

/* _arguments.c */
int read_arguments(Growth *growth, CoreState *state, PyObject *const *args);
PyObject *grown(const Growth *growth, const CoreState *state);
void release(Growth *growth);

/* _growth.c */
int widen_tree(Growth *growth);

#endif
