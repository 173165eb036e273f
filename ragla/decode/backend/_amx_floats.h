/* Products of float32 rows in AMX's tiles, which multiply numbers of 8 significant bits.

   A float32 has 24: it is the sum of three such pieces, exactly; a 16-bit float of two or one. What is left out
   of a product of two sums is below a float32's last bit (Henry, Tang and Heinecke, 2019, arXiv 1904.06376).
   Every row is summed in the same order, as if alone, but the order is not that of other kernels. */

enum {
    STEP_INPUTS = 32, /* of a tile: two of each output side by side */
    STEP_PAIRS = STEP_INPUTS / 2,
    PIECES = 3,
    TILE_SIZE = TILE_ROWS * TILE_BYTES,
    SLOTS = 4, /* steps whose weights are kept for all rows; a divisor of a block's */
    NEAR = 2,  /* steps further on, whose weights are brought to the nearest cache */
    FAR = 8    /* and to the next one */
};

/* Both panels' tiles of a step, a tile for each piece, largest first. */
typedef struct {
    _Alignas(TILE_BYTES) char tiles[2][PIECES][TILE_SIZE];
} SplitWeights;

/* Weights of a group, and of the one that is likely to be next. */
typedef struct {
    const char *weights, *next_unit;
    ptrdiff_t inputs, steps, size;
} FloatSource;

/* A step's weights: where the first panel's are, how far from there the other's, how many inputs there are. */
typedef struct {
    const char *from;
    ptrdiff_t other, inputs;
} Step;

/* Behind the last step come the next group's. */
FAST Step step_of(const FloatSource *source, ptrdiff_t step) {
    const char *from = source->weights;
    if (step >= source->steps) {
        from = source->next_unit;
        step = step - source->steps < source->steps ? step - source->steps : source->steps - 1;
    }
    ptrdiff_t start = step * STEP_INPUTS, block = start / BLOCK * BLOCK, left = source->inputs - block;
    ptrdiff_t depth = left < BLOCK ? left : BLOCK;
    Step found = {from + (block * GROUP + (start - block) * PANEL) * source->size, depth * PANEL * source->size,
                  source->inputs - start};
    return found;
}

FAST __m512i top_half(__m512 x) { return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(-65536)); }

/* The pieces of two inputs of a panel's outputs, cut off the front. */
FAST void split_pair(__m512 even, __m512 odd, int pieces, char *row) {
    UNROLLED
    for (int piece = 0; piece < pieces; piece++) {
        __m512i bits = _mm512_castps_si512(even), others = _mm512_castps_si512(odd);
        _mm512_store_si512(row + piece * TILE_SIZE,
                           _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(bits, 16), others));
        if (piece + 1 < pieces) {
            even = _mm512_sub_ps(even, _mm512_castsi512_ps(top_half(even)));
            odd = _mm512_sub_ps(odd, _mm512_castsi512_ps(top_half(odd)));
        }
    }
}

/* Sixteen outputs' weights of an input; zeros where there is none. */
FAST __m512 load_panel(const char *from, ptrdiff_t input, int is_there, Format format) {
    if (!is_there) {
        return _mm512_setzero_ps();
    }
    if (format == FLOAT32) {
        return _mm512_loadu_ps((const float *)(const void *)from + input * PANEL);
    }
    __m256i halves = _mm256_loadu_si256((const void *)(from + input * PANEL * 2));
    return format == FLOAT16
               ? _mm512_cvtph_ps(halves)
               : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/* A quarter of a step's weights, which has `inputs`; others are asked for meanwhile. */
FAST void split_quarter(const Step *step, const Step *near, const Step *far, int quarter, ptrdiff_t inputs,
                        Format format, SplitWeights *split) {
    int pieces = format == FLOAT32 ? 3 : format == FLOAT16 ? 2 : 1, first = quarter % 2 * STEP_PAIRS / 2;
    ptrdiff_t pair_bytes = 2 * PANEL * (format == FLOAT32 ? 4 : 2), panel = quarter / 2;
    const char *from = step->from + panel * step->other;
    UNROLLED
    for (int pair = first; pair < first + STEP_PAIRS / 2; pair++) {
        UNROLLED
        for (ptrdiff_t line = pair * pair_bytes; line < (pair + 1) * pair_bytes; line += LINE) {
            FETCH(near->from + panel * near->other + line);
            FETCH_FAR(far->from + panel * far->other + line);
        }
        __m512 even = load_panel(from, 2 * pair, 2 * pair < inputs, format);
        __m512 odd = load_panel(from, 2 * pair + 1, 2 * pair + 1 < inputs, format);
        split_pair(even, odd, pieces, split->tiles[panel][0] + pair * TILE_BYTES);
    }
}

/* A step's weights with nothing else to do meanwhile: the first step, or one with fewer inputs. */
FAST void split_step(const FloatSource *source, ptrdiff_t at, Format format, SplitWeights *split) {
    Step step = step_of(source, at), near = step_of(source, at + NEAR), far = step_of(source, at + FAR);
    for (int quarter = 0; quarter < 4; quarter++) {
        split_quarter(&step, &near, &far, quarter, step.inputs, format, split);
    }
    KEEP_ORDER;
}

/* One or two tiles of rows in pieces, which are so many bytes apart. */
typedef struct {
    const char *first, *second;
    ptrdiff_t first_piece, second_piece;
} Rows;

/* Tiles: sums of the first rows with either panel, 0 and 1, and of the second, 2 and 3; pieces of rows, 4 and 5;
   pieces of both panels' weights, 6 and 7. */
#define MULTIPLY(rows)                                                                                        \
    _tile_dpbf16ps(0, rows, 6);                                                                               \
    _tile_dpbf16ps(1, rows, 7);
#define MULTIPLY_SECOND()                                                                                     \
    _tile_dpbf16ps(2, 5, 6);                                                                                  \
    _tile_dpbf16ps(3, 5, 7);
#define LOAD_FIRST(tile, piece)                                                                               \
    _tile_loadd(tile, rows->first + (step * PIECES + (piece)) * rows->first_piece, TILE_BYTES);
#define LOAD_SECOND(piece) _tile_loadd(5, rows->second + (step * PIECES + (piece)) * rows->second_piece, TILE_BYTES);
#define LOAD_WEIGHTS(piece)                                                                                   \
    _tile_loadd(6, split->tiles[0][piece], TILE_BYTES);                                                       \
    _tile_loadd(7, split->tiles[1][piece], TILE_BYTES);

/* A quarter of a step's products with one tile of rows. */
FAST void multiply_one(const Rows *rows, ptrdiff_t step, int quarter, Format format, const SplitWeights *split) {
    switch (quarter) {
    case 0:
        LOAD_WEIGHTS(0)
        LOAD_FIRST(4, 2)
        MULTIPLY(4)
        return;
    case 1:
        LOAD_FIRST(5, 0)
        MULTIPLY(5)
        return;
    case 2:
        LOAD_FIRST(4, 1)
        MULTIPLY(4)
        if (format != BFLOAT16) {
            LOAD_WEIGHTS(1)
            MULTIPLY(4)
        }
        return;
    default:
        if (format != BFLOAT16) {
            MULTIPLY(5)
        }
        if (format == FLOAT32) {
            LOAD_WEIGHTS(2)
            MULTIPLY(5)
        }
    }
}

#define BOTH(piece)                                                                                           \
    LOAD_FIRST(4, piece)                                                                                      \
    MULTIPLY(4)                                                                                               \
    LOAD_SECOND(piece)                                                                                        \
    MULTIPLY_SECOND()

/* The same, in the same order, with two. */
FAST void multiply_two(const Rows *rows, ptrdiff_t step, int quarter, Format format, const SplitWeights *split) {
    switch (quarter) {
    case 0:
        LOAD_WEIGHTS(0)
        BOTH(2)
        return;
    case 1:
        BOTH(0)
        return;
    case 2:
        BOTH(1)
        if (format != BFLOAT16) {
            LOAD_WEIGHTS(1)
            MULTIPLY(4)
            MULTIPLY_SECOND()
        }
        return;
    default:
        if (format != BFLOAT16) {
            BOTH(0)
        }
        if (format == FLOAT32) {
            LOAD_WEIGHTS(2)
            MULTIPLY(4)
            MULTIPLY_SECOND()
        }
    }
}

FAST void multiply_quarter(const Rows *rows, ptrdiff_t step, int quarter, int tiles, Format format,
                           const SplitWeights *split) {
    if (tiles == 1) {
        multiply_one(rows, step, quarter, format, split);
    } else {
        multiply_two(rows, step, quarter, format, split);
    }
    KEEP_ORDER;
}

FAST void multiply_step(const Rows *rows, ptrdiff_t step, int tiles, Format format, const SplitWeights *split) {
    UNROLLED
    for (int quarter = 0; quarter < 4; quarter++) {
        multiply_quarter(rows, step, quarter, tiles, format, split);
    }
}

/* Products of some steps while the weights are split, a step ahead. */
FAST void split_and_multiply(const Rows *rows, const FloatSource *source, ptrdiff_t start, ptrdiff_t end, int tiles,
                             Format format, SplitWeights *split, ptrdiff_t slots) {
    split_step(source, start, format, &split[start % slots]);
    for (ptrdiff_t step = start; step + 1 < end; step++) {
        const SplitWeights *used = &split[step % slots];
        SplitWeights *made = &split[(step + 1) % slots];
        Step next = step_of(source, step + 1);
        if (next.inputs < STEP_INPUTS) {
            split_step(source, step + 1, format, made);
            multiply_step(rows, step, tiles, format, used);
            break;
        }
        Step near = step_of(source, step + 1 + NEAR), far = step_of(source, step + 1 + FAR);
        UNROLLED
        for (int quarter = 0; quarter < 4; quarter++) {
            split_quarter(&next, &near, &far, quarter, STEP_INPUTS, format, made);
            KEEP_ORDER;
            multiply_quarter(rows, step, quarter, tiles, format, used);
        }
    }
    multiply_step(rows, end - 1, tiles, format, &split[(end - 1) % slots]);
}

/* A tile of rows with both panels. */
typedef struct {
    _Alignas(TILE_BYTES) float panels[2][TILE_ROWS * PANEL];
} TileSums;

FAST void load_sums(const TileSums *sums, int are_there, int tiles) {
    if (!are_there) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, sums[0].panels[0], TILE_BYTES);
    _tile_loadd(1, sums[0].panels[1], TILE_BYTES);
    if (tiles > 1) {
        _tile_loadd(2, sums[1].panels[0], TILE_BYTES);
        _tile_loadd(3, sums[1].panels[1], TILE_BYTES);
    }
}

FAST void store_sums(TileSums *sums, int tiles) {
    _tile_stored(0, sums[0].panels[0], TILE_BYTES);
    _tile_stored(1, sums[0].panels[1], TILE_BYTES);
    if (tiles > 1) {
        _tile_stored(2, sums[1].panels[0], TILE_BYTES);
        _tile_stored(3, sums[1].panels[1], TILE_BYTES);
    }
}

/* A row of a tile of n_rows: its three pieces, each rounded to the nearest, with zeros behind the last input. */
OWN void split_row(const float *x, ptrdiff_t inputs, ptrdiff_t n_rows, uint16_t *pieces) {
    const __m512i half = _mm512_set1_epi32(0x8000);
    for (ptrdiff_t i = 0; i < pieces_row(inputs) / PIECES; i += PANEL) {
        __m512 rest = _mm512_maskz_loadu_ps(first_lanes(inputs - i), x + i);
        uint16_t *to = pieces + i / STEP_INPUTS * PIECES * n_rows * STEP_INPUTS + i % STEP_INPUTS;
        for (int piece = 0; piece < PIECES; piece++) {
            __m512i rounded = _mm512_add_epi32(_mm512_castps_si512(rest), half);
            __m512i top = top_half(_mm512_castsi512_ps(rounded));
            _mm256_storeu_si256((void *)(to + piece * n_rows * STEP_INPUTS),
                                _mm512_cvtepi32_epi16(_mm512_srli_epi32(top, 16)));
            rest = _mm512_sub_ps(rest, _mm512_castsi512_ps(top));
        }
    }
}

/* The first rows split the weights for all. */
FAST void multiply_rows(const Rows *rows, const FloatSource *source, ptrdiff_t start, ptrdiff_t end, int tiles,
                        Format format, SplitWeights *split, ptrdiff_t slots, TileSums *sums) {
    load_sums(sums, start > 0, tiles);
    if (source != NULL) {
        split_and_multiply(rows, source, start, end, tiles, format, split, slots);
    } else {
        for (ptrdiff_t step = start; step < end; step++) {
            multiply_step(rows, step, tiles, format, &split[step % slots]);
        }
    }
    store_sums(sums, tiles);
    KEEP_ORDER;
}

/* What finish_rows does, without a copy. */
OWN void finish_sums(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows,
                     const TileSums *sums) {
    for (ptrdiff_t panel = 0; panel < 2; panel++) {
        ptrdiff_t first = group * GROUP + panel * PANEL;
        __mmask16 there = first_lanes(linear->outputs - first);
        __m512 bias = linear->bias == NULL ? _mm512_setzero_ps() : _mm512_maskz_loadu_ps(there, linear->bias + first);
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            ptrdiff_t at = (first_row + r) * linear->outputs + first;
            __m512 sum = _mm512_load_ps(sums[r / TILE_ROWS].panels[panel] + r % TILE_ROWS * PANEL);
            if (linear->bias != NULL) {
                sum = _mm512_add_ps(sum, bias);
            }
            if (linear->addend != NULL) {
                sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(there, linear->addend + at));
            }
            _mm512_mask_storeu_ps(linear->out + at, there, sum);
        }
    }
}

FAST void float_unit_of(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows, Format format) {
    SplitWeights split[SLOTS];
    TileSums sums[LINEAR_ROWS / TILE_ROWS];
    ptrdiff_t size = format == FLOAT32 ? 4 : 2, unit = GROUP * linear->inputs * size;
    ptrdiff_t tile_bytes = TILE_ROWS * pieces_row(linear->inputs) * 2, tiles = (n_rows + TILE_ROWS - 1) / TILE_ROWS;
    const char *pieces = (const char *)linear->pieces + first_row / TILE_ROWS * tile_bytes;
    ptrdiff_t steps = (linear->inputs + STEP_INPUTS - 1) / STEP_INPUTS;
    FloatSource source = {linear->weights + group * unit, weights_after(linear, group, unit), linear->inputs, steps,
                          size};
    ptrdiff_t kept = tiles <= 2 ? steps : SLOTS, slots = tiles <= 2 ? 2 : SLOTS;
    ptrdiff_t last_piece = (n_rows - (tiles - 1) * TILE_ROWS) * TILE_BYTES;
    shape_tiles(n_rows < TILE_ROWS ? (int)n_rows : TILE_ROWS); /* behind the last row is room for a whole tile */
    for (ptrdiff_t start = 0; start < steps; start += kept) {
        ptrdiff_t end = start + kept < steps ? start + kept : steps;
        for (ptrdiff_t tile = 0; tile < tiles; tile += 2) {
            Rows rows = {pieces + tile * tile_bytes, pieces + (tile + 1) * tile_bytes,
                         tile + 1 < tiles ? TILE_SIZE : last_piece, tile + 2 < tiles ? TILE_SIZE : last_piece};
            if (tile + 1 < tiles) {
                multiply_rows(&rows, tile == 0 ? &source : NULL, start, end, 2, format, split, slots, sums + tile);
            } else {
                multiply_rows(&rows, tile == 0 ? &source : NULL, start, end, 1, format, split, slots, sums + tile);
            }
        }
    }
    _tile_release();
    finish_sums(linear, group, first_row, n_rows, sums);
}

OWN void float32_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    float_unit_of(linear, group, first_row, n_rows, FLOAT32);
}

OWN void float16_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    float_unit_of(linear, group, first_row, n_rows, FLOAT16);
}

OWN void bfloat16_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    float_unit_of(linear, group, first_row, n_rows, BFLOAT16);
}
