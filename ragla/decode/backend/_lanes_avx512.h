/* Vectors of sixteen floats for products, with AVX-512 and its VNNI; eight for the rest, as with AVX2. */

#include "_lanes_avx2.h"

enum {
    WIDE = 16,
    SINGLE_TILE = 24, /* rows that one register tile takes; it is narrow, so that it can take them */
    TILE = 12,        /* rows of a tile where there are several */
    QUERY_TILE = 12,  /* the same in attention, where rows are apart and need an address each */
};

typedef __m512 Wide;
typedef __m512i WideSums;  /* 16 × int32 */
typedef __m512i WidePairs; /* 32 × int16 */

FAST Wide load_wide(const float *from) { return _mm512_loadu_ps(from); }
FAST void store_wide(float *to, Wide a) { _mm512_storeu_ps(to, a); }
FAST Wide wide_all(float a) { return _mm512_set1_ps(a); }
FAST Wide wide_zero(void) { return _mm512_setzero_ps(); }
FAST Wide wide_add(Wide a, Wide b) { return _mm512_add_ps(a, b); }
FAST Wide wide_multiply(Wide a, Wide b) { return _mm512_mul_ps(a, b); }
FAST Wide wide_multiply_add(Wide a, Wide b, Wide c) { return _mm512_fmadd_ps(a, b, c); }
FAST Wide wide_larger(Wide a, Wide b) { return _mm512_max_ps(a, b); }
FAST Wide wide_nearest(Wide a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
FAST Wide wide_scaled_by_power(Wide a, Wide n) {
    __m512i power = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23);
    __mmask16 kept = _mm512_cmp_ps_mask(n, _mm512_set1_ps(-126.0f), _CMP_GE_OQ);
    return _mm512_maskz_mul_ps(kept, a, _mm512_castsi512_ps(power));
}
/* Eight sums take sixteen numbers in turn. */
FAST Lanes add_wide(Lanes sums, Wide a) {
    return add(add(sums, _mm512_castps512_ps256(a)), _mm512_extractf32x8_ps(a, 1));
}
FAST Lanes larger_of_wide(Wide a) { return larger(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }

FAST Wide load_wide_half(const uint16_t *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
}
FAST Wide load_wide_bfloat(const uint16_t *from) {
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

FAST WideSums no_wide_sums(void) { return _mm512_setzero_si512(); }
FAST WidePairs load_wide_pairs(const int8_t *from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)from));
}
FAST WidePairs wide_all_pair(const int16_t *from) {
    int32_t both;
    memcpy(&both, from, sizeof(both));
    return _mm512_set1_epi32(both);
}
FAST WideSums add_wide_products(WideSums sums, WidePairs a, WidePairs b) { return _mm512_dpwssd_epi32(sums, a, b); }
FAST Wide wide_to_floats(WideSums sums) { return _mm512_cvtepi32_ps(sums); }

/* Up to twenty-four of the thirty-two registers are sums. */
#define PANELS_AT_ONCE(rows) ((rows) <= 12 ? 2 : 1)
#define TILE_SHAPES(CASE)                                                                                     \
    CASE(1, 2) CASE(2, 2) CASE(3, 2) CASE(4, 2) CASE(5, 2) CASE(6, 2) CASE(7, 2) CASE(8, 2) CASE(9, 2)        \
    CASE(10, 2) CASE(11, 2) CASE(12, 2) CASE(13, 1) CASE(14, 1) CASE(15, 1) CASE(16, 1)           \
    CASE(17, 1) CASE(18, 1) CASE(19, 1) CASE(20, 1) CASE(21, 1) CASE(22, 1) CASE(23, 1) CASE(24, 1)
#define VECTORS_AT_ONCE(rows) ((rows) <= 3 ? 8 : (rows) <= 6 ? 4 : 2)
#define ROW_COUNTS(CASE)                                                                                       \
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
