/* The kernels in plain C, for processors without AVX2. */

#include "_kernels.h"

#include <math.h>
#include <string.h>

#define FAST INLINE
#define OWN static

#include "_lanes_portable.h"
#include "_wide_as_lanes.h"
#include "_products.h"
#include "_rows.h"
#include "_attend.h"
#include "_rank.h"

const Kernels portable_kernels = {
    .name = "portable",
    .quantise_row = quantise_row, .single_tile = SINGLE_TILE, .tile = TILE, .turn_rows = turn_rows,
    .linear_unit = linear_unit, .attention_unit = attention_unit, .normalise_row = normalise_row,
    .place_row = place_row, .gate_row = gate_row, .rank_row = rank_row};
