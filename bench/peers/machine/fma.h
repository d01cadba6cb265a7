/* The loop that both programs of this folder take as the peak of f32 arithmetic. */
#ifndef FMA_H
#define FMA_H
#include "vectors.h"

/* Floating-point operations done. Sums, each in a register of its own, hide the latency of 4 cycles. */
static double fma_flops(long iterations) {
    const vector a = INTRINSIC(set1)(0.999999f), b = INTRINSIC(set1)(1e-7f);
    int sums = 0;
#define START(i) vector sum##i = INTRINSIC(set1)(1.0f + i); sums++;
#define KEEP(i) __asm__ volatile("" : KEPT(sum##i));
#define STEP(i) sum##i = multiply_add(sum##i, a, b);
    EACH_SUM(START)
    for (long n = 0; n < iterations; n++) {
        EACH_SUM(STEP)
        EACH_SUM(KEEP)
    }
#undef START
#undef STEP
#undef KEEP
    return 2.0 * LANES * sums * iterations;
}
#endif
