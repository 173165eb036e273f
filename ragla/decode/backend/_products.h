/* Products of a few rows with packed weights. Included once for each kind of vector. */

#include "_product_rows.h"

/* Where a tile's result goes: over what is there, added to it, or as its continuation. */
enum { REPLACE, TOTAL, CONTINUE };

FAST Wide load_weights(const char *from, ptrdiff_t at, Format format) {
    switch (format) {
    case FLOAT16:
        return load_wide_half((const uint16_t *)(const void *)from + at);
    case BFLOAT16:
        return load_wide_bfloat((const uint16_t *)(const void *)from + at);
    default:
        return load_wide((const float *)(const void *)from + at);
    }
}

/* What a tile asks for while it multiplies, so many bytes further on with every input. */
typedef struct {
    const char *from; /* or NULL */
    ptrdiff_t bytes;
} Ahead;

/* Lines of so many numbers. */
#define LINES(numbers, size) (((numbers) * (size) + LINE - 1) / LINE)

FAST void fetch_ahead(Ahead ahead, ptrdiff_t k, ptrdiff_t lines) {
    UNROLLED
    for (ptrdiff_t line = 0; line < lines; line++) {
        FETCH_FAR(ahead.from + k * ahead.bytes + line * LINE);
    }
}

/* Where vector v of a row begins, with panels so far apart. */
#define IN_PANELS(v, panel) ((v) * WIDE / PANEL * (panel) + (v) * WIDE % PANEL)

/* out[r][0 … WIDE·vectors) (+)= Σ_k a[r][k] · b[k][…]: each sum one chain over k. Vector v of input k is at
   b[k · step + IN_PANELS(v, panel)]. */
FAST void float_tile(const float *a, ptrdiff_t a_row, const char *b, Format format, ptrdiff_t step, ptrdiff_t panel,
                     Ahead ahead, ptrdiff_t depth, float *out, ptrdiff_t out_row, int mode, int n_rows, int vectors) {
    Wide sum[TILE][8];
    UNROLLED
    for (int r = 0; r < n_rows; r++) {
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = mode == CONTINUE ? load_wide(out + r * out_row + v * WIDE) : wide_zero();
        }
    }
    for (ptrdiff_t k = 0; k < depth; k++) {
        Wide weights[8];
        if (ahead.from != NULL) {
            fetch_ahead(ahead, k, LINES(vectors * WIDE, format == FLOAT32 ? 4 : 2));
        }
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            weights[v] = load_weights(b, k * step + IN_PANELS(v, panel), format);
        }
        UNROLLED
        for (int r = 0; r < n_rows; r++) {
            Wide x = wide_all(a[r * a_row + k]);
            UNROLLED
            for (int v = 0; v < vectors; v++) {
                sum[r][v] = wide_multiply_add(x, weights[v], sum[r][v]);
            }
        }
    }
    UNROLLED
    for (int r = 0; r < n_rows; r++) {
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            float *to = out + r * out_row + v * WIDE;
            store_wide(to, mode == TOTAL ? wide_add(load_wide(to), sum[r][v]) : sum[r][v]);
        }
    }
}

/* The same with 16-bit rows and 8-bit weights, exact in 32 bits for BLOCK inputs, then scaled by output. */
FAST void integer_tile(const int16_t *a, ptrdiff_t a_row, const int8_t *b, ptrdiff_t panel, ptrdiff_t pairs,
                       const float *scales, Ahead ahead, float *out, int mode, int n_rows, int vectors) {
    WideSums sum[TILE][8];
    UNROLLED
    for (int r = 0; r < n_rows; r++) {
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = no_wide_sums();
        }
    }
    for (ptrdiff_t k = 0; k < pairs; k++) {
        WidePairs weights[8];
        fetch_ahead(ahead, 2 * k, LINES(vectors * WIDE, 2));
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            weights[v] = load_wide_pairs(b + k * 2 * PANEL + v * WIDE / PANEL * panel + v * WIDE % PANEL * 2);
        }
        UNROLLED
        for (int r = 0; r < n_rows; r++) {
            WidePairs x = wide_all_pair(a + r * a_row + 2 * k);
            UNROLLED
            for (int v = 0; v < vectors; v++) {
                sum[r][v] = add_wide_products(sum[r][v], x, weights[v]);
            }
        }
    }
    UNROLLED
    for (int r = 0; r < n_rows; r++) {
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            float *to = out + r * GROUP + v * WIDE;
            Wide scaled = wide_multiply(wide_to_floats(sum[r][v]), load_wide(scales + v * WIDE));
            store_wide(to, mode == TOTAL ? wide_add(load_wide(to), scaled) : scaled);
        }
    }
}

/* A tile is a case of its own for each number of rows and of panels, so that its sums are registers. */
#define SHAPE(rows, panels) ((rows) * (GROUP / PANEL + 1) + (panels))
#define VECTORS(panels) ((panels) * (PANEL / WIDE))
#define FLOAT_TILE_OF(rows, panels, format)                                                                   \
    float_tile(a, linear->x_row, b, format, PANEL, depth *PANEL, ahead, depth, out, GROUP, mode, rows, VECTORS(panels))
#define FLOAT_TILE(rows, panels)                                                                              \
    case SHAPE(rows, panels):                                                                                 \
        if (linear->format == FLOAT16) {                                                                      \
            FLOAT_TILE_OF(rows, panels, FLOAT16);                                                             \
        } else if (linear->format == BFLOAT16) {                                                              \
            FLOAT_TILE_OF(rows, panels, BFLOAT16);                                                            \
        } else {                                                                                              \
            FLOAT_TILE_OF(rows, panels, FLOAT32);                                                             \
        }                                                                                                     \
        return;
#define INTEGER_TILE(rows, panels)                                                                            \
    case SHAPE(rows, panels):                                                                                 \
        integer_tile(a, a_row, (const int8_t *)b, depth *PANEL, depth / 2, scales, ahead, out, mode, rows,    \
                     VECTORS(panels));                                                                        \
        return;

OWN void any_float_tile(const Linear *linear, const float *a, const char *b, Ahead ahead, ptrdiff_t depth, float *out,
                        int mode, int n_rows, int panels) {
    switch (SHAPE(n_rows, panels)) { TILE_SHAPES(FLOAT_TILE) }
}

OWN void any_integer_tile(const int16_t *a, ptrdiff_t a_row, const char *b, Ahead ahead, ptrdiff_t depth,
                          const float *scales, float *out, int mode, int n_rows, int panels) {
    switch (SHAPE(n_rows, panels)) { TILE_SHAPES(INTEGER_TILE) }
}

/* n_rows in tiles of nearly equal size: the rows of tile i begin here. */
INLINE ptrdiff_t tile_start(ptrdiff_t n_rows, ptrdiff_t tiles, ptrdiff_t i) { return n_rows * i / tiles; }

OWN void linear_tile(const Linear *linear, const char *weights, ptrdiff_t group, ptrdiff_t block, ptrdiff_t column,
                     Ahead ahead, ptrdiff_t first_row, ptrdiff_t depth, float *out, int n_rows, int panels) {
    int mode = block == 0 ? REPLACE : TOTAL;
    if (linear->format == INTEGER8) {
        ptrdiff_t row = levels_row(linear->inputs), blocks = (linear->inputs + BLOCK - 1) / BLOCK;
        const float *scales = linear->scales + (group * blocks + block) * GROUP + column;
        const int16_t *a = linear->levels + first_row * row + block * BLOCK;
        any_integer_tile(a, row, weights, ahead, depth, scales, out + column, mode, n_rows, panels);
    } else {
        const float *a = linear->x + first_row * linear->x_row + block * BLOCK;
        any_float_tile(linear, a, weights, ahead, depth, out + column, mode, n_rows, panels);
    }
}

OWN void linear_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    float sums[LINEAR_ROWS][GROUP];
    ptrdiff_t depths = linear->format == INTEGER8 ? (linear->inputs + 1) / 2 * 2 : linear->inputs;
    ptrdiff_t size = linear->format == INTEGER8 ? 1 : linear->format == FLOAT32 ? 4 : 2;
    ptrdiff_t tiles = (n_rows + TILE - 1) / TILE;
    int panels = PANELS_AT_ONCE((n_rows + tiles - 1) / tiles);
    ptrdiff_t columns = PANEL * panels;
    ptrdiff_t unit_bytes = GROUP * depths * size;
    const char *weights = linear->weights + group * unit_bytes, *end_of_unit = weights + unit_bytes;
    const char *next_unit = weights_after(linear, group, unit_bytes);
    for (ptrdiff_t block = 0; block * BLOCK < depths; block++) {
        ptrdiff_t left = depths - block * BLOCK, depth = left < BLOCK ? left : BLOCK;
        for (ptrdiff_t column = 0; column < GROUP; column += columns) {
            ptrdiff_t bytes = columns * depth * size;
            const char *next = weights + bytes == end_of_unit ? next_unit : weights + bytes;
            for (ptrdiff_t tile = 0; tile < tiles; tile++) {
                ptrdiff_t start = tile_start(n_rows, tiles, tile), end = tile_start(n_rows, tiles, tile + 1);
                Ahead ahead = {next + bytes / tiles * tile, columns * size / tiles};
                linear_tile(linear, weights, group, block, column, ahead, first_row + start, depth, sums[start],
                            (int)(end - start), panels);
            }
            weights += bytes;
        }
    }
    finish_rows(linear, group, first_row, n_rows, sums);
}

/* A row in 32,767 levels of its largest magnitude, on either side of zero. */
OWN void quantise_row(const float *x, ptrdiff_t inputs, int16_t *levels, float *scale) {
    ptrdiff_t whole = inputs / LANES * LANES;
    float tail[LANES] = {0.0f}, largest = largest_of(x, inputs);
    int16_t tail_levels[LANES];
    Lanes factor = all(LEVELS / largest);
    memcpy(tail, x + whole, (size_t)(inputs - whole) * sizeof(float));
    for (ptrdiff_t i = 0; i < whole; i += LANES) {
        store_levels(levels + i, multiply(load(x + i), factor));
    }
    store_levels(tail_levels, multiply(load(tail), factor));
    memcpy(levels + whole, tail_levels, (size_t)((inputs + 1) / 2 * 2 - whole) * sizeof(int16_t));
    *scale = largest / LEVELS;
}
