/* Products in the vectors of eight that everything else is done in. */

enum {
    WIDE = LANES,
    SINGLE_TILE = 6, /* rows that one register tile takes */
    TILE = 6,        /* rows of a tile where there are several */
    QUERY_TILE = 6,  /* the same in attention */
};

typedef Lanes Wide;
typedef Sums WideSums;
typedef Pairs WidePairs;

#define load_wide load
#define store_wide store
#define wide_all all
#define wide_zero zero
#define wide_add add
#define wide_multiply multiply
#define wide_multiply_add multiply_add
#define wide_larger larger
#define wide_exponential exponential
#define add_wide add
#define larger_of_wide(a) (a)
#define load_wide_half load_half
#define load_wide_bfloat load_bfloat
#define no_wide_sums no_sums
#define load_wide_pairs load_pairs
#define wide_all_pair all_pair
#define add_wide_products add_products
#define wide_to_floats to_floats

/* One chain waits for itself, so few rows take several panels at once. */
#define PANELS_AT_ONCE(rows) ((rows) <= 2 ? 2 : 1)
#define TILE_SHAPES(CASE) CASE(1, 2) CASE(2, 2) CASE(3, 1) CASE(4, 1) CASE(5, 1) CASE(6, 1)
#define VECTORS_AT_ONCE(rows) ((rows) == 1 ? 8 : (rows) == 2 ? 4 : 2)
#define ROW_COUNTS(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
