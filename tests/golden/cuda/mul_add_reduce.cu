/* sm_90a: mul_add_reduce, compiled by xlac. */
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t, uintptr_t;
#define INT64_C(value) value##ll
#define UINT64_C(value) value##ull
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#else
#include <math.h>
#include <stdint.h>
#include <string.h>
#endif

struct __align__(16) f32x4 { float lane[4]; };

static __device__ __forceinline__ float exchange_f32(float value, int distance)
{
    return __shfl_xor_sync(0xffffffffu, value, distance);
}

/* reduce with mul, add
   mul_add_reduce.yaml:9 total: sum(x + y * z) */
extern "C" __global__ void __launch_bounds__(1024) reduce_0_kernel(const float *__restrict__ x_1, const float *__restrict__ x_2, const float *__restrict__ x, float *__restrict__ y)
{
    __shared__ __align__(64) float warps[32];
    const int thread = (int)threadIdx.x;
    f32x4 acc;
    #pragma unroll
    for (int i_ = 0; i_ < 4; ++i_) acc.lane[i_] = 0.0f;
    for (int k = 0; k < 16384; k += 4096) {
        const int k_1 = k + thread;
        const int k_2 = (k + thread) + 1024;
        const int k_3 = (k + thread) + 2048;
        const int k_4 = (k + thread) + 3072;
        const f32x4 v = *(const f32x4 *)&x[k_1 * 4];
        const f32x4 v_1 = *(const f32x4 *)&x_1[k_1 * 4];
        const f32x4 v_2 = *(const f32x4 *)&x_2[k_1 * 4];
        f32x4 v_4;
        #pragma unroll
        for (int i_ = 0; i_ < 4; ++i_) {
            const float v_3 = v_1.lane[i_] * v_2.lane[i_];
            v_4.lane[i_] = v.lane[i_] + v_3;
        }
        const f32x4 v_5 = *(const f32x4 *)&x[k_2 * 4];
        const f32x4 v_6 = *(const f32x4 *)&x_1[k_2 * 4];
        const f32x4 v_7 = *(const f32x4 *)&x_2[k_2 * 4];
        f32x4 v_9;
        #pragma unroll
        for (int i_ = 0; i_ < 4; ++i_) {
            const float v_8 = v_6.lane[i_] * v_7.lane[i_];
            v_9.lane[i_] = v_5.lane[i_] + v_8;
        }
        const f32x4 v_10 = *(const f32x4 *)&x[k_3 * 4];
        const f32x4 v_11 = *(const f32x4 *)&x_1[k_3 * 4];
        const f32x4 v_12 = *(const f32x4 *)&x_2[k_3 * 4];
        f32x4 v_14;
        #pragma unroll
        for (int i_ = 0; i_ < 4; ++i_) {
            const float v_13 = v_11.lane[i_] * v_12.lane[i_];
            v_14.lane[i_] = v_10.lane[i_] + v_13;
        }
        const f32x4 v_15 = *(const f32x4 *)&x[k_4 * 4];
        const f32x4 v_16 = *(const f32x4 *)&x_1[k_4 * 4];
        const f32x4 v_17 = *(const f32x4 *)&x_2[k_4 * 4];
        #pragma unroll
        for (int i_ = 0; i_ < 4; ++i_) {
            const float v_18 = v_16.lane[i_] * v_17.lane[i_];
            const float v_19 = v_15.lane[i_] + v_18;
            acc.lane[i_] = acc.lane[i_] + v_4.lane[i_];
            acc.lane[i_] = acc.lane[i_] + v_9.lane[i_];
            acc.lane[i_] = acc.lane[i_] + v_14.lane[i_];
            acc.lane[i_] = acc.lane[i_] + v_19;
        }
    }
    const float r = (acc.lane[0] + acc.lane[2]) + (acc.lane[1] + acc.lane[3]);
    const float e1_ = exchange_f32(r, 16);
    const float tree = r + e1_;
    const float e2_ = exchange_f32(tree, 8);
    const float tree_1 = tree + e2_;
    const float e3_ = exchange_f32(tree_1, 4);
    const float tree_2 = tree_1 + e3_;
    const float e4_ = exchange_f32(tree_2, 2);
    const float tree_3 = tree_2 + e4_;
    const float e5_ = exchange_f32(tree_3, 1);
    const float tree_4 = tree_3 + e5_;
    if ((thread % 32) == 0) {
        warps[thread / 32] = tree_4;
    }
    __syncthreads();
    const float tree_5 = warps[thread % 32];
    const float e6_ = exchange_f32(tree_5, 16);
    const float tree_6 = tree_5 + e6_;
    const float e7_ = exchange_f32(tree_6, 8);
    const float tree_7 = tree_6 + e7_;
    const float e8_ = exchange_f32(tree_7, 4);
    const float tree_8 = tree_7 + e8_;
    const float e9_ = exchange_f32(tree_8, 2);
    const float tree_9 = tree_8 + e9_;
    const float e10_ = exchange_f32(tree_9, 1);
    const float tree_10 = tree_9 + e10_;
    if (thread == 0) {
        y[0] = tree_10;
    }
}
