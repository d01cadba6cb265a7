/* The widest f32 vectors of the processor that is compiled for: LANES numbers each, SUMS of them beside two constants in its registers. */
#ifndef VECTORS_H
#define VECTORS_H
#include <immintrin.h>

#if defined(__AVX512F__)
typedef __m512 vector;
#define LANES 16
#define SUMS(DO) SUMS_10(DO) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#define OF(name) _mm512_##name##_ps
#elif defined(__AVX__)
typedef __m256 vector;
#define LANES 8
#define SUMS SUMS_10
#define OF(name) _mm256_##name##_ps
#else
typedef __m128 vector;
#define LANES 4
#define SUMS SUMS_10
#define OF(name) _mm_##name##_ps
#endif
#define SUMS_10(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9)

/* a b + c, in one instruction where there is one */
static inline vector multiply_add(vector a, vector b, vector c) {
#if defined(__AVX512F__) || defined(__FMA__)
    return OF(fmadd)(a, b, c);
#else
    return OF(add)(OF(mul)(a, b), c);
#endif
}
#endif
