/* gated(a, b) = a * b * slope: one row of the result for each of a's rows. */
#include <stdint.h>

void gated(const float *a, const float *b, float *y, int64_t M, int64_t N, double slope)
{
    for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j)
            y[i * N + j] = a[i * N + j] * b[j] * (float)slope;
}
