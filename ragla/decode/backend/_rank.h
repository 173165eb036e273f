/* The best of a row of logits. Included once for each kind of vector. */

/* Strictly: of equals the first one stays the better. No number is better than every number, as torch has it. */
INLINE int is_better(float a, float b) { return a > b || (a != a && b == b); }

/* A value takes its place among the `held` best, and the last of them leaves where there are `count`. */
INLINE void insert(float value, ptrdiff_t at, ptrdiff_t held, ptrdiff_t count, int64_t *ids, float *values) {
    ptrdiff_t place = held < count ? held : count - 1;
    for (; place > 0 && is_better(value, values[place - 1]); place--) {
        values[place] = values[place - 1];
        ids[place] = ids[place - 1];
    }
    values[place] = value;
    ids[place] = at;
}

/* Places and values of the `count` best of n, at least as many, best first. */
OWN void rank_row(const float *x, ptrdiff_t n, ptrdiff_t count, int64_t *ids, float *values) {
    ptrdiff_t at = 0;
    for (; at < count; at++) {
        insert(x[at], at, at, count, ids, values);
    }
    for (; at < n; at += LANES) {
        ptrdiff_t end = at + LANES < n ? at + LANES : n;
        if (end - at == LANES && !places_above(load(x + at), all(values[count - 1]))) {
            continue;
        }
        for (ptrdiff_t i = at; i < end; i++) {
            if (is_better(x[i], values[count - 1])) {
                insert(x[i], i, count, count, ids, values);
            }
        }
    }
}
