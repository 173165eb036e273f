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

const Kernels portable_kernels = {"portable",       quantise_row, SINGLE_TILE, TILE, turn_rows, 0, linear_unit, attention_unit, normalise_row, place_row, gate_row, rank_row};
