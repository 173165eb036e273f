/* Counts of token windows. See _core.h for the layout and windows.py for what it means. */

#include "_core.h"

/* ---- nodes ---------------------------------------------------------------------------------------- */

static void *resized(void *items, size_t n_items, size_t width) {
    void *moved = n_items > PY_SSIZE_T_MAX / width ? NULL : PyMem_Realloc(items, n_items * width);
    if (moved == NULL) {
        PyErr_NoMemory();
    }
    return moved;
}

static int reserve_nodes(Windows *windows, int32_t more) {
    int64_t needed = (int64_t)windows->n_nodes - windows->n_free + more;
    if (needed <= windows->room) {
        return 0;
    }
    if (needed > INT32_MAX) {
        PyErr_NoMemory();
        return -1;
    }
    int64_t room = needed + needed / 2 + 8;
    room = room > INT32_MAX ? INT32_MAX : room;
    Node *nodes = resized(windows->nodes, (size_t)room, sizeof(Node));
    if (nodes == NULL) {
        return -1;
    }
    windows->nodes = nodes;
    windows->room = (int32_t)room;
    return 0;
}

/* A node without count or followers; room for it was reserved. */
static int32_t new_node(Windows *windows, int32_t parent, int32_t token) {
    int32_t index = windows->first_free;
    if (index != NONE) {
        windows->first_free = windows->nodes[index].parent;
        windows->n_free--;
    } else {
        index = windows->n_nodes++;
    }
    windows->nodes[index] = (Node){.token = token, .parent = parent};
    return index;
}

static void free_node(Windows *windows, int32_t index) {
    Node *node = &windows->nodes[index];
    node->token = NONE;
    node->parent = windows->first_free;
    windows->first_free = index;
    windows->n_free++;
}

/* ---- the table of followers ------------------------------------------------------------------------- */

static void put(Slot *slots, uint32_t n_slots, Slot entry) {
    uint32_t at = entry.hash & (n_slots - 1);
    while (slots[at].node != ROOT) {
        at = (at + 1) & (n_slots - 1);
    }
    slots[at] = entry;
}

static int reserve_slots(Windows *windows, uint32_t more) {
    uint64_t needed = 2 * ((uint64_t)windows->n_keys + more);
    uint64_t n_slots = windows->n_slots ? windows->n_slots : 64;
    if (needed <= windows->n_slots) {
        return 0;
    }
    while (n_slots < needed) {
        n_slots *= 2;
    }
    Slot *slots = n_slots > UINT32_MAX ? NULL : PyMem_Calloc((size_t)n_slots, sizeof(Slot));
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t at = 0; at < windows->n_slots; at++) {
        if (windows->slots[at].node != ROOT) {
            put(slots, (uint32_t)n_slots, windows->slots[at]);
        }
    }
    PyMem_Free(windows->slots);
    windows->slots = slots;
    windows->n_slots = (uint32_t)n_slots;
    return 0;
}

static void add_key(Windows *windows, int32_t index) {
    const Node *node = &windows->nodes[index];
    put(windows->slots, windows->n_slots, (Slot){hash_of(node->parent, node->token), index});
    windows->n_keys++;
}

/* Takes an entry out and moves those behind it up, so that no probe ends too early (Knuth, 6.4, R). */
static void remove_key(Windows *windows, int32_t index) {
    const Node *node = &windows->nodes[index];
    Slot *slots = windows->slots;
    uint32_t mask = windows->n_slots - 1, gap = hash_of(node->parent, node->token) & mask;
    while (slots[gap].node != index) {
        gap = (gap + 1) & mask;
    }
    for (uint32_t at = (gap + 1) & mask; slots[at].node != ROOT; at = (at + 1) & mask) {
        uint32_t home = slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            slots[gap] = slots[at];
            gap = at;
        }
    }
    slots[gap].node = ROOT;
    windows->n_keys--;
}

int32_t find_follower(const Windows *windows, int32_t parent, int32_t token) {
    const Node *node = &windows->nodes[parent];
    if (node->n_followers <= 1) {
        int32_t one = followers_of(node)[0];
        return node->n_followers == 1 && windows->nodes[one].token == token ? one : NONE;
    }
    uint32_t hash = hash_of(parent, token), mask = windows->n_slots - 1;
    for (uint32_t at = hash & mask; windows->slots[at].node != ROOT; at = (at + 1) & mask) {
        if (windows->slots[at].hash == hash) {
            const Node *child = &windows->nodes[windows->slots[at].node];
            if (child->parent == parent && child->token == token) {
                return windows->slots[at].node;
            }
        }
    }
    return NONE;
}

/* ---- followers in the order of their counts ------------------------------------------------------- */

/* Makes `many` of a node that gets one more follower than it has room for. */
static int widen_followers(Windows *windows, Node *node) {
    int32_t room = node->room ? 2 * node->room : 2;
    int32_t *many = resized(node->room ? node->followers.many : NULL, (size_t)room, sizeof(int32_t));
    if (many == NULL) {
        return -1;
    }
    if (node->room == 0) {
        many[0] = node->followers.one;
    }
    windows->follower_bytes += (size_t)(room - node->room) * sizeof(int32_t);
    node->followers.many = many;
    node->room = room;
    return 0;
}

/* Hangs a new node below `parent`, as its last follower; room in the table was reserved. */
static int append_follower(Windows *windows, int32_t parent, int32_t index) {
    Node *node = &windows->nodes[parent];
    if (node->n_followers >= (node->room ? node->room : 1) && widen_followers(windows, node) < 0) {
        return -1;
    }
    windows->nodes[index].place = node->n_followers;
    if (node->room == 0) {
        node->followers.one = index;
    } else {
        node->followers.many[node->n_followers] = index;
    }
    node->n_followers++;
    if (node->n_followers == 2) {
        add_key(windows, followers_of(node)[0]);
    }
    if (node->n_followers >= 2) {
        add_key(windows, index);
    }
    return 0;
}

/* Frees the last follower, which has none itself. */
static void pop_follower(Windows *windows, int32_t parent) {
    Node *node = &windows->nodes[parent];
    int32_t last = followers_of(node)[node->n_followers - 1];
    if (node->n_followers >= 2) {
        remove_key(windows, last);
    }
    node->n_followers--;
    if (node->n_followers == 1) {
        int32_t one = node->followers.many[0];
        remove_key(windows, one);
        windows->follower_bytes -= (size_t)node->room * sizeof(int32_t);
        PyMem_Free(node->followers.many);
        node->followers.one = one;
        node->room = 0;
    }
    free_node(windows, last);
}

/* Exchanges a node with the follower of the same parent at `place`, which has the same count. */
static void swap_followers(Windows *windows, Node *parent, int32_t index, int32_t place) {
    Node *node = &windows->nodes[index];
    if (node->place == place) {
        return;
    }
    int32_t *many = parent->followers.many;
    int32_t other = many[place];
    many[node->place] = other;
    many[place] = index;
    windows->nodes[other].place = node->place;
    node->place = place;
}

/* How many followers have a count of more than `count`. */
static int32_t followers_above(const Windows *windows, const Node *parent, int32_t count) {
    const int32_t *followers = followers_of(parent);
    int32_t low = 0, high = parent->n_followers;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (windows->nodes[followers[middle]].count > count) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- counting ------------------------------------------------------------------------------------- */

/* The follower for a token, counted once more; NONE without memory. */
static int32_t increment(Windows *windows, int32_t context, int32_t token) {
    int32_t index = find_follower(windows, context, token);
    if (index == NONE) {
        index = new_node(windows, context, token);
        if (append_follower(windows, context, index) < 0) {
            free_node(windows, index);
            return NONE;
        }
    } else {
        Node *parent = &windows->nodes[context];
        swap_followers(windows, parent, index,
                       followers_above(windows, parent, windows->nodes[index].count));
    }
    windows->nodes[index].count++;
    windows->nodes[index].position = windows->length;
    windows->nodes[context].total++;
    return index;
}

static int count_token(Windows *windows, int32_t token) {
    if (windows->length == INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "more tokens than can be counted");
        return -1;
    }
    if (reserve_nodes(windows, windows->n_open) < 0 ||
        reserve_slots(windows, 2 * (uint32_t)windows->n_open) < 0) {
        return -1;
    }
    int32_t shorter = ROOT;
    for (int32_t k = 0; k < windows->n_open; k++) {
        int32_t context = increment(windows, windows->open[k], token);
        if (context == NONE) {
            return -1;
        }
        windows->open[k] = shorter;
        shorter = context;
    }
    if (windows->n_open <= windows->order) {
        windows->open[windows->n_open++] = shorter;
    }
    windows->length++;
    return 0;
}

int windows_count(Windows *windows, const int32_t *tokens, Py_ssize_t n_tokens) {
    for (Py_ssize_t at = 0; at < n_tokens; at++) {
        if (count_token(windows, tokens[at]) < 0) {
            windows_start(windows); /* half of the open contexts may have moved */
            return -1;
        }
    }
    return 0;
}

void windows_start(Windows *windows) {
    windows->open[0] = ROOT;
    windows->n_open = 1;
}

/* Frees a parent's last follower and all that hangs from it. */
static void prune_last(Windows *windows, int32_t parent) {
    int32_t top = parent;
    for (;;) {
        const Node *node = &windows->nodes[parent];
        int32_t last = followers_of(node)[node->n_followers - 1];
        if (windows->nodes[last].n_followers > 0) {
            parent = last;
            continue;
        }
        pop_follower(windows, parent);
        if (parent == top) {
            return;
        }
        if (windows->nodes[parent].n_followers == 0) {
            parent = windows->nodes[parent].parent;
        }
    }
}

static void decrement(Windows *windows, int32_t context, int32_t index) {
    Node *parent = &windows->nodes[context], *node = &windows->nodes[index];
    swap_followers(windows, parent, index, followers_above(windows, parent, node->count - 1) - 1);
    node->count--;
    parent->total--;
    if (node->count == 0) {
        prune_last(windows, context); /* nothing has a smaller count */
    }
}

void windows_forget(Windows *windows, const int32_t *tokens, Py_ssize_t n_tokens) {
    int32_t path[MAX_ORDER + 2];
    path[0] = ROOT;
    for (Py_ssize_t start = 0; start < n_tokens; start++) {
        int32_t depth = 0;
        while (depth <= windows->order && start + depth < n_tokens) {
            int32_t node = find_follower(windows, path[depth], tokens[start + depth]);
            if (node == NONE) {
                break;
            }
            path[++depth] = node;
        }
        for (; depth > 0; depth--) {
            decrement(windows, path[depth - 1], path[depth]);
        }
    }
    windows->epoch++;
    windows_start(windows);
}

/* ---- all of it ------------------------------------------------------------------------------------ */

void windows_free(Windows *windows) {
    for (int32_t index = 0; index < windows->n_nodes; index++) {
        if (windows->nodes[index].room) {
            PyMem_Free(windows->nodes[index].followers.many);
        }
    }
    PyMem_Free(windows->nodes);
    PyMem_Free(windows->slots);
    windows->nodes = NULL;
    windows->slots = NULL;
    windows->n_nodes = windows->n_free = windows->room = 0;
    windows->n_slots = windows->n_keys = 0;
    windows->follower_bytes = 0;
    windows->first_free = NONE;
}

int windows_clear(Windows *windows) {
    Node *nodes = resized(NULL, 64, sizeof(Node));
    if (nodes == NULL) {
        return -1;
    }
    windows_free(windows);
    windows->nodes = nodes;
    windows->room = 64;
    windows->length = 0;
    windows->epoch++;
    new_node(windows, NONE, NONE);
    windows_start(windows);
    return 0;
}

size_t windows_bytes(const Windows *windows) {
    return sizeof(Windows) + (size_t)windows->room * sizeof(Node) +
           (size_t)windows->n_slots * sizeof(Slot) + windows->follower_bytes;
}

/* ---- reading -------------------------------------------------------------------------------------- */

/* Writes the contexts one token later, at most order + 1 of them, and returns how many they are. */
int32_t windows_follow(const Windows *windows, const int32_t *contexts, int32_t n_contexts, int32_t token,
                       int32_t *advanced) {
    int32_t n_advanced = 1;
    advanced[0] = ROOT;
    for (int32_t k = 0; k < n_contexts && k < windows->order; k++) {
        int32_t node = find_follower(windows, contexts[k], token);
        if (node == NONE) {
            break;
        }
        advanced[n_advanced++] = node;
    }
    return n_advanced;
}

int32_t counted(const Windows *windows, int32_t node, int32_t token) {
    int32_t child = node == NONE ? NONE : find_follower(windows, node, token);
    return child == NONE ? 0 : windows->nodes[child].count;
}

int32_t added(const Windows *windows, int32_t node, int32_t longer) {
    return windows->nodes[node].total - (longer == NONE ? 0 : windows->nodes[longer].total);
}

int kind(const Windows *windows, int32_t index, int32_t longer) {
    const Node *node = &windows->nodes[index];
    const int32_t *followers = followers_of(node);
    int32_t occurrences = added(windows, index, longer);
    if (occurrences == 1) {
        return SINGLE;
    }
    for (int32_t at = 0; at < node->n_followers && at < ASKED; at++) {
        const Node *child = &windows->nodes[followers[at]];
        int32_t count = child->count - counted(windows, longer, child->token);
        if (count > 0) {
            return count == occurrences ? REPEATED : SEVERAL;
        }
    }
    return SEVERAL;
}
