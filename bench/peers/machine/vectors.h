/* The widest f32 vectors of the processor that is compiled for. LANES numbers each; INTRINSIC(add) adds them; EACH_SUM(DO) is DO(0) DO(1) and so on,
 * for as many vectors as its registers hold beside two constants; KEPT is the constraint of inline assembly for any of these registers. */
#ifndef VECTORS_H
#define VECTORS_H
#include <immintrin.h>

#if defined(__AVX512F__)
typedef __m512 vector;
#define LANES 16
#define KEPT "+v"
#define EACH_SUM(DO) TEN_SUMS(DO) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#define INTRINSIC(name) _mm512_##name##_ps
#elif defined(__AVX__)
typedef __m256 vector;
#define LANES 8
#define KEPT "+x"
#define EACH_SUM TEN_SUMS
#define INTRINSIC(name) _mm256_##name##_ps
#else
typedef __m128 vector;
#define LANES 4
#define KEPT "+x"
#define EACH_SUM TEN_SUMS
#define INTRINSIC(name) _mm_##name##_ps
#endif
#define TEN_SUMS(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9)

/* a b + c, in one instruction where there is one */
static inline vector multiply_add(vector a, vector b, vector c) {
#if defined(__AVX512F__) || defined(__FMA__)
    return INTRINSIC(fmadd)(a, b, c);
#else
    return INTRINSIC(add)(INTRINSIC(mul)(a, b), c);
#endif
}
#endif
