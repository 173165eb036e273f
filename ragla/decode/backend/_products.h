/* Products of a few rows with packed weights. Included once for each kind of vector. */

/* Where a tile's result goes: over what is there, added to it, or as its continuation. */
enum { REPLACE, TOTAL, CONTINUE };

FAST Lanes load_weights(const char *from, ptrdiff_t at, Format format) {
    switch (format) {
    case FLOAT16:
        return load_half((const uint16_t *)(const void *)from + at);
    case BFLOAT16:
        return load_bfloat((const uint16_t *)(const void *)from + at);
    default:
        return load((const float *)(const void *)from + at);
    }
}

enum { NOTHING_AHEAD = -1, SOON = 2048 };

/* out[r][0 … 8·vectors) (+)= Σ_k a[r][k] · b[k][…]: each sum one chain over k. Vector v of input k is at
   b[k · step + (v / 2) · panel + (v % 2) · 8]. What is `ahead` bytes behind is asked for meanwhile. */
FAST void float_tile(const float *const *a, const char *b, Format format, ptrdiff_t step, ptrdiff_t panel,
                     ptrdiff_t ahead, ptrdiff_t depth, float *const *out, int mode, int n_rows, int vectors) {
    Lanes sum[TILE][8];
    UNROLLED
    for (int r = 0; r < n_rows; r++) {
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = mode == CONTINUE ? load(out[r] + v * LANES) : zero();
        }
    }
    for (ptrdiff_t k = 0; k < depth; k++) {
        Lanes weights[8];
        if (ahead != NOTHING_AHEAD) {
            FETCH(b + ahead + k * step * (format == FLOAT32 ? 4 : 2));
        }
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            weights[v] = load_weights(b, k * step + v / 2 * panel + v % 2 * LANES, format);
        }
        UNROLLED
        for (int r = 0; r < n_rows; r++) {
            Lanes x = all(a[r][k]);
            UNROLLED
            for (int v = 0; v < vectors; v++) {
                sum[r][v] = multiply_add(x, weights[v], sum[r][v]);
            }
        }
    }
    UNROLLED
    for (int r = 0; r < n_rows; r++) {
        UNROLLED
        for (int v = 0; v < vectors; v++) {
            float *to = out[r] + v * LANES;
            store(to, mode == TOTAL ? add(load(to), sum[r][v]) : sum[r][v]);
        }
    }
}

/* The same with 16-bit rows and 8-bit weights, exact in 32 bits for BLOCK inputs, then scaled by output. */
FAST void integer_tile(const int16_t *const *a, const int8_t *b, ptrdiff_t pairs, const float *scales,
                       ptrdiff_t ahead, float *const *out, int mode, int n_rows) {
    Sums sum[TILE][2];
    UNROLLED
    for (int r = 0; r < n_rows; r++) {
        sum[r][0] = sum[r][1] = no_sums();
    }
    for (ptrdiff_t k = 0; k < pairs; k++) {
        FETCH(b + ahead + k * 2 * PANEL);
        Pairs low = load_pairs(b + k * 2 * PANEL), high = load_pairs(b + k * 2 * PANEL + PANEL);
        UNROLLED
        for (int r = 0; r < n_rows; r++) {
            Pairs x = all_pair(a[r] + 2 * k);
            sum[r][0] = add_products(sum[r][0], x, low);
            sum[r][1] = add_products(sum[r][1], x, high);
        }
    }
    UNROLLED
    for (int r = 0; r < n_rows; r++) {
        UNROLLED
        for (int v = 0; v < 2; v++) {
            float *to = out[r] + v * LANES;
            Lanes scaled = multiply(to_floats(sum[r][v]), load(scales + v * LANES));
            store(to, mode == TOTAL ? add(load(to), scaled) : scaled);
        }
    }
}

#define PANELS_AT_ONCE(n_rows) ((n_rows) == 1 ? 4 : (n_rows) == 2 ? 2 : 1) /* one chain waits for itself */

#define FLOAT_TILE(rows)                                                                                      \
    case rows:                                                                                                \
        if (format == FLOAT16) {                                                                              \
            float_tile(a, b, FLOAT16, PANEL, panel, ahead, depth, out, mode, rows, 2 * PANELS_AT_ONCE(rows));        \
        } else if (format == BFLOAT16) {                                                                      \
            float_tile(a, b, BFLOAT16, PANEL, panel, ahead, depth, out, mode, rows, 2 * PANELS_AT_ONCE(rows));       \
        } else {                                                                                              \
            float_tile(a, b, FLOAT32, PANEL, panel, ahead, depth, out, mode, rows, 2 * PANELS_AT_ONCE(rows));        \
        }                                                                                                     \
        return;
#define INTEGER_TILE(rows)                                                                                    \
    case rows:                                                                                                \
        integer_tile(a, (const int8_t *)b, depth / 2, scales, ahead, out, mode, rows);                               \
        return;

OWN void any_float_tile(const float *const *a, const char *b, Format format, ptrdiff_t ahead, ptrdiff_t depth,
                        float *const *out, int mode, int n_rows) {
    ptrdiff_t panel = depth * PANEL;
    switch (n_rows) { FLOAT_TILE(1) FLOAT_TILE(2) FLOAT_TILE(3) FLOAT_TILE(4) FLOAT_TILE(5) FLOAT_TILE(6) }
}

OWN void any_integer_tile(const int16_t *const *a, const char *b, ptrdiff_t ahead, ptrdiff_t depth, const float *scales,
                          float *const *out, int mode, int n_rows) {
    switch (n_rows) {
        INTEGER_TILE(1) INTEGER_TILE(2) INTEGER_TILE(3) INTEGER_TILE(4) INTEGER_TILE(5) INTEGER_TILE(6)
    }
}

/* n_rows in tiles of nearly equal size: the rows of tile i begin here. */
INLINE ptrdiff_t tile_start(ptrdiff_t n_rows, ptrdiff_t tiles, ptrdiff_t i) { return n_rows * i / tiles; }

OWN void linear_tile(const Linear *linear, const char *weights, ptrdiff_t group, ptrdiff_t block,
                     ptrdiff_t column, ptrdiff_t ahead, ptrdiff_t first_row, ptrdiff_t depth, float (*out)[GROUP],
                     int n_rows) {
    float *to[TILE];
    int mode = block == 0 ? REPLACE : TOTAL;
    for (int r = 0; r < n_rows; r++) {
        to[r] = out[r] + column;
    }
    if (linear->format == INTEGER8) {
        const int16_t *a[TILE];
        ptrdiff_t even = (linear->inputs + 1) / 2 * 2, blocks = (linear->inputs + BLOCK - 1) / BLOCK;
        const float *scales = linear->scales + (group * blocks + block) * GROUP + column;
        for (int r = 0; r < n_rows; r++) {
            a[r] = linear->levels + (first_row + r) * even + block * BLOCK;
        }
        any_integer_tile(a, weights, ahead, depth, scales, to, mode, n_rows);
    } else {
        const float *a[TILE];
        for (int r = 0; r < n_rows; r++) {
            a[r] = linear->x + (first_row + r) * linear->x_row + block * BLOCK;
        }
        any_float_tile(a, weights, linear->format, ahead, depth, to, mode, n_rows);
    }
}

OWN void finish_rows(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows,
                     float (*sums)[GROUP]) {
    ptrdiff_t left = linear->outputs - group * GROUP, n = left < GROUP ? left : GROUP;
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        float *out = linear->out + (first_row + r) * linear->outputs + group * GROUP;
        float scale = linear->format == INTEGER8 ? linear->x_scales[first_row + r] : 1.0f;
        for (ptrdiff_t i = 0; i < n; i++) {
            sums[r][i] *= scale;
        }
        for (ptrdiff_t i = 0; linear->bias != NULL && i < n; i++) {
            sums[r][i] += linear->bias[group * GROUP + i];
        }
        for (ptrdiff_t i = 0; linear->addend != NULL && i < n; i++) {
            sums[r][i] += linear->addend[(first_row + r) * linear->outputs + group * GROUP + i];
        }
        memcpy(out, sums[r], (size_t)n * sizeof(float));
    }
}

OWN void linear_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    float sums[LINEAR_ROWS][GROUP];
    ptrdiff_t depths = linear->format == INTEGER8 ? (linear->inputs + 1) / 2 * 2 : linear->inputs;
    ptrdiff_t size = linear->format == INTEGER8 ? 1 : linear->format == FLOAT32 ? 4 : 2;
    ptrdiff_t tiles = (n_rows + TILE - 1) / TILE;
    ptrdiff_t columns = linear->format == INTEGER8 ? PANEL : PANEL * PANELS_AT_ONCE(n_rows);
    const char *weights = linear->weights + group * GROUP * depths * size;
    for (ptrdiff_t block = 0; block * BLOCK < depths; block++) {
        ptrdiff_t left = depths - block * BLOCK, depth = left < BLOCK ? left : BLOCK;
        for (ptrdiff_t column = 0; column < GROUP; column += columns) {
            ptrdiff_t bytes = columns * depth * size;
            for (ptrdiff_t tile = 0; tile < tiles; tile++) {
                ptrdiff_t start = tile_start(n_rows, tiles, tile), end = tile_start(n_rows, tiles, tile + 1);
                /* the last tile has this panel near and waits for the next; a single one waits for its own */
                ptrdiff_t ahead = tiles == 1 ? SOON : tile == tiles - 1 ? bytes : 0;
                linear_tile(linear, weights, group, block, column, ahead, first_row + start, depth, sums + start,
                            (int)(end - start));
            }
            weights += bytes;
        }
    }
    finish_rows(linear, group, first_row, n_rows, sums);
}

/* A row in 32,767 levels of its largest magnitude, on either side of zero. */
OWN void quantise_row(const float *x, ptrdiff_t inputs, int16_t *levels, float *scale) {
    Lanes most = zero();
    ptrdiff_t whole = inputs / LANES * LANES;
    float tail[LANES] = {0.0f}, lanes[LANES], largest = 0.0f;
    int16_t tail_levels[LANES];
    memcpy(tail, x + whole, (size_t)(inputs - whole) * sizeof(float));
    for (ptrdiff_t i = 0; i < whole; i += LANES) {
        most = larger(magnitude(load(x + i)), most);
    }
    store(lanes, larger(magnitude(load(tail)), most));
    for (int i = 0; i < LANES; i++) {
        largest = lanes[i] > largest ? lanes[i] : largest;
    }
    float least = 1e-30f, bounded = largest > least ? largest : least;
    Lanes factor = all(32767.0f / bounded);
    for (ptrdiff_t i = 0; i < whole; i += LANES) {
        store_levels(levels + i, multiply(load(x + i), factor));
    }
    store_levels(tail_levels, multiply(load(tail), factor));
    memcpy(levels + whole, tail_levels, (size_t)((inputs + 1) / 2 * 2 - whole) * sizeof(int16_t));
    *scale = bounded / 32767.0f;
}
