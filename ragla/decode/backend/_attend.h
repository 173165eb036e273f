/* Attention of a few rows over a cache. Included once for each kind of vector.

   A row attends to the keys it sees, in the order of the cache: the text, then its ancestors in the tree. A
   key it does not see is never touched. A dot product is a chain over the width, the sum of the shares has
   eight lanes that take the seen keys in turn, and the mix of values is a chain over the seen keys. None of
   these depends on where the keys lie or who else asks. */

static const Ahead nothing_ahead = {NULL, 0};

INLINE ptrdiff_t smaller_of(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
INLINE ptrdiff_t larger_of(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

typedef struct {
    Seen *seen;
    float *query, *turned, *scores, *mixed;
    int32_t *more;
    ptrdiff_t scores_row;
} Scratch;

static void look(const uint8_t *visible, ptrdiff_t n_keys, Seen *seen) {
    const uint8_t *first = memchr(visible, 1, (size_t)n_keys);
    seen->start = first == NULL ? 0 : first - visible;
    seen->end = seen->last = seen->n_more = 0;
    if (first == NULL) {
        return;
    }
    const uint8_t *gap = memchr(first, 0, (size_t)(n_keys - seen->start));
    seen->end = seen->last = gap == NULL ? n_keys : gap - visible;
    for (ptrdiff_t at = seen->end; at < n_keys; at++) {
        const uint8_t *next = memchr(visible + at, 1, (size_t)(n_keys - at));
        if (next == NULL) {
            return;
        }
        at = next - visible;
        seen->more[seen->n_more++] = (int32_t)at;
        seen->last = at + 1;
    }
}

INLINE Ahead further(Ahead ahead, size_t bytes) {
    return (Ahead){ahead.from == NULL ? NULL : ahead.from + bytes, ahead.bytes};
}

/* The same sums for one row and eight columns. */
OWN void half_tile(const float *a, const float *b, ptrdiff_t step, ptrdiff_t depth, float *out, int mode) {
    Lanes sum = mode == CONTINUE ? load(out) : zero();
    for (ptrdiff_t k = 0; k < depth; k++) {
        sum = multiply_add(all(a[k]), load(b + k * step), sum);
    }
    store(out, sum);
}

/* out[r] (+)= Σ_k a[r][k] · b[k] over `columns`, a multiple of eight. */
OWN void any_rows(const float *a, ptrdiff_t a_row, const float *b, ptrdiff_t step, Ahead ahead, ptrdiff_t depth,
                  float *out, ptrdiff_t out_row, ptrdiff_t columns, int mode, int n_rows) {
    ptrdiff_t at = 0;
#define COLUMNS(rows, vectors)                                                                                \
    for (; (vectors) <= VECTORS_AT_ONCE(rows) && at + (vectors) * WIDE <= columns; at += (vectors) * WIDE) {  \
        float_tile(a, 1, a_row, (const char *)(b + at), FLOAT32, step, PANEL, ahead, depth, out + at,         \
                   out_row, mode, rows, vectors);                                                             \
        ahead = further(ahead, (vectors) * WIDE * sizeof(float));                                             \
    }
#define ROWS(rows)                                                                                            \
    case rows:                                                                                                \
        COLUMNS(rows, 8) COLUMNS(rows, 4) COLUMNS(rows, 2) COLUMNS(rows, 1) break;
    switch (n_rows) { ROW_COUNTS(ROWS) }
    for (int r = 0; at < columns && r < n_rows; r++) { /* half a wide vector */
        half_tile(a + r * a_row, b + at, step, depth, out + r * out_row + at, mode);
    }
}

/* Keys from `first` on, [width, KEY_TILE]; zeros past the last. */
OWN void turn_keys(const Attention *attention, const float *keys, ptrdiff_t first, float *turned) {
    for (ptrdiff_t key = 0; key < KEY_TILE; key += LANES) {
        ptrdiff_t left = attention->n_keys - first - key;
        float square[LANES * LANES] = {0.0f};
        for (ptrdiff_t at = 0; at < attention->width; at += LANES) {
            const float *from = keys + (first + key) * attention->key_row + at;
            if (left >= LANES) {
                transpose(from, attention->key_row, turned + at * KEY_TILE + key, KEY_TILE);
                continue;
            }
            for (ptrdiff_t i = 0; i < left; i++) {
                memcpy(square + i * LANES, from + i * attention->key_row, LANES * sizeof(float));
            }
            transpose(square, LANES, turned + at * KEY_TILE + key, KEY_TILE);
        }
    }
}

/* The part of so many floats that a tile of rows asks for in `depth` steps. */
INLINE Ahead share_of(const float *floats, ptrdiff_t n, ptrdiff_t depth, ptrdiff_t tile, ptrdiff_t tiles) {
    ptrdiff_t bytes = n * (ptrdiff_t)sizeof(float) / tiles;
    return (Ahead){(const char *)floats + tile * bytes, bytes / depth};
}

/* Scores of all rows that see anything of it, a tile of keys at a time. */
OWN void score(const Attention *attention, const float *keys, const float *values, const float *query,
               const Seen *const *seen, ptrdiff_t n_rows, float *scores, ptrdiff_t scores_row, float *turned) {
    ptrdiff_t start = attention->n_keys, last = 0, width = attention->width;
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        start = seen[r]->start < start ? seen[r]->start : start;
        last = seen[r]->last > last ? seen[r]->last : last;
    }
    ptrdiff_t tiles = (n_rows + QUERY_TILE - 1) / QUERY_TILE;
    for (ptrdiff_t key = start / KEY_TILE * KEY_TILE; key < last; key += KEY_TILE) {
        turn_keys(attention, keys, key, turned);
        const float *next = key + KEY_TILE < last ? keys + (key + KEY_TILE) * attention->key_row : values;
        for (ptrdiff_t tile = 0; tile < tiles; tile++) {
            ptrdiff_t first = tile_start(n_rows, tiles, tile);
            int rows = (int)(tile_start(n_rows, tiles, tile + 1) - first), wanted = 0;
            for (int r = 0; r < rows; r++) {
                wanted |= seen[first + r]->last > key && seen[first + r]->start < key + KEY_TILE;
            }
            if (wanted) {
                any_rows(query + first * width, width, turned, KEY_TILE,
                         share_of(next, KEY_TILE * attention->key_row, width, tile, tiles), width,
                         scores + first * scores_row + key, scores_row, KEY_TILE, REPLACE, rows);
            }
        }
    }
}

/* Scores become shares, those of seen keys beside each other from scores[start] on; returns one over their
   sum. There is room for two wide vectors behind the last score. */
OWN float share(const Seen *seen, float softcap, float *scores) {
    ptrdiff_t n = seen->end - seen->start + seen->n_more;
    float *row = scores + seen->start, lanes[LANES];
    for (ptrdiff_t i = 0; i < seen->n_more; i++) {
        scores[seen->end + i] = scores[seen->more[i]];
    }
    for (ptrdiff_t i = 0; softcap > 0.0f && i < n; i += LANES) {
        store(row + i, softly_capped(load(row + i), softcap));
    }
    for (int i = 0; i < 2 * WIDE; i++) {
        row[n + i] = -INFINITY;
    }
    Wide most = wide_all(-INFINITY), others = most;
    Lanes sum = zero();
    for (ptrdiff_t i = 0; i < n; i += 2 * WIDE) {
        most = wide_larger(load_wide(row + i), most);
        others = wide_larger(load_wide(row + i + WIDE), others);
    }
    store(lanes, larger_of_wide(wide_larger(most, others)));
    float largest = lanes[0];
    for (int i = 1; i < LANES; i++) {
        largest = lanes[i] > largest ? lanes[i] : largest;
    }
    for (ptrdiff_t i = 0; i < n; i += WIDE) {
        Wide e = wide_exponential(wide_add(load_wide(row + i), wide_all(-largest)));
        sum = add_wide(sum, e);
        store_wide(row + i, e);
    }
    store(lanes, sum);
    return n == 0 ? 0.0f : 1.0f / sum_of(lanes);
}

/* One row's values at the places from `start` to `end`. */
OWN void mix_run(const Attention *attention, const float *values, const float *shares, ptrdiff_t start,
                 ptrdiff_t end, float *mixed) {
    if (start < end) {
        any_rows(shares + start, 0, values + start * attention->value_row, attention->value_row, nothing_ahead,
                 end - start, mixed, 0, attention->value_width, CONTINUE, 1);
    }
}

/* A block of places for one tile of rows: what all see together, what a row sees before and behind alone. */
OWN void mix_block(const Attention *attention, const float *values, const Seen *const *seen, float *shares,
                   ptrdiff_t shares_row, ptrdiff_t start, ptrdiff_t end, Ahead ahead, float *mixed, int n_rows) {
    ptrdiff_t common = start, common_end = end, width = attention->value_width;
    for (int r = 0; r < n_rows; r++) {
        common = larger_of(common, seen[r]->start);
        common_end = smaller_of(common_end, seen[r]->end);
    }
    common_end = larger_of(common, common_end);
    for (int r = 0; r < n_rows; r++) {
        mix_run(attention, values, shares + r * shares_row, larger_of(start, seen[r]->start),
                smaller_of(smaller_of(end, seen[r]->end), common), mixed + r * width);
    }
    if (common < common_end) {
        any_rows(shares + common, shares_row, values + common * attention->value_row, attention->value_row, ahead,
                 common_end - common, mixed, width, width, CONTINUE, n_rows);
    }
    for (int r = 0; r < n_rows; r++) {
        mix_run(attention, values, shares + r * shares_row, larger_of(common_end, seen[r]->start),
                smaller_of(end, seen[r]->end), mixed + r * width);
    }
}

/* The values a row sees behind its first gap, one by one. */
OWN void mix_more(const Attention *attention, const float *values, const Seen *seen, const float *shares,
                  float *mixed) {
    for (ptrdiff_t i = 0; i < seen->n_more; i++) {
        any_rows(shares + seen->end + i, 0, values + seen->more[i] * attention->value_row, attention->value_row,
                 nothing_ahead, 1, mixed, 0, attention->value_width, CONTINUE, 1);
    }
}

OWN void mix(const Attention *attention, const float *values, const float *next_keys, const Seen *const *seen,
             ptrdiff_t n_rows, float *shares, ptrdiff_t shares_row, float *mixed) {
    ptrdiff_t start = attention->n_keys, end = 0, tiles = (n_rows + QUERY_TILE - 1) / QUERY_TILE;
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        start = smaller_of(start, seen[r]->start);
        end = larger_of(end, seen[r]->end);
    }
    for (ptrdiff_t at = start; at < end; at += VALUE_BLOCK) {
        const float *next = at + VALUE_BLOCK < end ? values + (at + VALUE_BLOCK) * attention->value_row : next_keys;
        for (ptrdiff_t tile = 0; tile < tiles; tile++) {
            ptrdiff_t first = tile_start(n_rows, tiles, tile);
            mix_block(attention, values, seen + first, shares + first * shares_row, shares_row, at,
                      smaller_of(end, at + VALUE_BLOCK),
                      share_of(next, VALUE_BLOCK * attention->value_row, VALUE_BLOCK, tile, tiles),
                      mixed + first * attention->value_width,
                      (int)(tile_start(n_rows, tiles, tile + 1) - first));
        }
    }
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        mix_more(attention, values, seen[r], shares + r * shares_row, mixed + r * attention->value_width);
    }
}

INLINE Scratch laid_out(const Attention *attention, char *scratch) {
    Scratch room;
    room.scores_row = scores_row(attention);
    room.turned = (float *)(void *)scratch;
    room.query = room.turned + KEY_TILE * attention->width;
    room.scores = room.query + attention->block * attention->width;
    room.mixed = room.scores + attention->block * room.scores_row;
    room.seen = (Seen *)(void *)(room.mixed + attention->block * attention->value_width);
    room.more = (int32_t *)(void *)(room.seen + attention->block + 1);
    return room;
}

/* Rows from `first` on of those that share the keys of a group; folded row r is head r % n of row r / n. */
OWN void attention_unit(const Attention *attention, ptrdiff_t group, ptrdiff_t first, ptrdiff_t n_rows,
                        char *scratch) {
    Scratch room = laid_out(attention, scratch);
    ptrdiff_t heads = attention->heads / attention->groups;
    const Seen *seen[FOLDED_ROWS];
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        ptrdiff_t row = (first + r) / heads, head = group * heads + (first + r) % heads;
        Seen *of_row = &room.seen[row - first / heads];
        if (r == 0 || (first + r) % heads == 0) {
            of_row->more = room.more + (row - first / heads) * attention->n_keys;
            look(attention->visible + row * attention->visible_row, attention->n_keys, of_row);
        }
        seen[r] = of_row;
        const float *query = attention->query + row * attention->query_row + head * attention->query_head;
        for (ptrdiff_t i = 0; i < attention->width; i++) {
            room.query[r * attention->width + i] = query[i] * attention->scale;
        }
    }
    const float *keys = attention->keys + group * attention->key_head;
    const float *values = attention->values + group * attention->value_head;
    const float *next_keys = group + 1 < attention->groups ? keys + attention->key_head : keys;
    score(attention, keys, values, room.query, seen, n_rows, room.scores,
          room.scores_row, room.turned);
    float inverse[FOLDED_ROWS];
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        inverse[r] = share(seen[r], attention->softcap, room.scores + r * room.scores_row);
    }
    memset(room.mixed, 0, (size_t)(n_rows * attention->value_width) * sizeof(float));
    mix(attention, values, next_keys, seen, n_rows, room.scores, room.scores_row,
        room.mixed);
    for (ptrdiff_t r = 0; r < n_rows; r++) {
        ptrdiff_t row = (first + r) / heads, head = group * heads + (first + r) % heads;
        float *out = attention->out + (row * attention->heads + head) * attention->value_width;
        for (ptrdiff_t i = 0; i < attention->value_width; i++) {
            out[i] = room.mixed[r * attention->value_width + i] * inverse[r];
        }
    }
}
