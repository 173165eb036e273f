/* The kernels for x86 processors with AVX-512 and its VNNI: Intel's from Ice Lake on, AMD's from Zen 4 on.

   Every sum is the same chain as with AVX2, so the results are the same bits. */

#include "_kernels.h"

#if defined(__x86_64__) && \
    ((defined(__clang__) && __clang_major__ >= 8) || (!defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 9))

#include <math.h>
#include <string.h>

#define TARGET target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#define FAST static inline __attribute__((always_inline, TARGET))
#define OWN static __attribute__((TARGET))

#include "_lanes_avx512.h"
#include "_products.h"
#include "_rows.h"
#include "_attend.h"
#include "_rank.h"

static const Kernels kernels = {
    .name = "avx512",
    .quantise_row = quantise_row, .single_tile = SINGLE_TILE, .tile = TILE, .turn_rows = turn_rows,
    .linear_unit = linear_unit, .attention_unit = attention_unit, .normalise_row = normalise_row,
    .place_row = place_row, .gate_row = gate_row, .rank_row = rank_row};

const Kernels *avx512_kernels(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512vnni")
               ? &kernels
               : NULL;
}

#else

const Kernels *avx512_kernels(void) { return NULL; }

#endif
