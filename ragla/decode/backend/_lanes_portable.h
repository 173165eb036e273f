/* The same vectors in plain C; compilers turn these loops into what the processor has. */

typedef struct {
    float at[8];
} Lanes;
typedef struct {
    int32_t at[8];
} Sums;
typedef struct {
    int16_t at[16];
} Pairs;

#define EACH(i) for (int i = 0; i < 8; i++)

FAST Lanes load(const float *from) {
    Lanes a;
    memcpy(a.at, from, sizeof(a.at));
    return a;
}
FAST void store(float *to, Lanes a) { memcpy(to, a.at, sizeof(a.at)); }
FAST Lanes all(float value) {
    Lanes a;
    EACH(i) a.at[i] = value;
    return a;
}
FAST Lanes zero(void) { return all(0.0f); }
FAST Lanes add(Lanes a, Lanes b) {
    EACH(i) a.at[i] += b.at[i];
    return a;
}
FAST Lanes multiply(Lanes a, Lanes b) {
    EACH(i) a.at[i] *= b.at[i];
    return a;
}
FAST Lanes divide(Lanes a, Lanes b) {
    EACH(i) a.at[i] /= b.at[i];
    return a;
}
FAST Lanes larger(Lanes a, Lanes b) {
    EACH(i) a.at[i] = a.at[i] > b.at[i] ? a.at[i] : b.at[i];
    return a;
}
FAST Lanes multiply_add(Lanes a, Lanes b, Lanes c) {
    EACH(i) c.at[i] += a.at[i] * b.at[i];
    return c;
}
FAST Lanes magnitude(Lanes a) {
    EACH(i) a.at[i] = fabsf(a.at[i]);
    return a;
}
/* a ≥ 0 with the sign of another. */
FAST Lanes with_sign(Lanes a, Lanes sign) {
    EACH(i) a.at[i] = copysignf(a.at[i], sign.at[i]);
    return a;
}
/* a where the sign is negative, b elsewhere. */
FAST Lanes by_sign(Lanes sign, Lanes a, Lanes b) {
    EACH(i) a.at[i] = signbit(sign.at[i]) ? a.at[i] : b.at[i];
    return a;
}
/* A bit for each place where a is above b, or no number. */
FAST int places_above(Lanes a, Lanes b) {
    int places = 0;
    EACH(i) places |= !(a.at[i] <= b.at[i]) << i;
    return places;
}
FAST Lanes nearest(Lanes a) {
    EACH(i) a.at[i] = rintf(a.at[i]);
    return a;
}

/* a · 2^n for whole n from -126 on, zero below. */
FAST Lanes scaled_by_power(Lanes a, Lanes n) {
    EACH(i) {
        uint32_t bits = n.at[i] >= -126.0f ? (uint32_t)((int32_t)n.at[i] + 127) << 23 : 0;
        float power;
        memcpy(&power, &bits, sizeof(power));
        a.at[i] = bits ? a.at[i] * power : 0.0f;
    }
    return a;
}

/* A binary16 number: its exponent and fraction moved to their places in binary32, then rescaled by 2^112. */
INLINE float float_of_half(uint16_t half) {
    uint32_t low = half & 0x7fffu, bits = low >= 0x7c00u ? low << 13 | 0x7f800000u : low << 13;
    float value, rescale = low >= 0x7c00u ? 1.0f : 5192296858534827628530496329220096.0f;
    memcpy(&value, &bits, sizeof(value));
    value *= rescale;
    return half & 0x8000u ? -value : value;
}
FAST Lanes load_half(const uint16_t *from) {
    Lanes a;
    EACH(i) a.at[i] = float_of_half(from[i]);
    return a;
}
FAST Lanes load_bfloat(const uint16_t *from) {
    Lanes a;
    EACH(i) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&a.at[i], &bits, sizeof(bits));
    }
    return a;
}

FAST Sums no_sums(void) {
    Sums sums;
    EACH(i) sums.at[i] = 0;
    return sums;
}
FAST Pairs load_pairs(const int8_t *from) {
    Pairs a;
    for (int i = 0; i < 16; i++) {
        a.at[i] = from[i];
    }
    return a;
}
FAST Pairs all_pair(const int16_t *from) {
    Pairs a;
    EACH(i) {
        a.at[2 * i] = from[0];
        a.at[2 * i + 1] = from[1];
    }
    return a;
}
FAST Sums add_products(Sums sums, Pairs a, Pairs b) {
    EACH(i) sums.at[i] += a.at[2 * i] * b.at[2 * i] + a.at[2 * i + 1] * b.at[2 * i + 1];
    return sums;
}
FAST Lanes to_floats(Sums sums) {
    Lanes a;
    EACH(i) a.at[i] = (float)sums.at[i];
    return a;
}

FAST void store_levels(int16_t *to, Lanes a) {
    EACH(i) to[i] = (int16_t)(a.at[i] == a.at[i] ? rintf(a.at[i]) : 0.0f);
}

/* Rows of an 8 × 8 square become its columns. */
FAST void transpose(const float *from, ptrdiff_t step, float *to, ptrdiff_t to_step) {
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 8; j++) {
            to[j * to_step + i] = from[i * step + j];
        }
    }
}

#undef EACH
