/* The loops over one thread's memory that both programs of this folder take as its bandwidth; each gives the bytes moved. */
#ifndef BANDWIDTH_H
#define BANDWIDTH_H
#include <immintrin.h>
#include <stddef.h>

static inline double bw_read(float *a, size_t n) {
    __m512 s[8];
    for (int i = 0; i < 8; i++) s[i] = _mm512_setzero_ps();
    for (size_t i = 0; i + 128 <= n; i += 128)
        for (int k = 0; k < 8; k++) s[k] = _mm512_add_ps(s[k], _mm512_load_ps(a + i + 16 * k));
    float out[16]; float sum = 0;
    for (int i = 0; i < 8; i++) { _mm512_storeu_ps(out, s[i]); sum += out[0]; }
    volatile float sink = sum; (void)sink;
    return 4.0 * n;
}
static inline double bw_copy(float *a, float *b, size_t n, int stream) {
    if (stream)
        for (size_t i = 0; i + 16 <= n; i += 16) _mm512_stream_ps(b + i, _mm512_load_ps(a + i));
    else
        for (size_t i = 0; i + 16 <= n; i += 16) _mm512_store_ps(b + i, _mm512_load_ps(a + i));
    return 8.0 * n;
}
static inline double bw_triad(float *a, float *b, float *c, size_t n, int stream) {
    __m512 k = _mm512_set1_ps(3.0f);
    if (stream)
        for (size_t i = 0; i + 16 <= n; i += 16)
            _mm512_stream_ps(c + i, _mm512_fmadd_ps(k, _mm512_load_ps(b + i), _mm512_load_ps(a + i)));
    else
        for (size_t i = 0; i + 16 <= n; i += 16)
            _mm512_store_ps(c + i, _mm512_fmadd_ps(k, _mm512_load_ps(b + i), _mm512_load_ps(a + i)));
    return 12.0 * n;
}
#endif
