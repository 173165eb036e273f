/* Sharing out a product, an attention and a whole pass through the layers. */

#include "_kernels.h"

#include <stdlib.h>
#include <string.h>

enum { TURNING = 6 }; /* rows that take as long as turning the keys */
enum { FEW = 1 << 16 }; /* multiply-adds or numbers that are not worth waking a thread for */

/* Memory for what lies between: taken once for a pass, since what is given back and taken again has to be mapped
   and cleared again. */
typedef struct {
    char *start;
    size_t bytes;
} Room;

/* So many bytes from a whole line on; NULL when memory is short. What was there is gone. */
static void *room_of(Room *room, size_t bytes) {
    if (bytes + LINE > room->bytes) {
        free(room->start);
        room->start = malloc(bytes + LINE);
        room->bytes = room->start == NULL ? 0 : bytes + LINE;
    }
    return room->start == NULL ? NULL : room->start + (LINE - (uintptr_t)room->start % LINE);
}

/* ---- Products ------------------------------------------------------------------------------------- */

typedef struct {
    const Kernels *kernels;
    const Linear *linear;
    ptrdiff_t row_blocks;
    float *x_scales;
    int16_t *levels;
    uint16_t *pieces;
    int32_t *turned;
} Product;

static void quantise_unit(void *context, ptrdiff_t unit, int thread) {
    const Product *product = context;
    const Linear *linear = product->linear;
    (void)thread;
    product->kernels->quantise_row(linear->x + unit * linear->x_row, linear->inputs,
                                   product->levels + unit * levels_row(linear->inputs), product->x_scales + unit);
}

static void split_unit(void *context, ptrdiff_t unit, int thread) {
    const Product *product = context;
    const Linear *linear = product->linear;
    ptrdiff_t first = unit / TILE_ROWS * TILE_ROWS, left = linear->rows - first;
    (void)thread;
    product->kernels->split_row(linear->x + unit * linear->x_row, linear->inputs, left < TILE_ROWS ? left : TILE_ROWS,
                                product->pieces + first * pieces_row(linear->inputs) + (unit - first) * LINE / 2);
}

static void product_unit(void *context, ptrdiff_t unit, int thread) {
    const Product *product = context;
    ptrdiff_t group = unit / product->row_blocks, first = unit % product->row_blocks * LINEAR_ROWS;
    ptrdiff_t left = product->linear->rows - first;
    (void)thread;
    product->kernels->linear_unit(product->linear, group, first, left < LINEAR_ROWS ? left : LINEAR_ROWS);
}

/* Tiles of a unit of rows, as linear_unit cuts it. */
static void turn_unit(void *context, ptrdiff_t unit, int thread) {
    const Product *product = context;
    const Linear *linear = product->linear;
    ptrdiff_t first = unit * LINEAR_ROWS, left = linear->rows - first;
    ptrdiff_t n_rows = left < LINEAR_ROWS ? left : LINEAR_ROWS;
    ptrdiff_t tiles = tiles_of(n_rows, product->kernels->single_tile, product->kernels->tile), n = turned_row(linear);
    const int32_t *from = (const void *)linear->x;
    ptrdiff_t row = linear->x_row;
    (void)thread;
    if (linear->format == INTEGER8) {
        from = (const void *)product->levels;
        row = n;
    }
    for (ptrdiff_t tile = 0; tile < tiles; tile++) {
        ptrdiff_t start = first + tile_start(n_rows, tiles, tile), end = first + tile_start(n_rows, tiles, tile + 1);
        product->kernels->turn_rows(from + start * row, row, end - start, n, product->turned + start * n);
    }
}

static int product_in(Room *room, const Kernels *kernels, Linear *linear, int threads) {
    Product product = {kernels, linear, (linear->rows + LINEAR_ROWS - 1) / LINEAR_ROWS, NULL, NULL, NULL, NULL};
    int is_integer = linear->format == INTEGER8, some = linear->rows * linear->inputs < FEW ? 1 : threads;
    int splits = !is_integer && kernels->split_row != NULL;
    int turns = linear->rows > 1 && !splits && !(is_integer && kernels->keeps_levels);
    size_t rows = (size_t)((linear->rows + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS);
    size_t levels = is_integer ? rows * (size_t)levels_row(linear->inputs) * sizeof(int16_t) : 0;
    size_t pieces = splits ? rows * (size_t)pieces_row(linear->inputs) * sizeof(uint16_t) : 0;
    size_t turned = turns ? (size_t)(linear->rows * turned_row(linear)) * sizeof(int32_t) : 0;
    product.levels = room_of(room, levels + pieces + turned + rows * sizeof(float));
    if (product.levels == NULL) {
        return 0;
    }
    product.pieces = (uint16_t *)(void *)((char *)product.levels + levels);
    product.turned = (int32_t *)(void *)((char *)product.pieces + pieces);
    product.x_scales = (float *)(void *)((char *)product.turned + turned);
    linear->x_scales = product.x_scales;
    linear->levels = product.levels;
    linear->pieces = product.pieces;
    linear->turned = turns ? product.turned : is_integer ? (const void *)product.levels : (const void *)linear->x;
    if (is_integer) {
        share_out(quantise_unit, &product, linear->rows, some);
    }
    if (splits) {
        share_out(split_unit, &product, linear->rows, some);
    }
    if (turns) {
        share_out(turn_unit, &product, product.row_blocks, some);
    }
    ptrdiff_t groups = (linear->outputs + GROUP - 1) / GROUP;
    int few = linear->rows * linear->inputs * linear->outputs < FEW;
    share_out(product_unit, &product, groups * product.row_blocks, few ? 1 : threads);
    return 1;
}

int run_linear(const Kernels *kernels, Linear *linear, int threads) {
    Room room = {NULL, 0};
    int done = product_in(&room, kernels, linear, threads);
    free(room.start);
    return done;
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

/* Into how many blocks the rows of a group are cut, so that threads end at the same time. Each turns the keys
   anew, which takes as long as some rows do. */
static ptrdiff_t blocks_of(ptrdiff_t folded, ptrdiff_t groups, int threads) {
    ptrdiff_t fewest = (folded + FOLDED_ROWS - 1) / FOLDED_ROWS, found = fewest, least = 0;
    for (ptrdiff_t blocks = fewest; blocks < fewest + threads && blocks <= folded; blocks++) {
        ptrdiff_t rows = (folded + blocks - 1) / blocks + TURNING;
        ptrdiff_t time = (groups * blocks + threads - 1) / threads * rows;
        if (least == 0 || time < least) {
            least = time;
            found = blocks;
        }
    }
    return found;
}

static int attention_in(Room *room, const Kernels *kernels, Attention *attention, int threads) {
    Attending task = {kernels, attention, 0, attention->rows * (attention->heads / attention->groups), NULL, 0};
    if (attention->heads * attention->rows * attention->n_keys * attention->width < FEW) {
        threads = 1;
    }
    task.blocks = blocks_of(task.folded, attention->groups, threads);
    attention->block = (task.folded + task.blocks - 1) / task.blocks;
    task.blocks = (task.folded + attention->block - 1) / attention->block;
    task.scratch_bytes = attention_scratch(attention);
    task.scratch = room_of(room, task.scratch_bytes * (size_t)threads);
    if (task.scratch == NULL) {
        return 0;
    }
    share_out(attend_unit, &task, task.blocks * attention->groups, threads);
    return 1;
}

int run_attention(const Kernels *kernels, Attention *attention, int threads) {
    Room room = {NULL, 0};
    int done = attention_in(&room, kernels, attention, threads);
    free(room.start);
    return done;
}

/* ---- Ranking -------------------------------------------------------------------------------------- */

typedef struct {
    const Kernels *kernels;
    const Ranking *ranking;
} Ranked;

static void rank_unit(void *context, ptrdiff_t row, int thread) {
    const Ranked *task = context;
    const Ranking *ranking = task->ranking;
    (void)thread;
    task->kernels->rank_row(ranking->x + row * ranking->x_row, ranking->n, ranking->count,
                            ranking->ids + row * ranking->count, ranking->values + row * ranking->count);
}

void run_ranking(const Kernels *kernels, const Ranking *ranking, int threads) {
    Ranked task = {kernels, ranking};
    share_out(rank_unit, &task, ranking->rows, ranking->rows * ranking->n < FEW ? 1 : threads);
}

/* ---- A pass --------------------------------------------------------------------------------------- */

typedef struct {
    const Kernels *kernels;
    const Pass *pass;
    const Layer *layer;
    const float *norm;
    Between between;
    float *normed;
    Room *room;
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
    return product_in(passing->room, passing->kernels, &linear, passing->threads);
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
    return attention_in(passing->room, passing->kernels, &attention, passing->threads);
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
    Room room = {NULL, 0};
    Passing passing = {.kernels = kernels, .pass = pass, .room = &room, .threads = threads};
    size_t projected = 0, gated = 0, rows = (size_t)pass->rows, hidden = (size_t)pass->hidden;
    size_t attended = (size_t)(pass->heads * pass->width);
    for (ptrdiff_t i = 0; i < pass->n_layers; i++) {
        size_t outputs = (size_t)pass->layers[i].projections.outputs, gates = (size_t)pass->layers[i].gates.outputs;
        projected = outputs > projected ? outputs : projected;
        gated = gates > gated ? gates : gated;
    }
    float *between = malloc(rows * (hidden + projected + attended + gated + gated / 2) * sizeof(float));
    if (between == NULL) {
        return 0;
    }
    passing.between.normed = between;
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
    free(between);
    free(room.start);
    return done;
}
