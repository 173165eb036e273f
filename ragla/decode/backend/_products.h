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
        if (line == 0 || line * LINE < ahead.bytes) {
            FETCH_FAR(ahead.from + k * ahead.bytes + line * LINE);
        }
    }
}

/* Where vector v of a row begins, with panels so far apart. */
#define IN_PANELS(v, panel) ((v) * WIDE / PANEL * (panel) + (v) * WIDE % PANEL)

/* out[r][0 … WIDE·vectors) (+)= Σ_k a[k][r] · b[k][…]: each sum one chain over k. a[k][r] is at
   a[k · a_step + r · a_row], vector v of input k at b[k · step + IN_PANELS(v, panel)]. */
FAST void float_tile(const float *a, ptrdiff_t a_step, ptrdiff_t a_row, const char *b, Format format,
                     ptrdiff_t step, ptrdiff_t panel, Ahead ahead, ptrdiff_t depth, float *out,
                     ptrdiff_t out_row, int mode, int n_rows, int vectors) {
    Wide sum[SINGLE_TILE][8];
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
            Wide x = wide_all(a[k * a_step + r * a_row]);
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

/* The same with pairs of 16-bit levels, row after row for each pair of inputs, and 8-bit weights: exact in 32 bits
   for BLOCK inputs, then scaled by output. */
FAST void integer_tile(const int16_t *a, const int8_t *b, ptrdiff_t panel, ptrdiff_t pairs,
                       const float *scales, Ahead ahead, float *out, int mode, int n_rows, int vectors) {
    WideSums sum[SINGLE_TILE][8];
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
            WidePairs x = wide_all_pair(a + 2 * (k * n_rows + r));
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
    float_tile(a, rows, 1, b, format, PANEL, depth *PANEL, ahead, depth, out, GROUP, mode, rows, VECTORS(panels))
#define FLOAT_TILE(rows, panels)                                                                              \
    case SHAPE(rows, panels):                                                                                 \
        if (format == FLOAT16) {                                                                              \
            FLOAT_TILE_OF(rows, panels, FLOAT16);                                                             \
        } else if (format == BFLOAT16) {                                                                      \
            FLOAT_TILE_OF(rows, panels, BFLOAT16);                                                            \
        } else {                                                                                              \
            FLOAT_TILE_OF(rows, panels, FLOAT32);                                                             \
        }                                                                                                     \
        return;
#define INTEGER_TILE(rows, panels)                                                                            \
    case SHAPE(rows, panels):                                                                                 \
        integer_tile(a, (const int8_t *)b, depth *PANEL, depth / 2, scales, ahead, out, mode, rows,    \
                     VECTORS(panels));                                                                        \
        return;

OWN void any_float_tile(const float *a, const char *b, Format format, Ahead ahead, ptrdiff_t depth, float *out,
                        int mode, int n_rows, int panels) {
    switch (SHAPE(n_rows, panels)) { TILE_SHAPES(FLOAT_TILE) }
}

OWN void any_integer_tile(const int16_t *a, const char *b, Ahead ahead, ptrdiff_t depth,
                          const float *scales, float *out, int mode, int n_rows, int panels) {
    switch (SHAPE(n_rows, panels)) { TILE_SHAPES(INTEGER_TILE) }
}

/* Rows of the product from `row` on, with a block of inputs and some panels. */
OWN void linear_tile(const Linear *linear, const char *weights, Format format, ptrdiff_t group, ptrdiff_t block,
                     ptrdiff_t column, Ahead ahead, ptrdiff_t row, ptrdiff_t depth, float *out, int n_rows,
                     int panels) {
    int mode = block == 0 ? REPLACE : TOTAL;
    const int32_t *a = linear->turned + row * turned_row(linear);
    if (format == INTEGER8) {
        ptrdiff_t blocks = (linear->inputs + BLOCK - 1) / BLOCK;
        const float *scales = linear->scales + (group * blocks + block) * GROUP + column;
        const void *levels = a + block * BLOCK / 2 * n_rows;
        any_integer_tile(levels, weights, ahead, depth, scales, out + column, mode, n_rows, panels);
    } else {
        const void *x = a + block * BLOCK * n_rows;
        any_float_tile(x, weights, format, ahead, depth, out + column, mode, n_rows, panels);
    }
}

/* Weights of 16 bit in 32, for tiles that all need them. */
OWN void widen(const char *weights, Format format, ptrdiff_t n, float *wide) {
    for (ptrdiff_t i = 0; i < n; i += WIDE) {
        store_wide(wide + i, load_weights(weights, i, format));
    }
}

OWN void linear_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    float sums[LINEAR_ROWS][GROUP];
    _Alignas(LINE) float wide[BLOCK * GROUP];
    ptrdiff_t depths = linear->format == INTEGER8 ? (linear->inputs + 1) / 2 * 2 : linear->inputs;
    ptrdiff_t size = linear->format == INTEGER8 ? 1 : linear->format == FLOAT32 ? 4 : 2;
    ptrdiff_t tiles = tiles_of(n_rows, SINGLE_TILE, TILE);
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
            const char *used = weights;
            Format format = linear->format;
            if (tiles > 2 && (format == FLOAT16 || format == BFLOAT16)) {
                widen(weights, format, columns * depth, wide);
                used = (const char *)wide;
                format = FLOAT32;
            }
            for (ptrdiff_t tile = 0; tile < tiles; tile++) {
                ptrdiff_t start = tile_start(n_rows, tiles, tile), end = tile_start(n_rows, tiles, tile + 1);
                Ahead ahead = {next + bytes / tiles * tile, columns * size / tiles};
                linear_tile(linear, used, format, group, block, column, ahead, first_row + start, depth, sums[start],
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

/* Numbers of 32 bits, row after row, become those of a tile, one after the other for each row of it. */
OWN void turn_rows(const int32_t *from, ptrdiff_t row, ptrdiff_t n_rows, ptrdiff_t n, int32_t *to) {
    ptrdiff_t r = 0, whole = n / LANES * LANES;
    for (; r + LANES <= n_rows; r += LANES) {
        for (ptrdiff_t k = 0; k < whole; k += LANES) {
            const void *square = from + r * row + k;
            void *turned = to + k * n_rows + r;
            transpose(square, row, turned, n_rows);
        }
        for (ptrdiff_t k = whole; k < n; k++) {
            for (int i = 0; i < LANES; i++) {
                to[k * n_rows + r + i] = from[(r + i) * row + k];
            }
        }
    }
    for (; r < n_rows; r++) {
        for (ptrdiff_t k = 0; k < n; k++) {
            to[k * n_rows + r] = from[r * row + k];
        }
    }
}
