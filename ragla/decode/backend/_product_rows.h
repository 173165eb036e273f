/* What is done to a row before and after a product. Included once for each kind of vector. */

#define LEVELS 32767.0f

/* The largest magnitude of a row, and no less than what can be divided by. */
OWN float largest_of(const float *x, ptrdiff_t inputs) {
    Lanes most = zero();
    ptrdiff_t whole = inputs / LANES * LANES;
    float tail[LANES] = {0.0f}, lanes[LANES], largest = 1e-30f;
    memcpy(tail, x + whole, (size_t)(inputs - whole) * sizeof(float));
    for (ptrdiff_t i = 0; i < whole; i += LANES) {
        most = larger(magnitude(load(x + i)), most);
    }
    store(lanes, larger(magnitude(load(tail)), most));
    for (int i = 0; i < LANES; i++) {
        largest = lanes[i] > largest ? lanes[i] : largest;
    }
    return largest;
}

/* Sums become outputs: scaled in 8 bit, with a bias and an addend where there are some. */
OWN void finish_rows(const Linear *linear, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t n_rows,
                     float (*sums)[GROUP]) {
    ptrdiff_t left = linear->outputs - group * GROUP, n = left < GROUP ? left : GROUP;
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        float *out = linear->out + (first_row + r) * linear->outputs + group * GROUP;
        for (ptrdiff_t i = 0; linear->format == INTEGER8 && i < n; i++) {
            sums[r][i] *= linear->x_scales[first_row + r];
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
