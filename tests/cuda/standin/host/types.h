// Words and vector types of CUDA C++.
#pragma once

#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("standin_memory")))

#define STANDIN_VECTORS(type, name, size)                                                                       \
    struct alignas(2 * size) name##2 { type x, y; };                                                            \
    struct name##3 { type x, y, z; };                                                                           \
    struct alignas(4 * size > 16 ? 16 : 4 * size) name##4 { type x, y, z, w; };                                 \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                            \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                                 \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
STANDIN_VECTORS(signed char, char, 1)
STANDIN_VECTORS(unsigned char, uchar, 1)
STANDIN_VECTORS(short, short, 2)
STANDIN_VECTORS(unsigned short, ushort, 2)
STANDIN_VECTORS(int, int, 4)
STANDIN_VECTORS(float, float, 4)
STANDIN_VECTORS(double, double, 8)
STANDIN_VECTORS(long long, longlong, 8)
STANDIN_VECTORS(unsigned long long, ulonglong, 8)
#undef STANDIN_VECTORS
struct alignas(8) uint2 { unsigned x, y; };  // uint3 is the engine's
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
