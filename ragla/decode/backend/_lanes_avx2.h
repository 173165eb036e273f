/* Vectors of eight floats with AVX2, FMA and F16C. */

#include <immintrin.h>

typedef __m256 Lanes;
typedef __m256i Sums;  /* 8 × int32 */
typedef __m256i Pairs; /* 16 × int16 */

FAST Lanes load(const float *from) { return _mm256_loadu_ps(from); }
FAST void store(float *to, Lanes a) { _mm256_storeu_ps(to, a); }
FAST Lanes all(float a) { return _mm256_set1_ps(a); }
FAST Lanes zero(void) { return _mm256_setzero_ps(); }
FAST Lanes add(Lanes a, Lanes b) { return _mm256_add_ps(a, b); }
FAST Lanes multiply(Lanes a, Lanes b) { return _mm256_mul_ps(a, b); }
FAST Lanes divide(Lanes a, Lanes b) { return _mm256_div_ps(a, b); }
FAST Lanes larger(Lanes a, Lanes b) { return _mm256_max_ps(a, b); }
FAST Lanes multiply_add(Lanes a, Lanes b, Lanes c) { return _mm256_fmadd_ps(a, b, c); }
FAST Lanes magnitude(Lanes a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
FAST Lanes with_sign(Lanes a, Lanes sign) {
    return _mm256_or_ps(a, _mm256_and_ps(_mm256_set1_ps(-0.0f), sign));
}
/* a where the sign is negative, b elsewhere. */
FAST Lanes by_sign(Lanes sign, Lanes a, Lanes b) { return _mm256_blendv_ps(b, a, sign); }
/* A bit for each place where a is above b, or no number. */
FAST int places_above(Lanes a, Lanes b) { return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NLE_UQ)); }
FAST Lanes nearest(Lanes a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

/* a · 2^n for whole n from -126 on, zero below. */
FAST Lanes scaled_by_power(Lanes a, Lanes n) {
    __m256i power = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    __m256 kept = _mm256_cmp_ps(n, _mm256_set1_ps(-126.0f), _CMP_GE_OQ);
    return _mm256_and_ps(_mm256_mul_ps(a, _mm256_castsi256_ps(power)), kept);
}

FAST Lanes load_half(const uint16_t *from) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)); }
FAST Lanes load_bfloat(const uint16_t *from) {
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

FAST Sums no_sums(void) { return _mm256_setzero_si256(); }
FAST Pairs load_pairs(const int8_t *from) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)from)); }
FAST Pairs all_pair(const int16_t *from) {
    int32_t both;
    memcpy(&both, from, sizeof(both));
    return _mm256_set1_epi32(both);
}
FAST Sums add_products(Sums sums, Pairs a, Pairs b) {
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(a, b));
    __asm__ volatile("" : "+x"(sums)); /* keeps compilers from multiplying everything first, which spills */
    return sums;
}
FAST Lanes to_floats(Sums sums) { return _mm256_cvtepi32_ps(sums); }

FAST void store_levels(int16_t *to, Lanes a) {
    __m256i wide = _mm256_cvtps_epi32(a);
    _mm_storeu_si128((void *)to, _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
}

/* Rows of an 8 × 8 square become its columns. */
FAST void transpose(const float *from, ptrdiff_t step, float *to, ptrdiff_t to_step) {
    __m256 row[8], pair[8], four[8];
    for (int i = 0; i < 8; i++) {
        row[i] = _mm256_loadu_ps(from + i * step);
    }
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        four[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
        four[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
        four[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
        four[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * to_step, _mm256_permute2f128_ps(four[i], four[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_step, _mm256_permute2f128_ps(four[i], four[i + 4], 0x31));
    }
}
