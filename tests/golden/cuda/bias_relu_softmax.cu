/* sm_90a: bias_relu_softmax, compiled by xlac. */
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

static __device__ __forceinline__ float max_f32(float a, float b)
{
#ifdef __CUDACC__
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
    return result;
#else
    if (a > b) return a;
    if (a < b) return b;
    return a == b && a != 0 ? a : a + b; /* zeros: +0 wins; otherwise NaN */
#endif
}

static __device__ __forceinline__ float exchange_f32(float value, int distance)
{
    return __shfl_xor_sync(0xffffffffu, value, distance);
}

/* dot with add, max
   bias_relu_softmax.yaml:10 logits: {op: linear, in: x, units: 1000}
   bias_relu_softmax.yaml:11 y: softmax(relu(logits), axis=-1) */
extern "C" __global__ void __launch_bounds__(256) dot_0_parts_kernel(const float *__restrict__ x, const float *__restrict__ x_1, float *__restrict__ t)
{
    const int block = (int)blockIdx.x;
    __shared__ __align__(64) float left[1088];
    __shared__ __align__(64) float right[1088];
    const int thread = (int)threadIdx.x;
    const int p = block % 4;
    const int p_1 = block / 4;
    const int p_2 = p_1 % 16;
    const int p_3 = p_1 / 16;
    const int row = p * 64;
    const int column = p_2 * 64;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int m = ((warp / 2) * 16) + ((lane / 8) * 4);
    const int n = ((warp % 2) * 32) + ((lane % 8) * 4);
    const int base = p_3 * 256;
    const unsigned char spare = thread < 128;
    const int place = thread / 2;
    const int step = (thread % 2) * 4;
    const int at = row + place;
    const int from = base + (at * 512);
    const int to = (step * 68) + place;
    (void)to;
    const int base_1 = p_3 * 256;
    const unsigned char spare_1 = thread < 128;
    const int place_1 = thread / 2;
    const int step_1 = (thread % 2) * 4;
    const int at_1 = column + place_1;
    const unsigned char inside = spare_1 & (at_1 < 1000);
    const int from_1 = base_1 + (at_1 * 512);
    const int to_1 = (step_1 * 68) + place_1;
    (void)to_1;
    f32x4 sum;
    f32x4 sum_1;
    f32x4 sum_2;
    f32x4 sum_3;
    #pragma unroll
    for (int i_ = 0; i_ < 4; ++i_) {
        sum.lane[i_] = 0.0f;
        sum_1.lane[i_] = 0.0f;
        sum_2.lane[i_] = 0.0f;
        sum_3.lane[i_] = 0.0f;
    }
    f32x4 held = {0};
    if (spare) held = *(const f32x4 *)&x[from + step];
    if (spare) {
        left[(step * 68) + place] = held.lane[0];
        left[((step * 68) + place) + 68] = held.lane[1];
        left[((step * 68) + place) + 136] = held.lane[2];
        left[((step * 68) + place) + 204] = held.lane[3];
    }
    f32x4 held_1 = {0};
    if (inside) held_1 = *(const f32x4 *)&x_1[from_1 + step_1];
    if (spare_1) {
        right[(step_1 * 68) + place_1] = held_1.lane[0];
        right[((step_1 * 68) + place_1) + 68] = held_1.lane[1];
        right[((step_1 * 68) + place_1) + 136] = held_1.lane[2];
        right[((step_1 * 68) + place_1) + 204] = held_1.lane[3];
    }
    for (int k = 0; k < 256; k += 8) {
        const int turn = (k / 8) % 2;
        const int later = ((k / 8) + 1) % 2;
        const int next = k + 8;
        __syncthreads();
        f32x4 held_2 = {0};
        if (spare & (next < 256)) held_2 = *(const f32x4 *)&x[(from + next) + step];
        f32x4 held_3 = {0};
        if (inside & (next < 256)) held_3 = *(const f32x4 *)&x_1[(from_1 + next) + step_1];
        const int tile = turn * 544;
        const int tile_1 = turn * 544;
        #pragma unroll
        for (int s = 0; s < 8; ++s) {
            const f32x4 x_2 = *(f32x4 *)&left[(tile + (s * 68)) + m];
            const f32x4 w = *(f32x4 *)&right[(tile_1 + (s * 68)) + n];
            #pragma unroll
            for (int i_ = 0; i_ < 4; ++i_) {
                const float one = x_2.lane[0];
                sum.lane[i_] = fmaf(one, w.lane[i_], sum.lane[i_]);
                const float one_1 = x_2.lane[1];
                sum_1.lane[i_] = fmaf(one_1, w.lane[i_], sum_1.lane[i_]);
                const float one_2 = x_2.lane[2];
                sum_2.lane[i_] = fmaf(one_2, w.lane[i_], sum_2.lane[i_]);
                const float one_3 = x_2.lane[3];
                sum_3.lane[i_] = fmaf(one_3, w.lane[i_], sum_3.lane[i_]);
            }
        }
        if (spare) {
            left[((later * 544) + (step * 68)) + place] = held_2.lane[0];
            left[(((later * 544) + (step * 68)) + place) + 68] = held_2.lane[1];
            left[(((later * 544) + (step * 68)) + place) + 136] = held_2.lane[2];
            left[(((later * 544) + (step * 68)) + place) + 204] = held_2.lane[3];
        }
        if (spare_1) {
            right[((later * 544) + (step_1 * 68)) + place_1] = held_3.lane[0];
            right[(((later * 544) + (step_1 * 68)) + place_1) + 68] = held_3.lane[1];
            right[(((later * 544) + (step_1 * 68)) + place_1) + 136] = held_3.lane[2];
            right[(((later * 544) + (step_1 * 68)) + place_1) + 204] = held_3.lane[3];
        }
    }
    if ((column + n) < 1000) {
        *(f32x4 *)&t[((((p_3 * 256000) + (row * 1000)) + (m * 1000)) + column) + n] = sum;
    }
    if ((column + n) < 1000) {
        *(f32x4 *)&t[(((((p_3 * 256000) + (row * 1000)) + (m * 1000)) + column) + n) + 1000] = sum_1;
    }
    if ((column + n) < 1000) {
        *(f32x4 *)&t[(((((p_3 * 256000) + (row * 1000)) + (m * 1000)) + column) + n) + 2000] = sum_2;
    }
    if ((column + n) < 1000) {
        *(f32x4 *)&t[(((((p_3 * 256000) + (row * 1000)) + (m * 1000)) + column) + n) + 3000] = sum_3;
    }
}

/* dot with add, max
   bias_relu_softmax.yaml:10 logits: {op: linear, in: x, units: 1000}
   bias_relu_softmax.yaml:11 y: softmax(relu(logits), axis=-1) */
extern "C" __global__ void __launch_bounds__(128) dot_0_kernel(const float *__restrict__ x, float *__restrict__ y, const float *__restrict__ t)
{
    const int block = (int)blockIdx.x;
    const int thread = (int)threadIdx.x;
    const int number = (block * 128) + thread;
    if (number < 64000) {
        const int p = number % 250;
        const int p_1 = number / 250;
        const int column = p * 4;
        const int first = (p_1 * 1000) + column;
        const f32x4 total = *(const f32x4 *)&t[first];
        const f32x4 e1_ = *(const f32x4 *)&t[first + 256000];
        f32x4 total_1;
        #pragma unroll
        for (int i_ = 0; i_ < 4; ++i_) total_1.lane[i_] = total.lane[i_] + e1_.lane[i_];
        const f32x4 v = *(const f32x4 *)&x[column];
        f32x4 v_2;
        #pragma unroll
        for (int i_ = 0; i_ < 4; ++i_) {
            const float v_1 = total_1.lane[i_] + v.lane[i_];
            v_2.lane[i_] = max_f32(v_1, 0.0f);
        }
        *(f32x4 *)&y[(p_1 * 1000) + column] = v_2;
    }
}

/* reduce with sub, exp, reduce, div; the reductions share a space
   bias_relu_softmax.yaml:11 y: softmax(relu(logits), axis=-1) */
extern "C" __global__ void __launch_bounds__(256) reduce_1_kernel(const float *__restrict__ x, float *__restrict__ y)
{
    const int block = (int)blockIdx.x;
    __shared__ __align__(64) float warps[8];
    __shared__ __align__(64) float warps_1[8];
    const int thread = (int)threadIdx.x;
    f32x4 acc;
    #pragma unroll
    for (int i_ = 0; i_ < 4; ++i_) acc.lane[i_] = -INFINITY;
    f32x4 v = {0};
    if (thread < 250) v = *(const f32x4 *)&x[(block * 1000) + (thread * 4)];
    #pragma unroll
    for (int i_ = 0; i_ < 4; ++i_) acc.lane[i_] = max_f32(acc.lane[i_], ((thread < 250) ? v.lane[i_] : (-INFINITY)));
    const float r = max_f32(max_f32(acc.lane[0], acc.lane[2]), max_f32(acc.lane[1], acc.lane[3]));
    const float e1_ = exchange_f32(r, 16);
    const float tree = max_f32(r, e1_);
    const float e2_ = exchange_f32(tree, 8);
    const float tree_1 = max_f32(tree, e2_);
    const float e3_ = exchange_f32(tree_1, 4);
    const float tree_2 = max_f32(tree_1, e3_);
    const float e4_ = exchange_f32(tree_2, 2);
    const float tree_3 = max_f32(tree_2, e4_);
    const float e5_ = exchange_f32(tree_3, 1);
    const float tree_4 = max_f32(tree_3, e5_);
    if ((thread % 32) == 0) {
        warps[thread / 32] = tree_4;
    }
    __syncthreads();
    const float tree_5 = warps[(thread % 32) % 8];
    const float e6_ = exchange_f32(tree_5, 4);
    const float tree_6 = max_f32(tree_5, e6_);
    const float e7_ = exchange_f32(tree_6, 2);
    const float tree_7 = max_f32(tree_6, e7_);
    const float e8_ = exchange_f32(tree_7, 1);
    const float tree_8 = max_f32(tree_7, e8_);
    f32x4 acc_1;
    f32x4 v_2;
    #pragma unroll
    for (int i_ = 0; i_ < 4; ++i_) {
        acc_1.lane[i_] = 0.0f;
        const float v_1 = v.lane[i_] - tree_8;
        v_2.lane[i_] = expf(((v_1 < (-87.33655f)) ? (-INFINITY) : v_1));
        acc_1.lane[i_] = acc_1.lane[i_] + ((thread < 250) ? v_2.lane[i_] : 0.0f);
    }
    const float r_1 = (acc_1.lane[0] + acc_1.lane[2]) + (acc_1.lane[1] + acc_1.lane[3]);
    const float e9_ = exchange_f32(r_1, 16);
    const float tree_9 = r_1 + e9_;
    const float e10_ = exchange_f32(tree_9, 8);
    const float tree_10 = tree_9 + e10_;
    const float e11_ = exchange_f32(tree_10, 4);
    const float tree_11 = tree_10 + e11_;
    const float e12_ = exchange_f32(tree_11, 2);
    const float tree_12 = tree_11 + e12_;
    const float e13_ = exchange_f32(tree_12, 1);
    const float tree_13 = tree_12 + e13_;
    if ((thread % 32) == 0) {
        warps_1[thread / 32] = tree_13;
    }
    __syncthreads();
    const float tree_14 = warps_1[(thread % 32) % 8];
    const float e14_ = exchange_f32(tree_14, 4);
    const float tree_15 = tree_14 + e14_;
    const float e15_ = exchange_f32(tree_15, 2);
    const float tree_16 = tree_15 + e15_;
    const float e16_ = exchange_f32(tree_16, 1);
    const float tree_17 = tree_16 + e16_;
    f32x4 v_3;
    #pragma unroll
    for (int i_ = 0; i_ < 4; ++i_) v_3.lane[i_] = v_2.lane[i_] / tree_17;
    if (thread < 250) {
        *(f32x4 *)&y[(block * 1000) + (thread * 4)] = v_3;
    }
}
