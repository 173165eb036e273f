/* The types Windows and Contexts, and the module. See _core.h for the layout. */

#include "_core.h"

#include <stddef.h>

#define NODE_BYTES 60 /* measured: a node with its share of spare room, of the table and of arrays */

/* ---- Python values -------------------------------------------------------------------------------- */

int token_from(PyObject *object, int32_t *token) {
    if (!PyLong_Check(object)) {
        PyErr_Format(PyExc_TypeError, "a token id must be an int, not %s", Py_TYPE(object)->tp_name);
        return -1;
    }
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow < 0 || (overflow == 0 && value < 0)) {
        PyErr_SetString(PyExc_ValueError, "a token id cannot be negative");
        return -1;
    }
    if (overflow > 0 || value > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "a token id must be less than 2147483648");
        return -1;
    }
    *token = (int32_t)value;
    return 0;
}

/* The last `most` tokens of a sequence, in memory of their own. */
int32_t *tokens_from(PyObject *sequence, Py_ssize_t most, Py_ssize_t *n_tokens) {
    PyObject *fast = PySequence_Fast(sequence, "token ids must be a sequence of int");
    if (fast == NULL) {
        return NULL;
    }
    Py_ssize_t n_all = PySequence_Fast_GET_SIZE(fast);
    Py_ssize_t first = n_all > most ? n_all - most : 0;
    int32_t *tokens = PyMem_New(int32_t, n_all - first + 1);
    if (tokens == NULL) {
        Py_DECREF(fast);
        PyErr_NoMemory();
        return NULL;
    }
    *n_tokens = n_all - first;
    for (Py_ssize_t at = 0; at < *n_tokens; at++) {
        if (token_from(PySequence_Fast_GET_ITEM(fast, first + at), &tokens[at]) < 0) {
            PyMem_Free(tokens);
            Py_DECREF(fast);
            return NULL;
        }
    }
    Py_DECREF(fast);
    return tokens;
}

static CoreState *state_of(PyObject *self) {
    return PyType_GetModuleState(Py_TYPE(self));
}

/* ---- Contexts ------------------------------------------------------------------------------------- */

static Contexts *new_contexts(CoreState *state, Windows *windows, const int32_t *nodes, int32_t n_nodes) {
    PyTypeObject *type = state->contexts_type;
    Contexts *contexts = (Contexts *)type->tp_alloc(type, n_nodes);
    if (contexts != NULL) {
        contexts->windows = (Windows *)Py_NewRef(windows);
        contexts->epoch = windows->epoch;
        memcpy(contexts->nodes, nodes, (size_t)n_nodes * sizeof(int32_t));
    }
    return contexts;
}

/* A borrowed reference to contexts that can be followed in `windows`; else an exception is set. */
Contexts *contexts_from(CoreState *state, Windows *windows, PyObject *object) {
    if (!Py_IS_TYPE(object, state->contexts_type)) {
        PyErr_Format(PyExc_TypeError, "expected the compiled core's Contexts, not %s",
                     Py_TYPE(object)->tp_name);
        return NULL;
    }
    Contexts *contexts = (Contexts *)object;
    if (contexts->windows != windows || contexts->epoch != windows->epoch) {
        PyErr_SetString(PyExc_ValueError, "contexts of other windows, or from before these forgot something");
        return NULL;
    }
    return contexts;
}

static void contexts_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Contexts *)self)->windows);
    type->tp_free(self);
    Py_DECREF(type);
}

static Py_ssize_t contexts_length(PyObject *self) {
    return Py_SIZE(self);
}

static PyObject *contexts_compare(PyObject *self, PyObject *other, int operation) {
    if (!Py_IS_TYPE(other, Py_TYPE(self)) || (operation != Py_EQ && operation != Py_NE)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    const Contexts *a = (Contexts *)self, *b = (Contexts *)other;
    int same = a->windows == b->windows && a->epoch == b->epoch && Py_SIZE(self) == Py_SIZE(other) &&
               memcmp(a->nodes, b->nodes, (size_t)Py_SIZE(self) * sizeof(int32_t)) == 0;
    return PyBool_FromLong(same == (operation == Py_EQ));
}

PyDoc_STRVAR(contexts_doc, "The nodes that match the end of a text, the root first.");

static PyType_Slot contexts_slots[] = {
    {Py_tp_doc, (void *)contexts_doc},
    {Py_tp_dealloc, contexts_dealloc},
    {Py_sq_length, contexts_length},
    {Py_tp_richcompare, contexts_compare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {0, NULL},
};

static PyType_Spec contexts_spec = {
    .name = "ragla.trie._core.Contexts",
    .basicsize = offsetof(Contexts, nodes),
    .itemsize = sizeof(int32_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = contexts_slots,
};

/* ---- Windows -------------------------------------------------------------------------------------- */

static PyObject *windows_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static char *names[] = {"order", NULL};
    Py_ssize_t order;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "n:Windows", names, &order)) {
        return NULL;
    }
    if (order < 1) {
        return PyErr_Format(PyExc_ValueError, "order must be at least 1, not %zd", order);
    }
    if (order > MAX_ORDER) {
        return PyErr_Format(PyExc_ValueError, "order must be at most %d, not %zd", MAX_ORDER, order);
    }
    Windows *windows = (Windows *)type->tp_alloc(type, 0);
    if (windows == NULL) {
        return NULL;
    }
    windows->order = (int32_t)order;
    if (windows_clear(windows) < 0) {
        Py_DECREF(windows);
        return NULL;
    }
    return (PyObject *)windows;
}

static void windows_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    windows_free((Windows *)self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Whether the windows may be changed: not while a growth that reads them has called Python code. */
static int writable(const Windows *windows) {
    if (windows->readers > 0) {
        PyErr_SetString(PyExc_RuntimeError, "windows changed while a draft was grown from them");
        return 0;
    }
    return 1;
}

static PyObject *method_clear(PyObject *self, PyObject *Py_UNUSED(none)) {
    if (!writable((Windows *)self) || windows_clear((Windows *)self) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *method_start(PyObject *self, PyObject *Py_UNUSED(none)) {
    windows_start((Windows *)self);
    Py_RETURN_NONE;
}

static PyObject *method_count(PyObject *self, PyObject *token_ids) {
    Py_ssize_t n_tokens;
    int32_t *tokens = tokens_from(token_ids, PY_SSIZE_T_MAX, &n_tokens);
    if (tokens == NULL) {
        return NULL;
    }
    int failed = !writable((Windows *)self) || windows_count((Windows *)self, tokens, n_tokens) < 0;
    PyMem_Free(tokens);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyObject *method_forget(PyObject *self, PyObject *token_ids) {
    Py_ssize_t n_tokens;
    int32_t *tokens = tokens_from(token_ids, PY_SSIZE_T_MAX, &n_tokens);
    if (tokens == NULL) {
        return NULL;
    }
    int allowed = writable((Windows *)self);
    if (allowed) {
        windows_forget((Windows *)self, tokens, n_tokens);
    }
    PyMem_Free(tokens);
    return allowed ? Py_NewRef(Py_None) : NULL;
}

static PyObject *method_match(PyObject *self, PyObject *token_ids) {
    Windows *windows = (Windows *)self;
    int32_t contexts[2][MAX_ORDER + 1] = {{ROOT}};
    int32_t n_contexts = 1;
    Py_ssize_t n_tokens;
    int32_t *tokens = tokens_from(token_ids, windows->order, &n_tokens);
    if (tokens == NULL) {
        return NULL;
    }
    for (Py_ssize_t at = 0; at < n_tokens; at++) {
        n_contexts =
            windows_follow(windows, contexts[at % 2], n_contexts, tokens[at], contexts[(at + 1) % 2]);
    }
    PyMem_Free(tokens);
    return (PyObject *)new_contexts(state_of(self), windows, contexts[n_tokens % 2], n_contexts);
}

/* Arguments (contexts, token) of a method. Returns the contexts, borrowed. */
static Contexts *contexts_and_token(PyObject *self, PyObject *const *args, Py_ssize_t n_args,
                                    int32_t *token) {
    if (n_args != 2) {
        PyErr_Format(PyExc_TypeError, "expected contexts and a token id, got %zd arguments", n_args);
        return NULL;
    }
    if (token_from(args[1], token) < 0) {
        return NULL;
    }
    return contexts_from(state_of(self), (Windows *)self, args[0]);
}

static PyObject *method_advance(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    Windows *windows = (Windows *)self;
    int32_t token, advanced[MAX_ORDER + 1];
    Contexts *contexts = contexts_and_token(self, args, n_args, &token);
    if (contexts == NULL) {
        return NULL;
    }
    int32_t n_contexts = (int32_t)Py_SIZE(contexts);
    int32_t n_advanced = windows_follow(windows, contexts->nodes, n_contexts, token, advanced);
    return (PyObject *)new_contexts(state_of(self), windows, advanced, n_advanced);
}

static PyObject *method_judge(PyObject *self, PyObject *const *args, Py_ssize_t n_args) {
    Windows *windows = (Windows *)self;
    int32_t token, longer = NONE;
    Contexts *contexts = contexts_and_token(self, args, n_args, &token);
    PyObject *judged = contexts == NULL ? NULL : PyList_New(0);
    if (judged == NULL) {
        return NULL;
    }
    int hit = 0;
    for (int32_t k = (int32_t)Py_SIZE(contexts) - 1; k > 0 && !hit; k--) {
        int32_t node = contexts->nodes[k];
        if (added(windows, node, longer) <= 0) {
            continue;
        }
        hit = counted(windows, node, token) > counted(windows, longer, token);
        PyObject *verdict =
            Py_BuildValue("iiO", k, kind(windows, node, longer), hit ? Py_True : Py_False);
        if (verdict == NULL || PyList_Append(judged, verdict) < 0) {
            Py_XDECREF(verdict);
            Py_DECREF(judged);
            return NULL;
        }
        Py_DECREF(verdict);
        longer = node;
    }
    return judged;
}

static PyObject *method_known(PyObject *self, PyObject *object) {
    int32_t token;
    if (token_from(object, &token) < 0) {
        return NULL;
    }
    return PyBool_FromLong(find_follower((Windows *)self, ROOT, token) != NONE);
}

static PyObject *method_position(PyObject *self, PyObject *object) {
    const Windows *windows = (Windows *)self;
    Contexts *contexts = contexts_from(state_of(self), (Windows *)self, object);
    if (contexts == NULL) {
        return NULL;
    }
    return PyLong_FromLong(windows->nodes[contexts->nodes[Py_SIZE(contexts) - 1]].position);
}

static PyObject *method_followers(PyObject *self, PyObject *object) {
    const Windows *windows = (Windows *)self;
    Contexts *contexts = contexts_from(state_of(self), (Windows *)self, object);
    if (contexts == NULL) {
        return NULL;
    }
    const Node *node = &windows->nodes[contexts->nodes[Py_SIZE(contexts) - 1]];
    Edge room;
    const Edge *edges = followers_of(node, &room);
    PyObject *found = PyList_New(node->n_followers);
    for (int32_t at = 0; found != NULL && at < node->n_followers; at++) {
        PyObject *pair = Py_BuildValue("ii", edges[at].token, edges[at].count);
        if (pair == NULL) {
            Py_CLEAR(found);
        } else {
            PyList_SET_ITEM(found, at, pair);
        }
    }
    return found;
}

static PyObject *method_check(PyObject *self, PyObject *object) {
    if (contexts_from(state_of(self), (Windows *)self, object) == NULL) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *method_sizeof(PyObject *self, PyObject *Py_UNUSED(none)) {
    return PyLong_FromSize_t(windows_bytes((Windows *)self));
}

static PyObject *get_order(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromLong(((Windows *)self)->order);
}

static PyObject *get_length(PyObject *self, void *Py_UNUSED(closure)) {
    return PyLong_FromLong(((Windows *)self)->length);
}

static PyObject *get_node_count(PyObject *self, void *Py_UNUSED(closure)) {
    const Windows *windows = (Windows *)self;
    return PyLong_FromLong(windows->n_nodes - windows->n_free - 1);
}

#define FASTCALL(function) (PyCFunction)(void (*)(void))(function)

static PyMethodDef windows_methods[] = {
    {"clear", method_clear, METH_NOARGS, "clear($self)\n--\n\nForget everything."},
    {"start", method_start, METH_NOARGS,
     "start($self)\n--\n\nThe next token counted begins a new sequence."},
    {"count", method_count, METH_O, "count($self, token_ids, /)\n--\n\nCount more tokens of the sequence."},
    {"forget", method_forget, METH_O,
     "forget($self, token_ids, /)\n--\n\nTake back a sequence that was counted whole."},
    {"match", method_match, METH_O,
     "match($self, token_ids, /)\n--\n\nThe contexts that match the end of a sequence."},
    {"advance", FASTCALL(method_advance), METH_FASTCALL,
     "advance($self, contexts, token, /)\n--\n\nThe matching contexts one token later."},
    {"known", method_known, METH_O, "known($self, token, /)\n--\n\nWhether the token was counted."},
    {"position", method_position, METH_O,
     "position($self, contexts, /)\n--\n\nWhere the longest context was read last."},
    {"followers", method_followers, METH_O,
     "followers($self, contexts, /)\n--\n\nWhat followed the longest context, with counts."},
    {"check", method_check, METH_O,
     "check($self, contexts, /)\n--\n\nRaise ValueError unless the contexts are these windows', and fresh."},
    {"judge", FASTCALL(method_judge), METH_FASTCALL,
     "judge($self, contexts, token, /)\n--\n\nWhich contexts said what about a token."},
    {"__sizeof__", method_sizeof, METH_NOARGS,
     "__sizeof__($self)\n--\n\nBytes, those of the nodes included."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef windows_attributes[] = {
    {"order", get_order, NULL, "Tokens of the longest context.", NULL},
    {"length", get_length, NULL, "Tokens counted so far.", NULL},
    {"node_count", get_node_count, NULL, "Nodes without the root.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(windows_doc, "Windows(order)\n--\n\nWindows of ``order + 1`` tokens with counts.");

static PyType_Slot windows_slots[] = {
    {Py_tp_doc, (void *)windows_doc},
    {Py_tp_new, windows_new},
    {Py_tp_dealloc, windows_dealloc},
    {Py_tp_methods, windows_methods},
    {Py_tp_getset, windows_attributes},
    {0, NULL},
};

static PyType_Spec windows_spec = {
    .name = "ragla.trie._core.Windows",
    .basicsize = sizeof(Windows),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = windows_slots,
};

/* ---- step ----------------------------------------------------------------------------------------- */

/* windows_follow; an unread token is followed like the one that `variants` says is written alike. Writes at
 * most order + 1 contexts, or returns -1 with an exception set. */
int32_t step_contexts(const Windows *windows, const int32_t *contexts, int32_t n_contexts, int32_t token,
                      PyObject *variants, int32_t *advanced) {
    int32_t n_advanced = windows_follow(windows, contexts, n_contexts, token, advanced);
    if (n_advanced > 1 || PyDict_GET_SIZE(variants) == 0) {
        return n_advanced;
    }
    PyObject *key = PyLong_FromLong(token);
    PyObject *alike = key == NULL ? NULL : PyDict_GetItemWithError(variants, key);
    Py_XDECREF(key);
    if (alike == NULL) {
        return PyErr_Occurred() ? -1 : n_advanced;
    }
    if (token_from(alike, &token) < 0) {
        return -1;
    }
    const int32_t root = ROOT;
    return windows_follow(windows, &root, 1, token, advanced);
}

static PyObject *core_step(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    CoreState *state = PyModule_GetState(module);
    int32_t token, advanced[MAX_ORDER + 1];
    if (n_args != 4 || !Py_IS_TYPE(args[0], state->windows_type) || !PyDict_Check(args[3])) {
        PyErr_SetString(PyExc_TypeError, "step takes a Windows, contexts, a token id and a dict of variants");
        return NULL;
    }
    Windows *windows = (Windows *)args[0];
    Contexts *contexts = contexts_from(state, windows, args[1]);
    if (contexts == NULL || token_from(args[2], &token) < 0) {
        return NULL;
    }
    windows->readers++;
    int32_t n_advanced =
        step_contexts(windows, contexts->nodes, (int32_t)Py_SIZE(contexts), token, args[3], advanced);
    windows->readers--;
    return n_advanced < 0 ? NULL : (PyObject *)new_contexts(state, windows, advanced, n_advanced);
}

/* ---- the module ----------------------------------------------------------------------------------- */

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyModule_AddType(module, (PyTypeObject *)type) < 0) {
        Py_CLEAR(type);
    }
    return (PyTypeObject *)type;
}

static PyObject *imported(const char *module_name, const char *name) {
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *found = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return found;
}

static int core_exec(PyObject *module) {
    CoreState *state = PyModule_GetState(module);
    if ((state->grown_type = imported("ragla.trie.growth", "Grown")) == NULL ||
        (state->windows_type = add_type(module, &windows_spec)) == NULL ||
        (state->contexts_type = add_type(module, &contexts_spec)) == NULL) {
        return -1;
    }
    PyObject *node_bytes = PyLong_FromLong(NODE_BYTES);
    int failed = node_bytes == NULL ||
                 PyObject_SetAttrString((PyObject *)state->windows_type, "node_bytes", node_bytes) < 0;
    Py_XDECREF(node_bytes);
    return failed ? -1 : 0;
}

static int core_traverse(PyObject *module, visitproc visit, void *arg) {
    CoreState *state = PyModule_GetState(module);
    Py_VISIT(state->windows_type);
    Py_VISIT(state->contexts_type);
    Py_VISIT(state->grown_type);
    return 0;
}

static int core_clear(PyObject *module) {
    CoreState *state = PyModule_GetState(module);
    Py_CLEAR(state->windows_type);
    Py_CLEAR(state->contexts_type);
    Py_CLEAR(state->grown_type);
    return 0;
}

static PyMethodDef core_methods[] = {
    {"grow", FASTCALL(core_grow), METH_FASTCALL,
     "grow(tries, states, last_token, limits, beliefs, /)\n--\n\n"
     "The best tree after a token, likeliest node first."},
    {"step", FASTCALL(core_step), METH_FASTCALL,
     "step(trie, state, token, variants, /)\n--\n\nThe matching contexts one token later."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot core_slots[] = {
    {Py_mod_exec, core_exec},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ragla.trie._core",
    .m_doc = "The compiled drafting core; windows.py and growth.py are its twins in Python.",
    .m_size = sizeof(CoreState),
    .m_methods = core_methods,
    .m_slots = core_slots,
    .m_traverse = core_traverse,
    .m_clear = core_clear,
};

PyMODINIT_FUNC PyInit__core(void) {
    return PyModuleDef_Init(&core_module);
}
