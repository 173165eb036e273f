/* What happens to single rows between the products. Included once for each kind of vector. */

/* e^x for x ≤ 0, with an error of about one unit in the last place; 0 from about -87 on. With operations whose
   names begin in one way or the other, so that wide vectors give the same bits. */
#define EXPONENTIAL(Vector, P)                                                                                \
    FAST Vector P##exponential(Vector x) {                                                                    \
        x = P##larger(x, P##all(-120.0f));                                                                    \
        Vector n = P##nearest(P##multiply(x, P##all(1.44269504088896341f)));                                  \
        Vector r = P##multiply_add(n, P##all(-0.693359375f), x);                                              \
        r = P##multiply_add(n, P##all(2.12194440e-4f), r);                                                    \
        Vector p = P##all(1.9875691500e-4f);                                                                  \
        p = P##multiply_add(p, r, P##all(1.3981999507e-3f));                                                  \
        p = P##multiply_add(p, r, P##all(8.3334519073e-3f));                                                  \
        p = P##multiply_add(p, r, P##all(4.1665795894e-2f));                                                  \
        p = P##multiply_add(p, r, P##all(1.6666665459e-1f));                                                  \
        p = P##multiply_add(p, r, P##all(5.0000001201e-1f));                                                  \
        p = P##add(P##multiply_add(p, P##multiply(r, r), r), P##all(1.0f));                                   \
        return P##scaled_by_power(p, n);                                                                      \
    }

EXPONENTIAL(Lanes, )
#ifndef wide_exponential
EXPONENTIAL(Wide, wide_)
#endif

/* cap · tanh(x / cap), from e^(-2|x / cap|). */
FAST Lanes softly_capped(Lanes x, float cap) {
    Lanes size = magnitude(multiply(x, all(1.0f / cap)));
    Lanes e = exponential(multiply(size, all(-2.0f)));
    Lanes capped = divide(add(all(1.0f), multiply(e, all(-1.0f))), add(all(1.0f), e));
    return with_sign(multiply(capped, all(cap)), x);
}

INLINE float sum_of(const float *lanes) {
    float low = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
    return low + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/* x divided by its root mean square, times a weight; n is a multiple of eight. */
OWN void normalise_row(const float *x, const float *weight, ptrdiff_t n, float epsilon, float *out) {
    Lanes squares[2] = {zero(), zero()};
    float lanes[LANES];
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        Lanes part = load(x + i);
        squares[i / LANES % 2] = multiply_add(part, part, squares[i / LANES % 2]);
    }
    store(lanes, add(squares[0], squares[1]));
    Lanes factor = all(1.0f / sqrtf(sum_of(lanes) / (float)n + epsilon));
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        store(out + i, multiply(multiply(load(x + i), factor), load(weight + i)));
    }
}

/* Rotary embedding of one head, the second half turned against the first. */
OWN void rotate(const float *x, const float *cosines, const float *sines, ptrdiff_t width, float *out) {
    ptrdiff_t half = width / 2;
    for (ptrdiff_t i = 0; i < half; i++) {
        float low = x[i], high = x[half + i];
        out[i] = low * cosines[i] - high * sines[i];
        out[half + i] = high * cosines[half + i] + low * sines[half + i];
    }
}

/* Queries, keys and values of a row: norms where the layer has them, rotated, keys and values to the cache. */
OWN void place_row(const Pass *pass, const Layer *layer, ptrdiff_t row, float *projected) {
    ptrdiff_t width = pass->width, place = pass->prefix + row;
    const float *cosines = pass->cosines + row * width, *sines = pass->sines + row * width;
    float *head = projected;
    for (ptrdiff_t i = 0; i < pass->heads + pass->groups; i++, head += width) {
        int is_key = i >= pass->heads;
        const float *norm = (const float *)(intptr_t)(is_key ? layer->key_norm : layer->query_norm);
        float *out = head;
        if (is_key) {
            out = (float *)(intptr_t)layer->keys + ((i - pass->heads) * pass->capacity + place) * width;
        }
        if (norm != NULL) {
            normalise_row(head, norm, width, pass->epsilon, head);
        }
        rotate(head, cosines, sines, width, out);
    }
    for (ptrdiff_t group = 0; group < pass->groups; group++, head += width) {
        float *values = (float *)(intptr_t)layer->values + (group * pass->capacity + place) * width;
        memcpy(values, head, (size_t)width * sizeof(float));
    }
}

/* silu(gate) · up, gates [2, n]; n is a multiple of eight. */
OWN void gate_row(const float *gates, ptrdiff_t n, float *out) {
    Lanes one = all(1.0f);
    for (ptrdiff_t i = 0; i < n; i += LANES) {
        Lanes gate = load(gates + i), e = exponential(multiply(magnitude(gate), all(-1.0f)));
        Lanes sigmoid = divide(by_sign(gate, e, one), add(one, e));
        store(out + i, multiply(multiply(gate, sigmoid), load(gates + n + i)));
    }
}
