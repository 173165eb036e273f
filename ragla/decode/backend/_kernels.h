/* Matrix products and attention whose rows stand alone: the layouts and the interface between the parts.

   A row of an output is a chain of multiply-adds in an order that depends on the row itself only: not on
   how many rows are asked for, how they are shared out, or where a draft tree has put them. */

#ifndef RAGLA_KERNELS_H
#define RAGLA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

/* Bring a line to the nearest cache, or to the next one, which may wait for more lines at a time. */
#if defined(__GNUC__) || defined(__clang__)
#define FETCH(address) __builtin_prefetch(address, 0, 3)
#define FETCH_FAR(address) __builtin_prefetch(address, 0, 2)
#else
#define FETCH(address) ((void)(address))
#define FETCH_FAR(address) ((void)(address))
#endif

/* Loops over the registers of a tile; one that is left a loop keeps them in memory. */
#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define UNROLLED _Pragma("GCC unroll 24")
#else
#define UNROLLED
#endif

enum {
    LANES = 8,         /* floats of a vector */
    LINE = 64,         /* bytes of a cache line */
    TILE_ROWS = 16,    /* rows that a tile register of AMX reads, so many there have to be */
    PANEL = 16,        /* outputs whose weights lie side by side */
    GROUP = 32,        /* outputs of two panels, the unit of work; weights are padded to it */
    BLOCK = 256,       /* inputs that are summed before they are added to a total */
    LINEAR_ROWS = 96,  /* rows of a unit of work in a product */
    FOLDED_ROWS = 36,  /* query rows of a unit of work in attention */
    KEY_TILE = 32,     /* keys that are transposed at a time */
    VALUE_BLOCK = 128  /* values that stay in the nearest cache for all rows */
};

typedef enum { FLOAT32 = 0, FLOAT16 = 1, BFLOAT16 = 2, INTEGER8 = 3 } Format;

/* x [rows, inputs] times weights, which are packed as [group][block of inputs][panel][input][output], in
   8 bit with two inputs side by side. Scales of 8-bit weights: [group][block][GROUP]. */
typedef struct {
    const float *x;
    ptrdiff_t x_row;
    const int16_t *levels; /* x in 16 bit, levels_row(inputs) a row, with a scale for each row */
    const float *x_scales;
    const uint16_t *pieces; /* x in pieces of 16 bit, pieces_row(inputs) a row, where kernels split rows */
    const int32_t *turned; /* x, or pairs of levels, tile after tile of rows: [turned_row][rows of the tile] */
    const char *weights;
    const float *scales;
    const float *bias;   /* or NULL */
    const float *addend; /* [rows, outputs], or NULL */
    float *out;          /* [rows, outputs]; may be the addend */
    ptrdiff_t rows, inputs, outputs;
    Format format;
} Linear;

/* Attention of rows [rows, heads, width] over keys and values [groups, n_keys, width]; the query heads of a
   group share its keys. visible: bytes [rows, n_keys]. out: [rows, heads, value_width]. */
typedef struct {
    const float *query, *keys, *values;
    const uint8_t *visible;
    float *out;
    ptrdiff_t query_head, query_row, key_head, key_row, value_head, value_row, visible_row; /* steps */
    ptrdiff_t rows, heads, groups, n_keys, width, value_width;
    ptrdiff_t block; /* folded rows of a unit of work */
    float scale, softcap;
} Attention;

/* The keys that a row sees: those from `start` to `end`, and then `n_more` at places listed in `more`. */
typedef struct {
    ptrdiff_t start, end, last, n_more;
    int32_t *more;
} Seen;

/* The `count` best of each row of x [rows, n]: places and values [rows, count], best first. */
typedef struct {
    const float *x;
    ptrdiff_t x_row, rows, n, count;
    int64_t *ids;
    float *values;
} Ranking;

/* A table of these comes from Python, where every field is a 64-bit integer. Addresses of what is not there
   are 0. */
typedef struct {
    int64_t weights, scales, bias, format, inputs, outputs;
} Weights;

typedef struct {
    int64_t norm, query_norm, key_norm, inner_norm;
    Weights projections, output, gates, down; /* queries, keys and values in one; gate and up in one */
    int64_t windowed;
    int64_t keys, values; /* of the cache, [groups, capacity, width] */
} Layer;

/* The decoder layers of a model and its last norm, over x [rows, hidden], which becomes the result. */
typedef struct {
    const Layer *layers;
    ptrdiff_t n_layers, rows, prefix, capacity, hidden, heads, groups, width;
    const float *last_norm;
    float *x;
    const float *cosines, *sines; /* [rows, width] */
    const uint8_t *visible[2];    /* [rows, prefix + rows]: everywhere, and within the window */
    float epsilon, scale;
} Pass;

/* Where the rows of a pass go between its products. */
typedef struct {
    float *normed, *projected, *attended, *gated, *active;
} Between;

typedef struct {
    const char *name;
    void (*quantise_row)(const float *x, ptrdiff_t inputs, int16_t *levels, float *scale);
    ptrdiff_t single_tile, tile; /* rows: see tiles_of */
    void (*turn_rows)(const int32_t *from, ptrdiff_t row, ptrdiff_t n_rows, ptrdiff_t n, int32_t *to);
    int keeps_levels; /* in rows */
    /* Or NULL: floats are turned instead. n_rows of a tile have their pieces side by side. */
    void (*split_row)(const float *x, ptrdiff_t inputs, ptrdiff_t n_rows, uint16_t *pieces);
    void (*linear_unit)(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows);
    void (*attention_unit)(const Attention *attention, ptrdiff_t group, ptrdiff_t first, ptrdiff_t n_rows,
                           char *scratch);
    void (*normalise_row)(const float *x, const float *weight, ptrdiff_t n, float epsilon, float *out);
    void (*place_row)(const Pass *pass, const Layer *layer, ptrdiff_t row, float *projected);
    void (*gate_row)(const float *gates, ptrdiff_t n, float *out);
    void (*rank_row)(const float *x, ptrdiff_t n, ptrdiff_t count, int64_t *ids, float *values);
} Kernels;

/* NULL where this processor or this compiler has none. */
extern const Kernels portable_kernels;
const Kernels *avx2_kernels(void);
const Kernels *avx512_kernels(void);
const Kernels *amx_kernels(void);

/* Room for a row's levels: whole lines of them, and of their halves. */
INLINE ptrdiff_t levels_row(ptrdiff_t inputs) { return (inputs + LINE - 1) / LINE * LINE; }

/* Room for the three pieces of a row's floats, each in whole lines. */
INLINE ptrdiff_t pieces_row(ptrdiff_t inputs) { return (inputs + LINE / 2 - 1) / (LINE / 2) * (LINE / 2) * 3; }

/* Numbers of 32 bits of a row that is turned. */
INLINE ptrdiff_t turned_row(const Linear *linear) {
    return linear->format == INTEGER8 ? levels_row(linear->inputs) / 2 : linear->inputs;
}

/* How many register tiles take n_rows, of nearly equal size; the rows of tile i begin at tile_start. */
INLINE ptrdiff_t tiles_of(ptrdiff_t n_rows, ptrdiff_t single, ptrdiff_t tile) {
    return n_rows <= single ? 1 : (n_rows + tile - 1) / tile;
}

INLINE ptrdiff_t tile_start(ptrdiff_t n_rows, ptrdiff_t tiles, ptrdiff_t i) { return n_rows * i / tiles; }

/* Where a thread is likely to read on after a group, given the bytes of one. */
INLINE const char *weights_after(const Linear *linear, ptrdiff_t group, ptrdiff_t bytes) {
    return linear->weights + ((group + 1) * GROUP < linear->outputs ? group + 1 : group) * bytes;
}

/* Room for a row's scores: whole tiles of keys, and two wide vectors more. */
INLINE ptrdiff_t scores_row(const Attention *attention) {
    return (attention->n_keys + KEY_TILE - 1) / KEY_TILE * KEY_TILE + 4 * LANES;
}

/* On several threads where it pays; 0 when memory is short. */
int run_linear(const Kernels *kernels, Linear *linear, int threads);
int run_attention(const Kernels *kernels, Attention *attention, int threads);
void run_ranking(const Kernels *kernels, const Ranking *ranking, int threads);
int run_layers(const Kernels *kernels, const Pass *pass, int threads);

/* Call work(context, unit, thread) for all units, on several threads where there are some. */
typedef void (*Work)(void *context, ptrdiff_t unit, int thread);
void share_out(Work work, void *context, ptrdiff_t units, int threads);

#endif
