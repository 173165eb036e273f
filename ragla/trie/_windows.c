/* Counts of token windows. See _core.h for the layout and windows.py for what it means. */

#include "_core.h"

/* ---- nodes ---------------------------------------------------------------------------------------- */

void *resized(void *items, Py_ssize_t n_items, size_t width) {
    size_t most = PY_SSIZE_T_MAX / width;
    void *moved = (size_t)n_items > most ? NULL : PyMem_Realloc(items, (size_t)n_items * width);
    return moved == NULL ? PyErr_NoMemory() : moved;
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
    Node *nodes = resized(windows->nodes, (Py_ssize_t)room, sizeof(Node));
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
    node->n_followers = 0;
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

/* The follower with a token among at most FEW; NULL: there is none. */
static const Edge *find_among_few(const Node *node, int32_t token, Edge *room) {
    const Edge *edges = followers_of(node, room);
    for (int32_t place = 0; place < node->n_followers; place++) {
        if (edges[place].token == token) {
            return &edges[place];
        }
    }
    return NULL;
}

/* The same among more. */
static int32_t find_in_table(const Windows *windows, int32_t parent, int32_t token) {
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

/* The node of a follower; NONE: there is none with this token. */
int32_t find_follower(const Windows *windows, int32_t parent, int32_t token) {
    const Node *node = &windows->nodes[parent];
    if (node->n_followers > FEW) {
        return find_in_table(windows, parent, token);
    }
    Edge room;
    const Edge *edge = find_among_few(node, token, &room);
    return edge == NULL ? NONE : edge->node;
}

/* How often a token followed; 0 for the node NONE. */
int32_t counted(const Windows *windows, int32_t parent, int32_t token) {
    if (parent == NONE) {
        return 0;
    }
    const Node *node = &windows->nodes[parent];
    if (node->n_followers > FEW) {
        int32_t child = find_in_table(windows, parent, token);
        return child == NONE ? 0 : node->followers.many[windows->nodes[child].place].count;
    }
    Edge room;
    const Edge *edge = find_among_few(node, token, &room);
    return edge == NULL ? 0 : edge->count;
}

/* ---- followers in the order of their counts ------------------------------------------------------- */

static size_t room_for(int32_t n_followers) {
    size_t room = 2;
    while (room < (size_t)n_followers) {
        room *= 2;
    }
    return n_followers > 1 ? room : 0;
}

/* Gives a node room for one more follower, as the second and after each power of two. */
static int widen_followers(Windows *windows, Node *node) {
    int32_t n_followers = node->n_followers;
    size_t room = room_for(n_followers), more = room_for(n_followers + 1);
    if (more == room) {
        return 0;
    }
    Edge *many = resized(n_followers > 1 ? node->followers.many : NULL, (Py_ssize_t)more, sizeof(Edge));
    if (many == NULL) {
        return -1;
    }
    if (n_followers == 1) {
        followers_of(node, &many[0]);
    }
    windows->follower_bytes += (more - room) * sizeof(Edge);
    node->followers.many = many;
    return 0;
}

/* Hangs a new node below its parent, as the last follower, counted once; room in the table was reserved. */
static int append_follower(Windows *windows, int32_t index) {
    Node *child = &windows->nodes[index], *node = &windows->nodes[child->parent];
    if (widen_followers(windows, node) < 0) {
        return -1;
    }
    child->place = node->n_followers++;
    if (node->n_followers == 1) {
        node->followers.one.node = index;
        node->followers.one.token = child->token;
        return 0;
    }
    node->followers.many[child->place] = (Edge){child->token, 1, index};
    int32_t first_key = node->n_followers == FEW + 1 ? 0 : child->place;
    for (int32_t place = first_key; place < node->n_followers && node->n_followers > FEW; place++) {
        add_key(windows, node->followers.many[place].node);
    }
    return 0;
}

/* Gives back what room a node no longer needs, after its last follower went. */
static void narrow_followers(Windows *windows, Node *node) {
    size_t room = room_for(node->n_followers + 1), less = room_for(node->n_followers);
    Edge *many = node->followers.many, first = many[0];
    if (less == room) {
        return;
    }
    windows->follower_bytes -= (room - less) * sizeof(Edge);
    if (less == 0) {
        PyMem_Free(many);
        node->followers.one.node = first.node;
        node->followers.one.token = first.token;
        return;
    }
    Edge *moved = PyMem_Realloc(many, less * sizeof(Edge));
    node->followers.many = moved == NULL ? many : moved;
}

/* Frees the last follower, which has none itself. */
static void pop_follower(Windows *windows, int32_t parent) {
    Node *node = &windows->nodes[parent];
    Edge room;
    const Edge *edges = followers_of(node, &room);
    int32_t last = node->n_followers - 1;
    int32_t first_key = node->n_followers == FEW + 1 ? 0 : last;
    for (int32_t place = first_key; place <= last && node->n_followers > FEW; place++) {
        remove_key(windows, edges[place].node);
    }
    free_node(windows, edges[last].node);
    node->n_followers--;
    if (node->n_followers > 0) {
        narrow_followers(windows, node);
    }
}

/* Exchanges two followers that have the same count. */
static void swap_followers(Windows *windows, Node *parent, int32_t a, int32_t b) {
    Edge *many = parent->followers.many, moved = many[a];
    many[a] = many[b];
    many[b] = moved;
    windows->nodes[many[a].node].place = a;
    windows->nodes[many[b].node].place = b;
}

/* How many followers, of several, have a count of more than `count`. */
static int32_t followers_above(const Node *parent, int32_t count) {
    const Edge *many = parent->followers.many;
    int32_t low = 0, high = parent->n_followers;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (many[middle].count > count) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* ---- counting ------------------------------------------------------------------------------------- */

/* Counts a follower once more, in front of all that have its count. */
static void raise_count(Windows *windows, Node *parent, int32_t index) {
    if (parent->n_followers > 1) {
        int32_t place = windows->nodes[index].place;
        int32_t first = followers_above(parent, parent->followers.many[place].count);
        swap_followers(windows, parent, place, first);
        parent->followers.many[first].count++;
    }
}

/* The follower for a token, counted once more; NONE without memory. */
static int32_t increment(Windows *windows, int32_t context, int32_t token) {
    int32_t index = find_follower(windows, context, token);
    if (index != NONE) {
        raise_count(windows, &windows->nodes[context], index);
    } else {
        index = new_node(windows, context, token);
        if (append_follower(windows, index) < 0) {
            free_node(windows, index);
            return NONE;
        }
    }
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
        reserve_slots(windows, (FEW + 1) * (uint32_t)windows->n_open) < 0) {
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

static int32_t last_follower(const Windows *windows, int32_t parent) {
    const Node *node = &windows->nodes[parent];
    Edge room;
    return followers_of(node, &room)[node->n_followers - 1].node;
}

/* Frees a parent's last follower and all that hangs from it. */
static void prune_last(Windows *windows, int32_t top) {
    int32_t parent = top;
    for (;;) {
        int32_t last = last_follower(windows, parent);
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

/* Counts a follower once less, behind all that have its count; without a count it is gone. */
static void decrement(Windows *windows, int32_t context, int32_t index) {
    Node *parent = &windows->nodes[context];
    int32_t count = --parent->total;
    if (parent->n_followers > 1) {
        int32_t place = windows->nodes[index].place;
        count = parent->followers.many[place].count - 1;
        int32_t last = followers_above(parent, count) - 1;
        swap_followers(windows, parent, place, last);
        parent->followers.many[last].count = count;
    }
    if (count == 0) {
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
        if (windows->nodes[index].n_followers > 1) {
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

int32_t added(const Windows *windows, int32_t node, int32_t longer) {
    return windows->nodes[node].total - (longer == NONE ? 0 : windows->nodes[longer].total);
}

int kind(const Windows *windows, int32_t index, int32_t longer) {
    const Node *node = &windows->nodes[index];
    Edge room;
    const Edge *edges = followers_of(node, &room);
    int32_t occurrences = added(windows, index, longer);
    if (occurrences == 1) {
        return SINGLE;
    }
    for (int32_t place = 0; place < node->n_followers && place < ASKED; place++) {
        int32_t count = edges[place].count - counted(windows, longer, edges[place].token);
        if (count > 0) {
            return count == occurrences ? REPEATED : SEVERAL;
        }
    }
    return SEVERAL;
}
