/* The Python module: addresses and sizes in, results in place. Its one caller has checked shapes and types. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "_kernels.h"

#include <string.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

static const Kernels *kernels;

/* ---- Arguments ------------------------------------------------------------------------------------ */

static int fits(Py_ssize_t given, Py_ssize_t wanted) {
    if (given != wanted) {
        PyErr_Format(PyExc_TypeError, "expected %zd arguments, not %zd", wanted, given);
    }
    return given == wanted;
}

static void *address(PyObject *object) { return PyLong_AsVoidPtr(object); }

static ptrdiff_t number(PyObject *object) { return PyLong_AsSsize_t(object); }

static PyObject *finished(int done) { return done ? Py_NewRef(Py_None) : PyErr_NoMemory(); }

/* ---- Products ------------------------------------------------------------------------------------- */

PyDoc_STRVAR(linear_doc, "linear(x, x_row, rows, inputs, outputs, weights, format, scales, bias, out, threads)");

static PyObject *linear(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (!fits(n_args, 11)) {
        return NULL;
    }
    Linear task;
    memset(&task, 0, sizeof(task));
    task.x = address(args[0]);
    task.x_row = number(args[1]);
    task.rows = number(args[2]);
    task.inputs = number(args[3]);
    task.outputs = number(args[4]);
    task.weights = address(args[5]);
    task.format = (Format)number(args[6]);
    task.scales = address(args[7]);
    task.bias = address(args[8]);
    task.out = address(args[9]);
    int threads = (int)number(args[10]), done;
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    done = run_linear(kernels, &task, threads);
    Py_END_ALLOW_THREADS;
    return finished(done);
}

/* ---- Packing -------------------------------------------------------------------------------------- */

typedef struct {
    const char *from;
    char *to;
    ptrdiff_t outputs, inputs, size, from_row;
} Packing;

/* One group of outputs; 8-bit weights in pairs of inputs, zeros where there is no weight. */
static void pack_unit(void *context, ptrdiff_t group, int thread) {
    const Packing *packing = context;
    ptrdiff_t size = packing->size, pair = size == 1 ? 2 : 1;
    ptrdiff_t depths = (packing->inputs + pair - 1) / pair * pair;
    char *to = packing->to + group * GROUP * depths * size;
    (void)thread;
    memset(to, 0, (size_t)(GROUP * depths * size));
    for (ptrdiff_t block = 0; block < depths; block += BLOCK) {
        ptrdiff_t depth = depths - block < BLOCK ? depths - block : BLOCK;
        for (ptrdiff_t output = 0; output < GROUP && group * GROUP + output < packing->outputs; output++) {
            const char *row = packing->from + (group * GROUP + output) * packing->from_row;
            char *column = to + (output / PANEL * depth * PANEL + output % PANEL * pair) * size;
            for (ptrdiff_t k = 0; k < depth && block + k < packing->inputs; k++) {
                memcpy(column + (k / pair * pair * PANEL + k % pair) * size, row + (block + k) * size, (size_t)size);
            }
        }
        to += GROUP * depth * size;
    }
}

PyDoc_STRVAR(pack_doc, "pack(from, from_row_bytes, to, outputs, inputs, element_size, threads)");

static PyObject *pack(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (!fits(n_args, 7)) {
        return NULL;
    }
    Packing packing = {address(args[0]), address(args[2]), number(args[3]),
                       number(args[4]),  number(args[5]),  number(args[1])};
    int threads = (int)number(args[6]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    share_out(pack_unit, &packing, (packing.outputs + GROUP - 1) / GROUP, threads);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(large_pages_doc, "large_pages(address, bytes)\n\nAsk for large pages, before the memory is written.");

static PyObject *large_pages(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (!fits(n_args, 2)) {
        return NULL;
    }
    uintptr_t start = (uintptr_t)address(args[0]);
    size_t bytes = (size_t)number(args[1]);
    if (PyErr_Occurred()) {
        return NULL;
    }
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    uintptr_t page = 4096, first = (start + page - 1) / page * page;
    if (start + bytes > first + page) {
        (void)madvise((void *)first, start + bytes - first, MADV_HUGEPAGE); /* a refusal costs speed only */
    }
#else
    (void)start;
    (void)bytes;
#endif
    Py_RETURN_NONE;
}

/* ---- Attention ------------------------------------------------------------------------------------ */

PyDoc_STRVAR(attention_doc,
             "attention(query, query_head, query_row, keys, key_head, key_row, values, value_head, value_row,\n"
             "          visible, visible_row, out, rows, heads, groups, n_keys, width, value_width, scale,\n"
             "          softcap, threads)");

static int attention_arguments(PyObject *const *args, Attention *task) {
    task->query = address(args[0]);
    task->query_head = number(args[1]);
    task->query_row = number(args[2]);
    task->keys = address(args[3]);
    task->key_head = number(args[4]);
    task->key_row = number(args[5]);
    task->values = address(args[6]);
    task->value_head = number(args[7]);
    task->value_row = number(args[8]);
    task->visible = address(args[9]);
    task->visible_row = number(args[10]);
    task->out = address(args[11]);
    task->rows = number(args[12]);
    task->heads = number(args[13]);
    task->groups = number(args[14]);
    task->n_keys = number(args[15]);
    task->width = number(args[16]);
    task->value_width = number(args[17]);
    task->scale = (float)PyFloat_AsDouble(args[18]);
    task->softcap = (float)PyFloat_AsDouble(args[19]);
    return PyErr_Occurred() == NULL;
}

static PyObject *attention(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    Attention task;
    memset(&task, 0, sizeof(task));
    if (!fits(n_args, 21) || !attention_arguments(args, &task)) {
        return NULL;
    }
    int threads = (int)number(args[20]), done;
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    done = run_attention(kernels, &task, threads);
    Py_END_ALLOW_THREADS;
    return finished(done);
}

/* ---- Ranking -------------------------------------------------------------------------------------- */

PyDoc_STRVAR(rank_doc, "rank(x, x_row, rows, n, count, ids, values, threads)");

static PyObject *rank(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (!fits(n_args, 8)) {
        return NULL;
    }
    Ranking ranking = {address(args[0]), number(args[1]), number(args[2]), number(args[3]),
                       number(args[4]),  address(args[5]), address(args[6])};
    int threads = (int)number(args[7]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    run_ranking(kernels, &ranking, threads);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* ---- A whole pass --------------------------------------------------------------------------------- */

PyDoc_STRVAR(layers_doc, "layers(table, n_layers, last_norm, x, rows, prefix, capacity, hidden, heads, groups, width,\n"
                         "       cosines, sines, visible, visible_within, epsilon, scale, threads)");

static PyObject *layers(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    Pass pass;
    if (!fits(n_args, 18)) {
        return NULL;
    }
    pass.layers = address(args[0]);
    pass.n_layers = number(args[1]);
    pass.last_norm = address(args[2]);
    pass.x = address(args[3]);
    pass.rows = number(args[4]);
    pass.prefix = number(args[5]);
    pass.capacity = number(args[6]);
    pass.hidden = number(args[7]);
    pass.heads = number(args[8]);
    pass.groups = number(args[9]);
    pass.width = number(args[10]);
    pass.cosines = address(args[11]);
    pass.sines = address(args[12]);
    pass.visible[0] = address(args[13]);
    pass.visible[1] = address(args[14]);
    pass.epsilon = (float)PyFloat_AsDouble(args[15]);
    pass.scale = (float)PyFloat_AsDouble(args[16]);
    int threads = (int)number(args[17]), done;
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    done = run_layers(kernels, &pass, threads);
    Py_END_ALLOW_THREADS;
    return finished(done);
}

/* ---- Module --------------------------------------------------------------------------------------- */

/* The kernels of that name, or the fastest; NULL where this processor has not got them. */
static const Kernels *kernels_named(const char *name) {
    const Kernels *known[] = {amx_kernels(), avx512_kernels(), avx2_kernels(), &portable_kernels};
    for (int i = 0; i < 4; i++) {
        if (known[i] != NULL && (*name == '\0' || strcmp(name, known[i]->name) == 0)) {
            return known[i];
        }
    }
    return NULL;
}

PyDoc_STRVAR(use_doc, "use(name)\n\nTake the kernels \"portable\", \"avx2\", \"avx512\" or \"amx\", or the fastest,\n"
                      "\"\"; returns their name, or None where this processor has not got them.");

static PyObject *use(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) {
        return NULL;
    }
    const Kernels *found = kernels_named(text);
    if (found == NULL) {
        Py_RETURN_NONE;
    }
    kernels = found;
    return PyUnicode_FromString(kernels->name);
}

PyDoc_STRVAR(kind_doc, "kind()\n\nThe name of the kernels that are used.");

static PyObject *kind(PyObject *module, PyObject *nothing) {
    (void)module;
    (void)nothing;
    return PyUnicode_FromString(kernels->name);
}

/* Method tables hold one type of function; the flags say what each one is. */
#define FAST_CALL(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"linear", FAST_CALL(linear), METH_FASTCALL, linear_doc},
    {"attention", FAST_CALL(attention), METH_FASTCALL, attention_doc},
    {"rank", FAST_CALL(rank), METH_FASTCALL, rank_doc},
    {"layers", FAST_CALL(layers), METH_FASTCALL, layers_doc},
    {"pack", FAST_CALL(pack), METH_FASTCALL, pack_doc},
    {"large_pages", FAST_CALL(large_pages), METH_FASTCALL, large_pages_doc},
    {"use", use, METH_O, use_doc},
    {"kind", kind, METH_NOARGS, kind_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "Matrix products and attention whose rows stand alone.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void) {
    kernels = kernels_named("");
    return PyModule_Create(&definition);
}
