/* Grows a draft tree best first. See growth.py for what it means; every sum is taken in its order. */

#include "_growth.h"

#include <math.h>

#define FREQUENT 16
#define LEAST 1e-3

/* ---- what may follow ------------------------------------------------------------------------------ */

static Seat *seat_of(const Growth *growth, int32_t token) {
    size_t mask = (size_t)growth->n_seats - 1;
    size_t at = hash_of(0, token) & mask;
    while (growth->seats[at].stamp == growth->stamp &&
           growth->found[growth->seats[at].follower].token != token) {
        at = (at + 1) & mask;
    }
    return &growth->seats[at];
}

static int is_found(const Growth *growth, int32_t token) {
    return growth->n_found > 0 && seat_of(growth, token)->stamp == growth->stamp;
}

static int widen_found(Growth *growth) {
    Py_ssize_t room = growth->found_room ? 2 * growth->found_room : 64;
    Follower *found = resized(growth->found, room, sizeof(Follower));
    if (found == NULL) {
        return -1;
    }
    growth->found = found;
    Seat *seats = PyMem_Calloc(2 * (size_t)room, sizeof(Seat));
    if (seats == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyMem_Free(growth->seats);
    growth->seats = seats;
    growth->n_seats = 2 * room;
    growth->found_room = room;
    for (Py_ssize_t index = 0; index < growth->n_found; index++) {
        *seat_of(growth, found[index].token) = (Seat){growth->stamp, (int32_t)index};
    }
    return 0;
}

static int add(Growth *growth, int32_t token, double share, int32_t source, int32_t read) {
    if (growth->n_found == growth->found_room && widen_found(growth) < 0) {
        return -1;
    }
    Seat *seat = seat_of(growth, token);
    if (seat->stamp == growth->stamp) {
        growth->found[seat->follower].share += share;
        return 0;
    }
    *seat = (Seat){growth->stamp, (int32_t)growth->n_found};
    growth->found[growth->n_found++] = (Follower){token, source, read, UNRANKED, 0, share, 0.0, 0.0};
    return 0;
}

/* Shares `mass` out among the occurrences that a context has and the longer one has not. */
static int add_context(Growth *growth, int32_t source, int32_t index, int32_t longer, double mass) {
    const Windows *windows = trie_at(growth, source);
    const Node *node = &windows->nodes[index];
    Edge room;
    const Edge *edges = followers_of(node, &room);
    int32_t unseen = added(windows, index, longer);
    double scale = mass / unseen;
    for (int32_t at = 0; at < node->n_followers && at < ASKED; at++) {
        if (scale * edges[at].count < LEAST || unseen <= 0) {
            break;
        }
        int32_t count = edges[at].count - counted(windows, longer, edges[at].token);
        if (count > 0) {
            if (add(growth, edges[at].token, scale * count, source, edges[at].node) < 0) {
                return -1;
            }
            unseen -= count;
        }
    }
    return 0;
}

/* Asks the contexts of length k, and takes what they are trusted with from `left`. */
static int add_length(Growth *growth, Py_ssize_t node, int32_t k, double *left) {
    for (int32_t source = 0; source < growth->n_tries; source++) {
        const Windows *windows = trie_at(growth, source);
        const Reached *reached = reached_at(growth, node, source);
        int32_t longer = growth->longer[source];
        if (k >= reached->n_nodes || added(windows, reached->nodes[k], longer) <= 0) {
            continue;
        }
        growth->longer[source] = reached->nodes[k];
        if (*left >= LEAST) {
            const double *values = growth->confidence[source].buf;
            double confidence = values[k * KINDS + kind(windows, reached->nodes[k], longer)];
            if (add_context(growth, source, reached->nodes[k], longer, *left * confidence) < 0) {
                return -1;
            }
            *left *= 1.0 - confidence;
        }
    }
    return 0;
}

static int add_tries(Growth *growth, Py_ssize_t node, int32_t shortest, double *left) {
    int32_t longest = 0;
    for (int32_t source = 0; source < growth->n_tries; source++) {
        int32_t n_nodes = reached_at(growth, node, source)->n_nodes;
        longest = n_nodes - 1 > longest ? n_nodes - 1 : longest;
        growth->longer[source] = NONE;
    }
    for (int32_t k = longest; k >= shortest && *left >= LEAST; k--) {
        if (add_length(growth, node, k, left) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The second thoughts after the same token; `left` times what they leave is left. */
static int add_ranks(Growth *growth, int32_t token, double *left) {
    growth->ranked = 0;
    if (PyDict_GET_SIZE(growth->ranks) == 0) {
        return 0;
    }
    PyObject *key = PyLong_FromLong(token);
    PyObject *found = key == NULL ? NULL : PyDict_GetItemWithError(growth->ranks, key);
    Py_XDECREF(key);
    if (found == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    Py_INCREF(found); /* what a sequence of the caller's own does may take it out of the dict */
    PyObject *ranked = PySequence_Fast(found, "ranks must be sequences of token ids");
    Py_DECREF(found);
    if (ranked == NULL) {
        return -1;
    }
    const double *shares = growth->rank_confidence.buf;
    Py_ssize_t n_shares = growth->rank_confidence.len / (Py_ssize_t)sizeof(double);
    double used = 0.0;
    int failed = 0;
    for (Py_ssize_t rank = 0; rank < n_shares && rank < PySequence_Fast_GET_SIZE(ranked) && !failed; rank++) {
        int32_t ranked_token;
        failed = token_from(PySequence_Fast_GET_ITEM(ranked, rank), &ranked_token) < 0 ||
                 add(growth, ranked_token, *left * shares[rank], NO_SOURCE, 0) < 0;
        if (!failed) {
            Follower *follower = &growth->found[seat_of(growth, ranked_token)->follower];
            follower->rank = follower->rank < (int32_t)rank ? follower->rank : (int32_t)rank;
            growth->ranked = 1;
        }
        used += shares[rank];
    }
    Py_DECREF(ranked);
    *left *= 1.0 - used > 0.0 ? 1.0 - used : 0.0;
    return failed ? -1 : 0;
}

static int add_extras(Growth *growth, double left) {
    for (Py_ssize_t at = 0; at < growth->n_extras; at++) {
        const Follower *extra = &growth->extras[at];
        if (add(growth, extra->token, left * extra->share, NO_SOURCE, 0) < 0) {
            return -1;
        }
    }
    return 0;
}

static int add_frequent(Growth *growth, double left) {
    const Windows *windows = trie_at(growth, 0);
    const Node *root = &windows->nodes[ROOT];
    Edge room;
    const Edge *edges = followers_of(root, &room);
    for (int32_t at = 0; at < root->n_followers && at < FREQUENT; at++) {
        double share = left * growth->frequent_confidence * edges[at].count / root->total;
        if (share < LEAST && !is_found(growth, edges[at].token)) {
            continue; /* nothing is added to it, so it is worth no thought */
        }
        if (add(growth, edges[at].token, share, NO_SOURCE, 0) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Whether a set holds a token; -1 with an exception set. */
static int holds(PyObject *set, int32_t token) {
    PyObject *key = PyLong_FromLong(token);
    int held = key == NULL ? -1 : PySet_Contains(set, key);
    Py_XDECREF(key);
    return held;
}

/* Fills `found` with what may come after a node, with raw shares. */
static int find_followers(Growth *growth, Py_ssize_t node) {
    int32_t token = growth->tree[node].token;
    int barred = PySet_GET_SIZE(growth->barred) ? holds(growth->barred, token) : 0;
    double left = 1.0;
    growth->n_found = 0;
    growth->stamp++;
    if (barred < 0 || add_tries(growth, node, barred ? 2 : 1, &left) < 0 ||
        add_ranks(growth, token, &left) < 0 ||
        (growth->depths[node] == 0 && add_extras(growth, left) < 0)) {
        return -1;
    }
    return add_frequent(growth, left);
}

/* ---- calibration ---------------------------------------------------------------------------------- */

static int32_t calibration_class(const Growth *growth, Py_ssize_t node) {
    int32_t longest = 0, bits = 0;
    for (int32_t source = 0; source < growth->n_tries; source++) {
        const Windows *windows = trie_at(growth, source);
        const Reached *reached = reached_at(growth, node, source);
        int32_t k = reached->n_nodes - 1;
        while (k > longest && windows->nodes[reached->nodes[k]].total == 0) {
            k--;
        }
        longest = k > longest ? k : longest;
    }
    while (longest >> bits && bits < 4) {
        bits++;
    }
    return 2 * bits + (growth->depths[node] > 0);
}

static double logit(double share) {
    share = share < 1e-5 ? 1e-5 : share;
    share = share > 1.0 - 1e-4 ? 1.0 - 1e-4 : share;
    return log(share / (1.0 - share));
}

static double logistic(double log_odds) {
    return 1.0 / (1.0 + exp(-log_odds > 700.0 ? 700.0 : -log_odds));
}

static int32_t standing(const Growth *growth, const Follower *follower) {
    if (!growth->ranked) {
        return 0;
    }
    return follower->rank == 0 ? 1 : follower->rank < 3 ? 2 : follower->rank != UNRANKED ? 3 : 4;
}

/* How likely an answer goes on after a token, 1 where that was not learned; negative with an exception set. */
static double goes_on(const Growth *growth, int32_t token) {
    if (PyDict_GET_SIZE(growth->going_on) == 0) {
        return 1.0;
    }
    PyObject *key = PyLong_FromLong(token);
    PyObject *found = key == NULL ? NULL : PyDict_GetItemWithError(growth->going_on, key);
    Py_XDECREF(key);
    if (found == NULL) {
        return PyErr_Occurred() ? -1.0 : 1.0;
    }
    double value = PyFloat_AsDouble(found);
    if (!PyErr_Occurred() && !(value > 0.0 && value <= 1.0)) {
        PyErr_SetString(PyExc_ValueError, "going_on holds probabilities above 0");
    }
    return PyErr_Occurred() ? -1.0 : value;
}

/* Keeps the followers that are worth a thought, with calibrated chances that add up to at most 1. */
static int calibrate(Growth *growth, int32_t node_class, double going_on) {
    const double *values = growth->calibration.buf;
    double mass = 0.0;
    Py_ssize_t n_kept = 0;
    for (Py_ssize_t at = 0; at < growth->n_found; at++) {
        Follower follower = growth->found[at];
        if (!(follower.share >= LEAST)) {
            continue;
        }
        int forbidden = PySet_GET_SIZE(growth->forbidden) ? holds(growth->forbidden, follower.token) : 0;
        if (forbidden < 0) {
            return -1;
        }
        if (!forbidden) {
            const Follower *kept = n_kept > 0 ? &growth->found[n_kept - 1] : NULL;
            follower.group = node_class * STANDINGS + standing(growth, &follower);
            if (kept != NULL && kept->share == follower.share && kept->group == follower.group) { /* rare followers of a context share alike */
                follower.score = kept->score;
                follower.chance = kept->chance;
            } else {
                follower.score = logit(follower.share);
                double slope = values[2 * follower.group], offset = values[2 * follower.group + 1];
                follower.chance = logistic(slope * follower.score + offset);
            }
            mass += follower.chance;
            growth->found[n_kept++] = follower;
        }
    }
    mass = (mass > 1.0 ? mass : 1.0) / going_on;
    for (Py_ssize_t at = 0; at < n_kept; at++) {
        growth->found[at].chance /= mass;
    }
    growth->n_found = n_kept;
    return 0;
}

/* From chances after a node to probabilities of the whole path; keeps those that are worth a heap entry. */
static void keep_worthy(Growth *growth, double path_probability) {
    Py_ssize_t n_kept = 0;
    for (Py_ssize_t at = 0; at < growth->n_found; at++) {
        Follower follower = growth->found[at];
        follower.chance *= path_probability;
        if (follower.chance >= LEAST) {
            growth->found[n_kept++] = follower;
        }
    }
    growth->n_found = n_kept;
}

/* Keeps the `width` likeliest followers, the likeliest first; of equals the one that was found first. */
static void keep_likeliest(Growth *growth, Py_ssize_t width) {
    Follower *found = growth->found;
    Py_ssize_t n_kept = 0;
    for (Py_ssize_t at = 0; at < growth->n_found; at++) {
        Follower follower = found[at];
        Py_ssize_t place = n_kept;
        while (place > 0 && found[place - 1].chance < follower.chance) {
            place--;
        }
        if (place < width) {
            n_kept += n_kept < width;
            memmove(&found[place + 1], &found[place], (size_t)(n_kept - 1 - place) * sizeof(Follower));
            found[place] = follower;
        }
    }
    growth->n_found = n_kept;
}

/* ---- the heap ------------------------------------------------------------------------------------- */

static int before(const Branch *a, const Branch *b) {
    return a->probability > b->probability || (a->probability == b->probability && a->number < b->number);
}

static int push(Growth *growth, Branch branch) {
    if (growth->n_heap == growth->heap_room) {
        Py_ssize_t room = growth->heap_room ? 2 * growth->heap_room : 256;
        Branch *heap = resized(growth->heap, room, sizeof(Branch));
        if (heap == NULL) {
            return -1;
        }
        growth->heap = heap;
        growth->heap_room = room;
    }
    Py_ssize_t at = growth->n_heap++;
    while (at > 0 && before(&branch, &growth->heap[(at - 1) / 2])) {
        growth->heap[at] = growth->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    growth->heap[at] = branch;
    return 0;
}

static Branch pop(Growth *growth) {
    Branch *heap = growth->heap;
    Branch best = heap[0], last = heap[--growth->n_heap];
    Py_ssize_t at = 0, child;
    while ((child = 2 * at + 1) < growth->n_heap) {
        child += child + 1 < growth->n_heap && before(&heap[child + 1], &heap[child]);
        if (!before(&heap[child], &last)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return best;
}

/* Pushes what may come after a node. */
static int queue(Growth *growth, Py_ssize_t node) {
    Py_ssize_t width = node ? growth->width : growth->root_width;
    double going_on = goes_on(growth, growth->tree[node].token);
    if (going_on < 0.0 || find_followers(growth, node) < 0 ||
        calibrate(growth, calibration_class(growth, node), going_on) < 0) {
        return -1;
    }
    keep_worthy(growth, growth->tree[node].probability);
    if (width < growth->n_found) {
        keep_likeliest(growth, width);
    }
    for (Py_ssize_t at = 0; at < growth->n_found; at++) {
        const Follower *follower = &growth->found[at];
        Branch branch = {follower->token, (int32_t)node, follower->source, follower->read, 0,
                         follower->group, follower->chance, follower->score, growth->n_pushed++};
        if (push(growth, branch) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- the tree ------------------------------------------------------------------------------------- */

int widen_tree(Growth *growth) {
    Py_ssize_t room = growth->tree_room ? 2 * growth->tree_room : 64;
    Branch *tree = resized(growth->tree, room, sizeof(Branch));
    if (tree == NULL) {
        return -1;
    }
    growth->tree = tree;
    int32_t *depths = resized(growth->depths, room, sizeof(int32_t));
    if (depths == NULL) {
        return -1;
    }
    growth->depths = depths;
    Reached *reached = resized(growth->reached, room, (size_t)growth->n_tries * sizeof(Reached));
    if (reached == NULL) {
        return -1;
    }
    growth->reached = reached;
    growth->tree_room = room;
    return 0;
}

/* Makes a branch the last node of the tree. */
static int settle(Growth *growth, Branch branch) {
    if (growth->n_tree == growth->tree_room && widen_tree(growth) < 0) {
        return -1;
    }
    Py_ssize_t node = growth->n_tree;
    for (int32_t source = 0; source < growth->n_tries; source++) {
        const Reached *before_it = reached_at(growth, branch.parent, source);
        Reached *reached = &growth->reached[node * growth->n_tries + source];
        reached->n_nodes = step_contexts(trie_at(growth, source), before_it->nodes, before_it->n_nodes,
                                         branch.token, growth->variants, reached->nodes);
        if (reached->n_nodes < 0) {
            return -1;
        }
    }
    if (branch.source != NO_SOURCE) {
        branch.position = trie_at(growth, branch.source)->nodes[branch.read].position;
    }
    growth->tree[node] = branch;
    growth->depths[node] = growth->depths[branch.parent] + 1;
    growth->n_tree++;
    return 0;
}

/* Whether the text up to a node ends with a sequence. */
static int ends_with(const Growth *growth, Py_ssize_t node, const int32_t *stop, Py_ssize_t n_stop) {
    Py_ssize_t n_tail = growth->n_tail;
    while (n_stop > 0 && node > 0) {
        if (growth->tree[node].token != stop[--n_stop]) {
            return 0;
        }
        node = growth->tree[node].parent;
    }
    while (n_stop > 0 && n_tail > 0) {
        if (growth->tail[--n_tail] != stop[--n_stop]) {
            return 0;
        }
    }
    return n_stop == 0;
}

static int stopped(const Growth *growth, Py_ssize_t node) {
    Py_ssize_t start = 0;
    for (Py_ssize_t at = 0; at < growth->n_stops; at++) {
        Py_ssize_t end = growth->stop_ends[at];
        if (end > start && ends_with(growth, node, &growth->stops[start], end - start)) {
            return 1;
        }
        start = end;
    }
    return 0;
}

static int grow_tree(Growth *growth) {
    if (growth->max_depth > 0 && growth->n_tree < growth->budget && queue(growth, 0) < 0) {
        return -1;
    }
    while (growth->n_heap > 0 && growth->n_tree < growth->budget) {
        if (settle(growth, pop(growth)) < 0) {
            return -1;
        }
        Py_ssize_t node = growth->n_tree - 1;
        if (growth->n_tree < growth->budget && growth->depths[node] < growth->max_depth &&
            !stopped(growth, node) && queue(growth, node) < 0) {
            return -1;
        }
    }
    return 0;
}

/* grow(tries, states, last_token, limits, beliefs) */
PyObject *core_grow(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    CoreState *state = PyModule_GetState(module);
    Growth growth = {0};
    PyObject *result = NULL;
    if (n_args != 5) {
        return PyErr_Format(PyExc_TypeError, "grow takes 5 arguments, got %zd", n_args);
    }
    if (read_arguments(&growth, state, args) == 0 && grow_tree(&growth) == 0) {
        result = grown(&growth, state);
    }
    release(&growth);
    return result;
}
