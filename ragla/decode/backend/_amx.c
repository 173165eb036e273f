/* Products with 8-bit weights in the tile registers of Intel's AMX, from Sapphire Rapids on.

   A 16-bit level is 256 · high + low, a signed and an unsigned byte; what the tiles sum of both is exact, so
   the results are the bits of the other kernels. All else is done with AVX-512. */

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

#define TARGET target("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#define FAST static inline __attribute__((always_inline, TARGET))
#define OWN static __attribute__((TARGET))

#include "_lanes_avx2.h"
#include "_product_rows.h"

enum {
    TILE_BYTES = 64,             /* of a row */
    STEPS = BLOCK / TILE_BYTES,  /* tiles along a block of inputs */
    AHEAD = 4096,
    ASK_FOR_PERMISSION = 0x1023, /* ARCH_REQ_XCOMP_PERM */
    TILE_DATA = 18               /* XFEATURE_XTILEDATA */
};

/* The layout that ldtilecfg takes. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} TileShapes;

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
OWN void turn_weights(const int8_t *from, ptrdiff_t pairs, int8_t *quads) {
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                           21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (ptrdiff_t row = 0; row < TILE_ROWS; row++) {
        ptrdiff_t left = pairs - 2 * row; /* 32 bytes a pair */
        __mmask32 there = left >= 2 ? 0xffffffffu : left == 1 ? 0xffffu : 0;
        FETCH(from + row * TILE_BYTES + AHEAD);
        __m512i both = _mm512_maskz_loadu_epi16(there, from + row * TILE_BYTES);
        _mm512_store_si512(quads + row * TILE_BYTES, _mm512_permutexvar_epi16(order, both));
    }
}

/* sums (+)= scales · (256 · high + low) */
OWN void add_sums(const int32_t *high, const int32_t *low, const float *scales, ptrdiff_t n_rows, int is_first, float *sums) {
    const __m512 by = _mm512_loadu_ps(scales);
    for (ptrdiff_t r = 0; r < n_rows; r++, sums += GROUP) {
        __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(_mm512_load_si512(high + r * PANEL), 8),
                                       _mm512_load_si512(low + r * PANEL));
        __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), by);
        _mm512_storeu_ps(sums, is_first ? scaled : _mm512_add_ps(_mm512_loadu_ps(sums), scaled));
    }
}

OWN void integer_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows,
                      float (*sums)[GROUP]) {
    _Alignas(TILE_BYTES) int8_t quads[2][STEPS][TILE_ROWS * TILE_BYTES];
    _Alignas(TILE_BYTES) int32_t found[4][TILE_ROWS * PANEL];
    ptrdiff_t depths = (linear->inputs + 1) / 2 * 2, blocks = (linear->inputs + BLOCK - 1) / BLOCK;
    ptrdiff_t plane = levels_row(linear->inputs), row = 2 * plane; /* bytes */
    const int8_t *weights = (const int8_t *)linear->weights + group * GROUP * depths;
    const int8_t *levels = (const int8_t *)linear->levels + first_row * row;
    int rows = n_rows < TILE_ROWS ? (int)n_rows : TILE_ROWS; /* there is room for whole tiles behind the last row */
    shape_tiles(rows);
    for (ptrdiff_t block = 0; block < blocks; block++) {
        ptrdiff_t left = depths - block * BLOCK, depth = left < BLOCK ? left : BLOCK;
        ptrdiff_t steps = (depth + TILE_BYTES - 1) / TILE_BYTES;
        const float *scales = linear->scales + (group * blocks + block) * GROUP;
        for (ptrdiff_t column = 0; column < GROUP; column += 2 * PANEL, weights += 2 * PANEL * depth) {
            for (ptrdiff_t start = 0; start < n_rows; start += TILE_ROWS) {
                const int8_t *high = levels + start * row + block * BLOCK, *low = high + plane;
                _tile_zero(0);
                _tile_zero(1);
                _tile_zero(2);
                _tile_zero(3);
                for (ptrdiff_t step = 0; step < steps; step++) {
                    if (start == 0) {
                        ptrdiff_t pairs = (depth - step * TILE_BYTES) / 2;
                        turn_weights(weights + step * TILE_BYTES * PANEL, pairs, quads[0][step]);
                        turn_weights(weights + (depth + step * TILE_BYTES) * PANEL, pairs, quads[1][step]);
                    }
                    _tile_loadd(4, high + step * TILE_BYTES, row);
                    _tile_loadd(5, low + step * TILE_BYTES, row);
                    _tile_loadd(6, quads[0][step], TILE_BYTES);
                    _tile_loadd(7, quads[1][step], TILE_BYTES);
                    _tile_dpbssd(0, 4, 6);
                    _tile_dpbusd(1, 5, 6);
                    _tile_dpbssd(2, 4, 7);
                    _tile_dpbusd(3, 5, 7);
                }
                _tile_stored(0, found[0], TILE_BYTES);
                _tile_stored(1, found[1], TILE_BYTES);
                _tile_stored(2, found[2], TILE_BYTES);
                _tile_stored(3, found[3], TILE_BYTES);
                ptrdiff_t end = n_rows - start < TILE_ROWS ? n_rows - start : TILE_ROWS;
                add_sums(found[0], found[1], scales + column, end, block == 0, &sums[start][column]);
                add_sums(found[2], found[3], scales + column + PANEL, end, block == 0, &sums[start][column + PANEL]);
            }
        }
    }
    _tile_release();
}

OWN void linear_unit(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows) {
    if (linear->format != INTEGER8) {
        avx512_kernels()->linear_unit(linear, group, first_row, n_rows);
        return;
    }
    float sums[LINEAR_ROWS][GROUP];
    integer_unit(linear, group, first_row, n_rows, sums);
    finish_rows(linear, group, first_row, n_rows, sums);
}

/* Levels as two planes of bytes, the high ones first, zeros behind the last input. */
OWN void quantise_row(const float *x, ptrdiff_t inputs, int16_t *levels, float *scale) {
    ptrdiff_t plane = levels_row(inputs);
    int8_t *high = (int8_t *)levels, *low = high + plane;
    float largest = largest_of(x, inputs);
    __m512 factor = _mm512_set1_ps(LEVELS / largest);
    for (ptrdiff_t i = 0; i < plane; i += 16) {
        ptrdiff_t left = inputs - i;
        __mmask16 there = (__mmask16)(left >= 16 ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
        __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, x + i), factor);
        __m256i whole = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(scaled));
        _mm_store_si128((void *)(high + i), _mm256_cvtepi16_epi8(_mm256_srai_epi16(whole, 8)));
        _mm_store_si128((void *)(low + i), _mm256_cvtepi16_epi8(whole));
    }
    *scale = largest / LEVELS;
}

const Kernels *amx_kernels(void) {
    static Kernels kernels;
    unsigned a, b, c, d = 0;
    const Kernels *others = avx512_kernels();
    int has_tiles = others != NULL && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bit_AMX_TILE) && (d & bit_AMX_INT8);
    if (!has_tiles || syscall(SYS_arch_prctl, ASK_FOR_PERMISSION, TILE_DATA) != 0) {
        return NULL;
    }
    kernels = *others;
    kernels.name = "amx";
    kernels.quantise_row = quantise_row;
    kernels.linear_unit = linear_unit;
    return &kernels;
}

#else

const Kernels *amx_kernels(void) { return NULL; }

#endif
