/* The loop that both programs of this folder take as the peak of f32 arithmetic. */
#ifndef FMA_H
#define FMA_H
#include "vectors.h"

/* Floating-point operations done. Sums, each in a register of its own, hide the latency of 4 cycles. */
static double fma_flops(long iterations) {
    const vector a = OF(set1)(0.999999f), b = OF(set1)(1e-7f);
    int sums = 0;
#define START(i) vector sum##i = OF(set1)(1.0f + i); sums++;
#if defined(__AVX512F__)
#define KEEP(i) __asm__ volatile("" : "+v"(sum##i));
#else
#define KEEP(i) __asm__ volatile("" : "+x"(sum##i));
#endif
#define STEP(i) sum##i = multiply_add(sum##i, a, b);
    SUMS(START)
    for (long n = 0; n < iterations; n++) {
        SUMS(STEP)
        SUMS(KEEP)
    }
#undef START
#undef STEP
#undef KEEP
    return 2.0 * LANES * sums * iterations;
}
#endif
