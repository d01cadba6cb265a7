/* The loops over one thread's memory that both programs of this folder take as its bandwidth; each gives the bytes moved. */
#ifndef BANDWIDTH_H
#define BANDWIDTH_H
#include "vectors.h"
#include <stddef.h>

static inline double bw_read(float *a, size_t n) {
    vector s[8];
    for (int i = 0; i < 8; i++) s[i] = INTRINSIC(setzero)();
    for (size_t i = 0; i + 8 * LANES <= n; i += 8 * LANES)
        for (int k = 0; k < 8; k++) s[k] = INTRINSIC(add)(s[k], INTRINSIC(load)(a + i + LANES * k));
    float out[LANES]; float sum = 0;
    for (int i = 0; i < 8; i++) { INTRINSIC(storeu)(out, s[i]); sum += out[0]; }
    volatile float sink = sum; (void)sink;
    return 4.0 * n;
}
static inline double bw_copy(float *a, float *b, size_t n, int stream) {
    if (stream)
        for (size_t i = 0; i + LANES <= n; i += LANES) INTRINSIC(stream)(b + i, INTRINSIC(load)(a + i));
    else
        for (size_t i = 0; i + LANES <= n; i += LANES) INTRINSIC(store)(b + i, INTRINSIC(load)(a + i));
    return 8.0 * n;
}
static inline double bw_triad(float *a, float *b, float *c, size_t n, int stream) {
    vector k = INTRINSIC(set1)(3.0f);
    if (stream)
        for (size_t i = 0; i + LANES <= n; i += LANES)
            INTRINSIC(stream)(c + i, multiply_add(k, INTRINSIC(load)(b + i), INTRINSIC(load)(a + i)));
    else
        for (size_t i = 0; i + LANES <= n; i += LANES)
            INTRINSIC(store)(c + i, multiply_add(k, INTRINSIC(load)(b + i), INTRINSIC(load)(a + i)));
    return 12.0 * n;
}
#endif
