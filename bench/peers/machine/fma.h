/* The loop that both programs of this folder take as the peak of f32 arithmetic. */
#ifndef FMA_H
#define FMA_H
#include <immintrin.h>

#define EACH(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)

/* Floating-point operations done. 16 sums, each in a register of its own, hide the latency of 4 cycles. */
static double fma_flops(long iterations) {
    const __m512 a = _mm512_set1_ps(0.999999f), b = _mm512_set1_ps(1e-7f);
#define START(i) __m512 sum##i = _mm512_set1_ps(1.0f + i);
#define STEP(i) sum##i = _mm512_fmadd_ps(sum##i, a, b);
#define KEEP(i) __asm__ volatile("" : "+v"(sum##i));
    EACH(START)
    for (long n = 0; n < iterations; n++) {
        EACH(STEP)
        EACH(KEEP)
    }
#undef START
#undef STEP
#undef KEEP
    return 16.0 * 16 * 2 * iterations;
}
#endif
