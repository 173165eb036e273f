/* The kernels for x86 processors with AVX2, FMA and F16C, which are asked for when the module is loaded. */

#include "_kernels.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))

#include <cpuid.h>
#include <math.h>
#include <string.h>

#define TARGET target("avx2,fma,f16c")
#define FAST static inline __attribute__((always_inline, TARGET))
#define OWN static __attribute__((TARGET))

#include "_lanes_avx2.h"
#include "_wide_as_lanes.h"
#include "_products.h"
#include "_rows.h"
#include "_attend.h"
#include "_rank.h"

static const Kernels kernels = {
    .name = "avx2",
    .quantise_row = quantise_row, .single_tile = SINGLE_TILE, .tile = TILE, .turn_rows = turn_rows,
    .linear_unit = linear_unit, .attention_unit = attention_unit, .normalise_row = normalise_row,
    .place_row = place_row, .gate_row = gate_row, .rank_row = rank_row};

const Kernels *avx2_kernels(void) {
    unsigned a, b, c = 0, d;
    int half = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    __builtin_cpu_init();
    return half && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &kernels : NULL;
}

#else

const Kernels *avx2_kernels(void) { return NULL; }

#endif
