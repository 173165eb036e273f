/* Products in the tile registers of Intel's AMX, from Sapphire Rapids on.

   With 8-bit weights a 16-bit level is 256 · high + low, a signed and an unsigned byte; what the tiles sum of both
   is exact, so the results are the bits of the other kernels. Floats: see _amx_floats.h. All else is done with
   AVX-512. */

#if defined(__linux__) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE /* syscall */
#endif

#include "_kernels.h"

#if defined(__x86_64__) && defined(__linux__) && \
    ((defined(__clang__) && __clang_major__ >= 12) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 11))

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TARGET target("amx-tile,amx-int8,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#define FAST static inline __attribute__((always_inline, TARGET))
#define OWN static __attribute__((TARGET))

#include "_lanes_avx2.h"
#include "_product_rows.h"

/* Compilers know not that tiles read and write memory. */
#define KEEP_ORDER __asm__ volatile("" ::: "memory")

enum {
    TILE_BYTES = 64,               /* of a row */
    STEPS = BLOCK / TILE_BYTES,    /* tiles along a block of inputs */
    AHEAD = 8192,                  /* bytes of weights that are asked for before they are needed */
    HAS_TILES = 3 << 24 | 1 << 22, /* AMX-TILE, AMX-INT8 and AMX-BF16, of EDX */
    ASK_FOR_PERMISSION = 0x1023,   /* ARCH_REQ_XCOMP_PERM */
    TILE_DATA = 18                 /* XFEATURE_XTILEDATA */
};

/* The layout that ldtilecfg takes. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TileShapes;

/* So many of sixteen lanes; none for none left, all for more. */
FAST __mmask16 first_lanes(ptrdiff_t left) {
    return (__mmask16)(left >= 16 ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
}

/* Tiles: sums of high and low bytes with two panels, 0 to 3; bytes of the rows, 4 and 5; weights, 6 and 7. */
OWN void shape_tiles(int rows) {
    TileShapes shapes;
    memset(&shapes, 0, sizeof(shapes));
    shapes.palette = 1;
    for (int tile = 0; tile < 8; tile++) {
        shapes.bytes[tile] = TILE_BYTES;
        shapes.rows[tile] = (uint8_t)(tile < 6 ? rows : TILE_ROWS);
    }
    _tile_loadconfig(&shapes);
}

/* Four inputs side by side where two were: the layout of a tile of weights. */
OWN void turn_weights(const int8_t *from, ptrdiff_t pairs, const char *ahead, int8_t *quads) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (ptrdiff_t row = 0; row < TILE_ROWS; row++) {
        ptrdiff_t left = pairs - 2 * row; /* of 32 bytes */
        __mmask32 there = left >= 2 ? 0xffffffffu : left == 1 ? 0xffffu : 0;
        FETCH_FAR(ahead + row * TILE_BYTES);
        __m512i both = _mm512_maskz_loadu_epi16(there, from + row * TILE_BYTES);
        _mm512_store_si512(quads + row * TILE_BYTES, _mm512_permutexvar_epi16(order, both));
    }
}

/* A block of inputs of both panels, turned. */
typedef struct {
    _Alignas(TILE_BYTES) int8_t tiles[2][STEPS][TILE_ROWS * TILE_BYTES];
} Quads;

/* A block of a group's weights: from where to turn it, and to ask ahead, in bytes of the group. */
typedef struct {
    const char *weights, *next_unit;
    ptrdiff_t unit, at, depth;
} Source;

/* Both panels' tiles of a step. A step at a time, so that memory answers while tiles multiply. */
OWN void turn_step(const Source *source, ptrdiff_t step, Quads *quads) {
    for (int panel = 0; panel < 2; panel++) {
        ptrdiff_t start = step * TILE_BYTES, from = source->at + (panel * source->depth + start) * PANEL;
        ptrdiff_t ahead = from + AHEAD;
        turn_weights((const int8_t *)source->weights + from, (source->depth - start) / 2,
                     ahead < source->unit ? source->weights + ahead : source->next_unit + (ahead - source->unit),
                     quads->tiles[panel][step]);
    }
}

/* A tile of rows with a block of weights: their sums of high and low bytes with the one panel, then with the
   other. The first tile of rows turns the weights for all. */
OWN void multiply_tiles(const int8_t *high, const int8_t *low, ptrdiff_t row, const Source *source, Quads *quads,
                        int is_first, int32_t (*sums)[TILE_ROWS * PANEL]) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (ptrdiff_t step = 0; step * TILE_BYTES < source->depth; step++) {
        if (is_first) {
            turn_step(source, step, quads);
        }
        KEEP_ORDER;
        _tile_loadd(4, high + step * TILE_BYTES, row);
        _tile_loadd(5, low + step * TILE_BYTES, row);
        _tile_loadd(6, quads->tiles[0][step], TILE_BYTES);
        _tile_loadd(7, quads->tiles[1][step], TILE_BYTES);
        _tile_dpbssd(0, 4, 6);
        _tile_dpbusd(1, 5, 6);
        _tile_dpbssd(2, 4, 7);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, sums[0], TILE_BYTES);
    _tile_stored(1, sums[1], TILE_BYTES);
    _tile_stored(2, sums[2], TILE_BYTES);
    _tile_stored(3, sums[3], TILE_BYTES);
    KEEP_ORDER;
}

/* out (+)= scales · (256 · high + low) */
OWN void add_sums(int32_t (*sums)[TILE_ROWS * PANEL], const float *scales, ptrdiff_t n_rows, int is_first,
                  float (*out)[GROUP]) {
    for (ptrdiff_t panel = 0; panel < 2; panel++) {
        const int32_t *high = sums[2 * panel], *low = sums[2 * panel + 1];
        const __m512 by = _mm512_loadu_ps(scales + panel * PANEL);
        for (ptrdiff_t r = 0; r < n_rows; r++) {
            float *to = out[r] + panel * PANEL;
            __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(_mm512_load_si512(high + r * PANEL), 8),
                                           _mm512_load_si512(low + r * PANEL));
            __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), by);
            _mm512_storeu_ps(to, is_first ? scaled : _mm512_add_ps(_mm512_loadu_ps(to), scaled));
        }
    }
}

OWN void integer_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    Quads quads;
    _Alignas(TILE_BYTES) int32_t sums[4][TILE_ROWS * PANEL];
    float out[LINEAR_ROWS][GROUP];
    ptrdiff_t depths = (linear->inputs + 1) / 2 * 2, blocks = (linear->inputs + BLOCK - 1) / BLOCK;
    ptrdiff_t plane = levels_row(linear->inputs), row = 2 * plane; /* bytes */
    const int8_t *levels = (const int8_t *)linear->levels + first_row * row;
    ptrdiff_t unit = GROUP * depths;
    const char *weights = linear->weights + group * unit;
    shape_tiles(n_rows < TILE_ROWS ? (int)n_rows : TILE_ROWS); /* behind the last row is room for a whole tile */
    for (ptrdiff_t block = 0; block < blocks; block++) {
        ptrdiff_t left = depths - block * BLOCK, depth = left < BLOCK ? left : BLOCK;
        const float *scales = linear->scales + (group * blocks + block) * GROUP;
        Source source = {weights, weights_after(linear, group, unit), unit, block * BLOCK * GROUP, depth};
        for (ptrdiff_t start = 0; start < n_rows; start += TILE_ROWS) {
            const int8_t *high = levels + start * row + block * BLOCK;
            ptrdiff_t rows = n_rows - start < TILE_ROWS ? n_rows - start : TILE_ROWS;
            multiply_tiles(high, high + plane, row, &source, &quads, start == 0, sums);
            add_sums(sums, scales, rows, block == 0, out + start);
        }
    }
    _tile_release();
    finish_rows(linear, group, first_row, n_rows, out);
}

#include "_amx_floats.h"

OWN void linear_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    switch (linear->format) {
    case INTEGER8:
        integer_unit(linear, group, first_row, n_rows);
        return;
    case FLOAT16:
        float16_unit(linear, group, first_row, n_rows);
        return;
    case BFLOAT16:
        bfloat16_unit(linear, group, first_row, n_rows);
        return;
    default:
        float32_unit(linear, group, first_row, n_rows);
    }
}

/* Levels as two planes of bytes, the high ones first, zeros behind the last input. */
OWN void quantise_row(const float *x, ptrdiff_t inputs, int16_t *levels, float *scale) {
    ptrdiff_t plane = levels_row(inputs);
    int8_t *high = (int8_t *)levels, *low = high + plane;
    float largest = largest_of(x, inputs);
    __m512 factor = _mm512_set1_ps(LEVELS / largest);
    for (ptrdiff_t i = 0; i < plane; i += 16) {
        __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(first_lanes(inputs - i), x + i), factor);
        __m256i whole = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(scaled));
        _mm_store_si128((void *)(high + i), _mm256_cvtepi16_epi8(_mm256_srai_epi16(whole, 8)));
        _mm_store_si128((void *)(low + i), _mm256_cvtepi16_epi8(whole));
    }
    *scale = largest / LEVELS;
}

static int has_tiles(void) {
    unsigned a, b, c, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & HAS_TILES) == HAS_TILES &&
           syscall(SYS_arch_prctl, ASK_FOR_PERMISSION, TILE_DATA) == 0;
}

/* NULL also where the system refuses tiles: an old one, or a signal stack that has no room for them. Filled in
   once, by the thread that loads the module: later ones may be computing with it. */
const Kernels *amx_kernels(void) {
    static Kernels kernels;
    const Kernels *others = avx512_kernels();
    if (kernels.name == NULL && others != NULL && has_tiles()) {
        kernels = *others;
        kernels.name = "amx";
        kernels.quantise_row = quantise_row;
        kernels.keeps_levels = 1;
        kernels.split_row = split_row;
        kernels.linear_unit = linear_unit;
    }
    return kernels.name == NULL ? NULL : &kernels;
}

#else

const Kernels *amx_kernels(void) { return NULL; }

#endif
