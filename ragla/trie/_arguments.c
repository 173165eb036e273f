/* From grow()'s Python arguments to a Growth, and from that to a growth.Grown. */

#include "_growth.h"

#include <stddef.h>

static int wrong_type(const char *expected, PyObject *object) {
    PyErr_Format(PyExc_TypeError, "%s, not %s", expected, Py_TYPE(object)->tp_name);
    return -1;
}

static int read_tries(Growth *growth, CoreState *state, PyObject *tries) {
    PyObject *tuple = PySequence_Tuple(tries);
    if (tuple == NULL) {
        return -1;
    }
    Py_ssize_t n_tries = PyTuple_GET_SIZE(tuple);
    for (Py_ssize_t source = 0; source < n_tries; source++) {
        PyObject *trie = PyTuple_GET_ITEM(tuple, source);
        if (!Py_IS_TYPE(trie, state->windows_type)) {
            wrong_type("tries must be the compiled core's Windows", trie);
            Py_DECREF(tuple);
            return -1;
        }
    }
    if (n_tries < 1 || n_tries > INT16_MAX) {
        Py_DECREF(tuple);
        PyErr_SetString(PyExc_ValueError, "a draft grows from at least one trie");
        return -1;
    }
    growth->tries = tuple;
    growth->n_tries = (int32_t)n_tries;
    for (int32_t source = 0; source < growth->n_tries; source++) {
        ((Windows *)PyTuple_GET_ITEM(tuple, source))->readers++;
    }
    return 0;
}

/* Plants node 0, with the contexts that the text has reached. */
static int read_states(Growth *growth, CoreState *state, PyObject *states, PyObject *last_token) {
    growth->longer = PyMem_New(int32_t, growth->n_tries);
    if (growth->longer == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (widen_tree(growth) < 0) {
        return -1;
    }
    growth->tree[0] = (Branch){.parent = -1, .source = NO_SOURCE, .probability = 1.0};
    growth->depths[0] = 0;
    growth->n_tree = 1;
    PyObject *fast = PySequence_Fast(states, "states must be a sequence of Contexts");
    if (fast == NULL || token_from(last_token, &growth->tree[0].token) < 0) {
        Py_XDECREF(fast);
        return -1;
    }
    int failed = PySequence_Fast_GET_SIZE(fast) != growth->n_tries;
    if (failed) {
        PyErr_SetString(PyExc_ValueError, "there must be as many states as tries");
    }
    for (int32_t source = 0; source < growth->n_tries && !failed; source++) {
        Windows *windows = (Windows *)PyTuple_GET_ITEM(growth->tries, source);
        Contexts *contexts = contexts_from(state, windows, PySequence_Fast_GET_ITEM(fast, source));
        failed = contexts == NULL;
        if (!failed) {
            growth->reached[source].n_nodes = (int32_t)Py_SIZE(contexts);
            size_t n_bytes = (size_t)Py_SIZE(contexts) * sizeof(int32_t);
            memcpy(growth->reached[source].nodes, contexts->nodes, n_bytes);
        }
    }
    Py_DECREF(fast);
    return failed ? -1 : 0;
}

/* A bound; one beyond the range of an index is as good as its end. */
static int read_bound(PyObject *object, Py_ssize_t *bound) {
    int overflow;
    if (!PyLong_Check(object)) {
        return wrong_type("a limit must be an int", object);
    }
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    value = overflow > 0 || value > INT32_MAX ? INT32_MAX : value;
    *bound = overflow < 0 || value < 0 ? 0 : (Py_ssize_t)value;
    return 0;
}

static int read_set(PyObject *object, PyObject **set) {
    if (!PyAnySet_Check(object)) {
        return wrong_type("forbidden and barred tokens must be a set or frozenset", object);
    }
    *set = object;
    return 0;
}

static int append_stop(Growth *growth, PyObject *sequence) {
    Py_ssize_t n_tokens, end = growth->n_stops ? growth->stop_ends[growth->n_stops - 1] : 0;
    int32_t *tokens = tokens_from(sequence, PY_SSIZE_T_MAX, &n_tokens);
    int32_t *stops = tokens == NULL ? NULL : resized(growth->stops, end + n_tokens + 1, sizeof(int32_t));
    if (stops != NULL) {
        memcpy(&stops[end], tokens, (size_t)n_tokens * sizeof(int32_t));
        growth->stops = stops;
        growth->stop_ends[growth->n_stops++] = end + n_tokens;
    }
    PyMem_Free(tokens);
    return stops == NULL ? -1 : 0;
}

static int read_stops(Growth *growth, PyObject *stops) {
    PyObject *tuple = PySequence_Tuple(stops);
    if (tuple == NULL) {
        return -1;
    }
    Py_ssize_t n_stops = PyTuple_GET_SIZE(tuple);
    growth->stop_ends = resized(NULL, n_stops + 1, sizeof(Py_ssize_t));
    int failed = growth->stop_ends == NULL;
    for (Py_ssize_t at = 0; at < n_stops && !failed; at++) {
        failed = append_stop(growth, PyTuple_GET_ITEM(tuple, at)) < 0;
    }
    Py_DECREF(tuple);
    return failed ? -1 : 0;
}

/* The fields of growth.Limits. */
static int read_limits(Growth *growth, PyObject *limits) {
    if (!PyTuple_Check(limits) || PyTuple_GET_SIZE(limits) != 8) {
        return wrong_type("limits must be a Limits", limits);
    }
    if (read_bound(PyTuple_GET_ITEM(limits, 0), &growth->budget) < 0 ||
        read_bound(PyTuple_GET_ITEM(limits, 1), &growth->max_depth) < 0 ||
        read_bound(PyTuple_GET_ITEM(limits, 2), &growth->root_width) < 0 ||
        read_bound(PyTuple_GET_ITEM(limits, 3), &growth->width) < 0 ||
        read_set(PyTuple_GET_ITEM(limits, 4), &growth->forbidden) < 0 ||
        read_set(PyTuple_GET_ITEM(limits, 5), &growth->barred) < 0 ||
        read_stops(growth, PyTuple_GET_ITEM(limits, 6)) < 0) {
        return -1;
    }
    growth->tail = tokens_from(PyTuple_GET_ITEM(limits, 7), PY_SSIZE_T_MAX, &growth->n_tail);
    return growth->tail == NULL ? -1 : 0;
}

/* Borrows the doubles of an array('d'), at least `least` of them; `view->obj` says whether it did. */
static int read_doubles(PyObject *object, Py_ssize_t least, Py_buffer *view) {
    if (PyObject_GetBuffer(object, view, PyBUF_FORMAT | PyBUF_ND) < 0) {
        return -1;
    }
    int is_double = view->format != NULL && strcmp(view->format, "d") == 0;
    if (!is_double || view->ndim != 1 || view->itemsize != sizeof(double)) {
        return wrong_type("confidences and calibration must be arrays of doubles", object);
    }
    if (view->len < least * (Py_ssize_t)sizeof(double)) {
        PyErr_Format(PyExc_ValueError, "expected at least %zd doubles", least);
        return -1;
    }
    return 0;
}

static int read_confidence(Growth *growth, PyObject *arrays) {
    PyObject *tuple = PySequence_Tuple(arrays);
    if (tuple == NULL) {
        return -1;
    }
    growth->confidence = PyMem_Calloc((size_t)growth->n_tries, sizeof(Py_buffer));
    int failed = growth->confidence == NULL || PyTuple_GET_SIZE(tuple) != growth->n_tries;
    if (growth->confidence == NULL) {
        PyErr_NoMemory();
    } else if (failed) {
        PyErr_SetString(PyExc_ValueError, "there must be as many confidences as tries");
    }
    for (int32_t source = 0; source < growth->n_tries && !failed; source++) {
        Py_ssize_t least = KINDS * ((Py_ssize_t)trie_at(growth, source)->order + 1);
        failed = read_doubles(PyTuple_GET_ITEM(tuple, source), least, &growth->confidence[source]) < 0;
    }
    Py_DECREF(tuple);
    return failed ? -1 : 0;
}

static int read_extra(PyObject *pair, Follower *extra) {
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        return wrong_type("an extra must be a tuple of a token and its share", pair);
    }
    extra->share = PyFloat_AsDouble(PyTuple_GET_ITEM(pair, 1));
    return PyErr_Occurred() ? -1 : token_from(PyTuple_GET_ITEM(pair, 0), &extra->token);
}

static int read_extras(Growth *growth, PyObject *extras) {
    PyObject *tuple = PySequence_Tuple(extras);
    if (tuple == NULL) {
        return -1;
    }
    Py_ssize_t n_extras = PyTuple_GET_SIZE(tuple);
    growth->extras = resized(NULL, n_extras + 1, sizeof(Follower));
    int failed = growth->extras == NULL;
    for (Py_ssize_t at = 0; at < n_extras && !failed; at++) {
        failed = read_extra(PyTuple_GET_ITEM(tuple, at), &growth->extras[at]) < 0;
    }
    growth->n_extras = n_extras;
    Py_DECREF(tuple);
    return failed ? -1 : 0;
}

static int read_dict(PyObject *object, PyObject **dict) {
    if (!PyDict_Check(object)) {
        return wrong_type("ranks, variants and going_on must be a dict", object);
    }
    *dict = object;
    return 0;
}

/* The fields of growth.Beliefs. */
static int read_beliefs(Growth *growth, PyObject *beliefs) {
    if (!PyTuple_Check(beliefs) || PyTuple_GET_SIZE(beliefs) != 8) {
        return wrong_type("beliefs must be a Beliefs", beliefs);
    }
    growth->frequent_confidence = PyFloat_AsDouble(PyTuple_GET_ITEM(beliefs, 2));
    if (PyErr_Occurred() || read_confidence(growth, PyTuple_GET_ITEM(beliefs, 0)) < 0 ||
        read_doubles(PyTuple_GET_ITEM(beliefs, 1), 0, &growth->rank_confidence) < 0 ||
        read_doubles(PyTuple_GET_ITEM(beliefs, 3), 2 * CLASSES, &growth->calibration) < 0 ||
        read_dict(PyTuple_GET_ITEM(beliefs, 4), &growth->ranks) < 0 ||
        read_extras(growth, PyTuple_GET_ITEM(beliefs, 5)) < 0 ||
        read_dict(PyTuple_GET_ITEM(beliefs, 6), &growth->variants) < 0) {
        return -1;
    }
    return read_dict(PyTuple_GET_ITEM(beliefs, 7), &growth->going_on);
}

int read_arguments(Growth *growth, CoreState *state, PyObject *const *args) {
    return read_tries(growth, state, args[0]) < 0 || read_states(growth, state, args[1], args[2]) < 0 ||
                   read_limits(growth, args[3]) < 0 || read_beliefs(growth, args[4]) < 0
               ? -1
               : 0;
}

void release(Growth *growth) {
    for (int32_t source = 0; source < growth->n_tries; source++) {
        ((Windows *)PyTuple_GET_ITEM(growth->tries, source))->readers--;
        if (growth->confidence != NULL) {
            PyBuffer_Release(&growth->confidence[source]);
        }
    }
    PyBuffer_Release(&growth->rank_confidence);
    PyBuffer_Release(&growth->calibration);
    Py_XDECREF(growth->tries);
    void *owned[] = {growth->tail, growth->stops, growth->stop_ends, growth->confidence,
                     growth->extras, growth->tree, growth->reached, growth->depths,
                     growth->heap, growth->found, growth->seats, growth->longer};
    for (size_t at = 0; at < sizeof(owned) / sizeof(owned[0]); at++) {
        PyMem_Free(owned[at]);
    }
}

/* ---- the result ----------------------------------------------------------------------------------- */

static PyObject *column_of_ints(const Growth *growth, size_t offset) {
    PyObject *column = PyList_New(growth->n_tree);
    for (Py_ssize_t node = 0; column != NULL && node < growth->n_tree; node++) {
        int32_t value;
        memcpy(&value, (const char *)&growth->tree[node] + offset, sizeof(value));
        PyObject *item = PyLong_FromLong(value);
        if (item == NULL) {
            Py_CLEAR(column);
        } else {
            PyList_SET_ITEM(column, node, item);
        }
    }
    return column;
}

static PyObject *column_of_floats(const Growth *growth, size_t offset) {
    PyObject *column = PyList_New(growth->n_tree);
    for (Py_ssize_t node = 0; column != NULL && node < growth->n_tree; node++) {
        double value;
        memcpy(&value, (const char *)&growth->tree[node] + offset, sizeof(value));
        PyObject *item = PyFloat_FromDouble(value);
        if (item == NULL) {
            Py_CLEAR(column);
        } else {
            PyList_SET_ITEM(column, node, item);
        }
    }
    return column;
}

/* A growth.Grown. */
PyObject *grown(const Growth *growth, const CoreState *state) {
    PyObject *columns = PyTuple_New(7);
    PyObject *result = NULL;
    if (columns == NULL) {
        return NULL;
    }
    PyTuple_SET_ITEM(columns, 0, column_of_ints(growth, offsetof(Branch, token)));
    PyTuple_SET_ITEM(columns, 1, column_of_ints(growth, offsetof(Branch, parent)));
    PyTuple_SET_ITEM(columns, 2, column_of_floats(growth, offsetof(Branch, probability)));
    PyTuple_SET_ITEM(columns, 3, column_of_ints(growth, offsetof(Branch, source)));
    PyTuple_SET_ITEM(columns, 4, column_of_ints(growth, offsetof(Branch, position)));
    PyTuple_SET_ITEM(columns, 5, column_of_ints(growth, offsetof(Branch, group)));
    PyTuple_SET_ITEM(columns, 6, column_of_floats(growth, offsetof(Branch, score)));
    if (!PyErr_Occurred()) {
        result = PyObject_CallObject(state->grown_type, columns);
    }
    Py_DECREF(columns);
    return result;
}
