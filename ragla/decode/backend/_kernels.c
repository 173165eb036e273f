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

/* ---- Products ------------------------------------------------------------------------------------- */

typedef struct {
    Linear linear;
    ptrdiff_t row_blocks;
    float *x_scales;
    int16_t *levels;
} Product;

static ptrdiff_t even(ptrdiff_t inputs) { return (inputs + 1) / 2 * 2; }

static void quantise_unit(void *context, ptrdiff_t unit, int thread) {
    Product *product = context;
    const Linear *linear = &product->linear;
    (void)thread;
    kernels->quantise_row(linear->x + unit * linear->x_row, linear->inputs,
                          product->levels + unit * even(linear->inputs), product->x_scales + unit);
}

static void product_unit(void *context, ptrdiff_t unit, int thread) {
    Product *product = context;
    ptrdiff_t group = unit / product->row_blocks, first = unit % product->row_blocks * LINEAR_ROWS;
    ptrdiff_t left = product->linear.rows - first;
    (void)thread;
    kernels->linear_unit(&product->linear, group, first, left < LINEAR_ROWS ? left : LINEAR_ROWS);
}

static void multiply(Product *product, int threads) {
    enum { FEW = 1 << 16 }; /* products or numbers that are not worth waking a thread for */
    Linear *linear = &product->linear;
    if (linear->format == INTEGER8) {
        share_out(quantise_unit, product, linear->rows, linear->rows * linear->inputs < FEW ? 1 : threads);
    }
    ptrdiff_t groups = (linear->outputs + GROUP - 1) / GROUP;
    product->row_blocks = (linear->rows + LINEAR_ROWS - 1) / LINEAR_ROWS;
    int few = linear->rows * linear->inputs * linear->outputs < FEW;
    share_out(product_unit, product, groups * product->row_blocks, few ? 1 : threads);
}

PyDoc_STRVAR(linear_doc, "linear(x, x_row, rows, inputs, outputs, weights, format, scales, bias, out, threads)");

static PyObject *linear(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (!fits(n_args, 11)) {
        return NULL;
    }
    Product product;
    memset(&product, 0, sizeof(product));
    Linear *task = &product.linear;
    task->x = address(args[0]);
    task->x_row = number(args[1]);
    task->rows = number(args[2]);
    task->inputs = number(args[3]);
    task->outputs = number(args[4]);
    task->weights = address(args[5]);
    task->format = (Format)number(args[6]);
    task->scales = address(args[7]);
    task->bias = address(args[8]);
    task->out = address(args[9]);
    int threads = (int)number(args[10]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (task->format == INTEGER8) {
        size_t levels = (size_t)(task->rows * even(task->inputs)) * sizeof(int16_t);
        product.x_scales = PyMem_RawMalloc((size_t)task->rows * sizeof(float) + levels);
        if (product.x_scales == NULL) {
            return PyErr_NoMemory();
        }
        product.levels = (int16_t *)(void *)(product.x_scales + task->rows);
        task->levels = product.levels;
        task->x_scales = product.x_scales;
    }
    Py_BEGIN_ALLOW_THREADS;
    multiply(&product, threads);
    Py_END_ALLOW_THREADS;
    PyMem_RawFree(product.x_scales);
    Py_RETURN_NONE;
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

typedef struct {
    Attention attention;
    ptrdiff_t blocks, folded;
    char *scratch;
    size_t scratch_bytes;
} Attending;

size_t attention_scratch(const Attention *attention) {
    size_t block = (size_t)attention->block, width = (size_t)attention->width;
    size_t floats = block * width + KEY_TILE * width + block * (size_t)scores_row(attention) +
                    block * (size_t)attention->value_width;
    size_t places = (block + 1) * (size_t)attention->n_keys;
    return ((block + 1) * sizeof(Seen) + floats * sizeof(float) + places * sizeof(int32_t) + 63) / 64 * 64;
}

static void attend_unit(void *context, ptrdiff_t unit, int thread) {
    Attending *task = context;
    ptrdiff_t first = unit % task->blocks * task->attention.block, left = task->folded - first;
    kernels->attention_unit(&task->attention, unit / task->blocks, first,
                            left < task->attention.block ? left : task->attention.block,
                            task->scratch + (size_t)thread * task->scratch_bytes);
}

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
    Attending task;
    memset(&task, 0, sizeof(task));
    if (!fits(n_args, 21) || !attention_arguments(args, &task.attention)) {
        return NULL;
    }
    int threads = (int)number(args[20]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    enum { FEW = 1 << 16 };
    task.folded = task.attention.rows * (task.attention.heads / task.attention.groups);
    if (task.attention.heads * task.attention.rows * task.attention.n_keys * task.attention.width < FEW) {
        threads = 1;
    }
    ptrdiff_t fair = (task.folded * task.attention.groups + threads - 1) / threads;
    ptrdiff_t block = fair < FOLDED_ROWS ? fair : FOLDED_ROWS;
    task.attention.block = block < task.folded ? block : task.folded;
    task.blocks = (task.folded + task.attention.block - 1) / task.attention.block;
    task.scratch_bytes = attention_scratch(&task.attention);
    task.scratch = PyMem_RawMalloc(task.scratch_bytes * (size_t)threads);
    if (task.scratch == NULL) {
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS;
    share_out(attend_unit, &task, task.blocks * task.attention.groups, threads);
    Py_END_ALLOW_THREADS;
    PyMem_RawFree(task.scratch);
    Py_RETURN_NONE;
}

/* ---- Module --------------------------------------------------------------------------------------- */

PyDoc_STRVAR(use_doc, "use(name)\n\nTake the kernels \"portable\" or the processor's own, \"\"; returns their name.");

static PyObject *use(PyObject *module, PyObject *name) {
    (void)module;
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) {
        return NULL;
    }
    const Kernels *fast = fast_kernels();
    kernels = strcmp(text, "portable") == 0 || fast == NULL ? &portable_kernels : fast;
    return PyUnicode_FromString(kernels->name);
}

/* Method tables hold one type of function; the flags say what each one is. */
#define FAST_CALL(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef methods[] = {
    {"linear", FAST_CALL(linear), METH_FASTCALL, linear_doc},
    {"attention", FAST_CALL(attention), METH_FASTCALL, attention_doc},
    {"pack", FAST_CALL(pack), METH_FASTCALL, pack_doc},
    {"large_pages", FAST_CALL(large_pages), METH_FASTCALL, large_pages_doc},
    {"use", use, METH_O, use_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_kernels", "Matrix products and attention whose rows stand alone.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernels(void) {
    const Kernels *fast = fast_kernels();
    kernels = fast == NULL ? &portable_kernels : fast;
    return PyModule_Create(&definition);
}
