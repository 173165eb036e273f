/* Sharing out a product, an attention and a whole pass through the layers. */

#include "_kernels.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 1 << 16 }; /* multiply-adds or numbers that are not worth waking a thread for */

/* ---- Products ------------------------------------------------------------------------------------- */

typedef struct {
    const Kernels *kernels;
    const Linear *linear;
    ptrdiff_t row_blocks;
    float *x_scales;
    int16_t *levels;
} Product;

/* The first whole line of a room that has one more than is needed. */
static void *whole_lines(void *room) { return (char *)room + (LINE - (uintptr_t)room % LINE); }

static void quantise_unit(void *context, ptrdiff_t unit, int thread) {
    const Product *product = context;
    const Linear *linear = product->linear;
    (void)thread;
    product->kernels->quantise_row(linear->x + unit * linear->x_row, linear->inputs,
                                   product->levels + unit * levels_row(linear->inputs), product->x_scales + unit);
}

static void product_unit(void *context, ptrdiff_t unit, int thread) {
    const Product *product = context;
    ptrdiff_t group = unit / product->row_blocks, first = unit % product->row_blocks * LINEAR_ROWS;
    ptrdiff_t left = product->linear->rows - first;
    (void)thread;
    product->kernels->linear_unit(product->linear, group, first, left < LINEAR_ROWS ? left : LINEAR_ROWS);
}

int run_linear(const Kernels *kernels, Linear *linear, int threads) {
    Product product = {kernels, linear, (linear->rows + LINEAR_ROWS - 1) / LINEAR_ROWS, NULL, NULL};
    void *room = NULL;
    if (linear->format == INTEGER8) {
        size_t rows = (size_t)((linear->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS);
        room = malloc(rows * ((size_t)levels_row(linear->inputs) * sizeof(int16_t) + sizeof(float)) + LINE);
        if (room == NULL) {
            return 0;
        }
        product.levels = whole_lines(room);
        product.x_scales = (float *)(void *)(product.levels + (ptrdiff_t)rows * levels_row(linear->inputs));
        linear->x_scales = product.x_scales;
        linear->levels = product.levels;
        share_out(quantise_unit, &product, linear->rows, linear->rows * linear->inputs < FEW ? 1 : threads);
    }
    ptrdiff_t groups = (linear->outputs + GROUP - 1) / GROUP;
    linear->threads = linear->rows * linear->inputs * linear->outputs < FEW ? 1 : threads;
    share_out(product_unit, &product, groups * product.row_blocks, linear->threads);
    free(room);
    return 1;
}

/* ---- Attention ------------------------------------------------------------------------------------ */

typedef struct {
    const Kernels *kernels;
    const Attention *attention;
    ptrdiff_t blocks, folded;
    char *scratch;
    size_t scratch_bytes;
} Attending;

static size_t attention_scratch(const Attention *attention) {
    size_t block = (size_t)attention->block, width = (size_t)attention->width;
    size_t floats = block * width + KEY_TILE * width + block * (size_t)scores_row(attention) +
                    block * (size_t)attention->value_width;
    size_t places = (block + 1) * (size_t)attention->n_keys;
    return ((block + 1) * sizeof(Seen) + floats * sizeof(float) + places * sizeof(int32_t) + LINE - 1) / LINE * LINE;
}

static void attend_unit(void *context, ptrdiff_t unit, int thread) {
    const Attending *task = context;
    ptrdiff_t block = task->attention->block, first = unit % task->blocks * block, left = task->folded - first;
    task->kernels->attention_unit(task->attention, unit / task->blocks, first, left < block ? left : block,
                                  task->scratch + (size_t)thread * task->scratch_bytes);
}

int run_attention(const Kernels *kernels, Attention *attention, int threads) {
    Attending task = {kernels, attention, 0, attention->rows * (attention->heads / attention->groups), NULL, 0};
    if (attention->heads * attention->rows * attention->n_keys * attention->width < FEW) {
        threads = 1;
    }
    ptrdiff_t fair = (task.folded * attention->groups + threads - 1) / threads;
    ptrdiff_t block = fair < FOLDED_ROWS ? fair : FOLDED_ROWS;
    attention->block = block < task.folded ? block : task.folded;
    task.blocks = (task.folded + attention->block - 1) / attention->block;
    task.scratch_bytes = attention_scratch(attention);
    void *room = malloc(task.scratch_bytes * (size_t)threads + LINE);
    if (room == NULL) {
        return 0;
    }
    task.scratch = whole_lines(room);
    share_out(attend_unit, &task, task.blocks * attention->groups, threads);
    free(room);
    return 1;
}

/* ---- A pass --------------------------------------------------------------------------------------- */

typedef struct {
    const Kernels *kernels;
    const Pass *pass;
    const Layer *layer;
    const float *norm;
    Between between;
    float *normed;
    int threads;
} Passing;

static const float *floats_at(int64_t address) { return (const float *)(intptr_t)address; }

static void normalise_unit(void *context, ptrdiff_t row, int thread) {
    const Passing *passing = context;
    ptrdiff_t hidden = passing->pass->hidden;
    (void)thread;
    passing->kernels->normalise_row(passing->pass->x + row * hidden, passing->norm, hidden, passing->pass->epsilon,
                                    passing->normed + row * hidden);
}

static void place_unit(void *context, ptrdiff_t row, int thread) {
    const Passing *passing = context;
    (void)thread;
    passing->kernels->place_row(passing->pass, passing->layer, row,
                                passing->between.projected + row * passing->layer->projections.outputs);
}

static void gate_unit(void *context, ptrdiff_t row, int thread) {
    const Passing *passing = context;
    ptrdiff_t n = passing->layer->down.inputs;
    (void)thread;
    passing->kernels->gate_row(passing->between.gated + row * 2 * n, n, passing->between.active + row * n);
}

static void each_row(Passing *passing, Work work, ptrdiff_t numbers) {
    ptrdiff_t rows = passing->pass->rows;
    share_out(work, passing, rows, rows * numbers < FEW ? 1 : passing->threads);
}

static void normalise(Passing *passing, const float *norm, float *normed) {
    passing->norm = norm;
    passing->normed = normed;
    each_row(passing, normalise_unit, passing->pass->hidden);
}

static int project(const Passing *passing, const Weights *weights, const float *x, const float *addend, float *out) {
    Linear linear = {
        .x = x,
        .x_row = (ptrdiff_t)weights->inputs,
        .weights = (const char *)(intptr_t)weights->weights,
        .scales = floats_at(weights->scales),
        .bias = floats_at(weights->bias),
        .addend = addend,
        .out = out,
        .rows = passing->pass->rows,
        .inputs = (ptrdiff_t)weights->inputs,
        .outputs = (ptrdiff_t)weights->outputs,
        .format = (Format)weights->format,
    };
    return run_linear(passing->kernels, &linear, passing->threads);
}

static int attend_layer(const Passing *passing) {
    const Pass *pass = passing->pass;
    ptrdiff_t n_keys = pass->prefix + pass->rows;
    Attention attention = {
        .query = passing->between.projected,
        .keys = floats_at(passing->layer->keys),
        .values = floats_at(passing->layer->values),
        .visible = pass->visible[passing->layer->windowed],
        .out = passing->between.attended,
        .query_head = pass->width,
        .query_row = (ptrdiff_t)passing->layer->projections.outputs,
        .key_head = pass->capacity * pass->width,
        .key_row = pass->width,
        .value_head = pass->capacity * pass->width,
        .value_row = pass->width,
        .visible_row = n_keys,
        .rows = pass->rows,
        .heads = pass->heads,
        .groups = pass->groups,
        .n_keys = n_keys,
        .width = pass->width,
        .value_width = pass->width,
        .scale = pass->scale,
    };
    return run_attention(passing->kernels, &attention, passing->threads);
}

static int run_layer(Passing *passing) {
    const Layer *layer = passing->layer;
    const Between *between = &passing->between;
    float *x = passing->pass->x;
    normalise(passing, floats_at(layer->norm), between->normed);
    if (!project(passing, &layer->projections, between->normed, NULL, between->projected)) {
        return 0;
    }
    each_row(passing, place_unit, layer->projections.outputs);
    if (!attend_layer(passing) || !project(passing, &layer->output, between->attended, x, x)) {
        return 0;
    }
    normalise(passing, floats_at(layer->inner_norm), between->normed);
    if (!project(passing, &layer->gates, between->normed, NULL, between->gated)) {
        return 0;
    }
    each_row(passing, gate_unit, layer->gates.outputs);
    return project(passing, &layer->down, between->active, x, x);
}

int run_layers(const Kernels *kernels, const Pass *pass, int threads) {
    Passing passing = {.kernels = kernels, .pass = pass, .threads = threads};
    size_t projected = 0, gated = 0, rows = (size_t)pass->rows, hidden = (size_t)pass->hidden;
    size_t attended = (size_t)(pass->heads * pass->width);
    for (ptrdiff_t i = 0; i < pass->n_layers; i++) {
        size_t outputs = (size_t)pass->layers[i].projections.outputs, gates = (size_t)pass->layers[i].gates.outputs;
        projected = outputs > projected ? outputs : projected;
        gated = gates > gated ? gates : gated;
    }
    float *room = malloc(rows * (hidden + projected + attended + gated + gated / 2) * sizeof(float));
    if (room == NULL) {
        return 0;
    }
    passing.between.normed = room;
    passing.between.projected = passing.between.normed + rows * hidden;
    passing.between.attended = passing.between.projected + rows * projected;
    passing.between.gated = passing.between.attended + rows * attended;
    passing.between.active = passing.between.gated + rows * gated;
    int done = 1;
    for (ptrdiff_t i = 0; done && i < pass->n_layers; i++) {
        passing.layer = &pass->layers[i];
        done = run_layer(&passing);
    }
    normalise(&passing, pass->last_norm, pass->x);
    free(room);
    return done;
}
