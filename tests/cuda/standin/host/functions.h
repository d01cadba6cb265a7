// Functions of CUDA's that every kernel may call: reinterpretations, bits, roundings, fast approximations, cached loads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

using std::max;
using std::min;

namespace standin {
template <class To, class From> To reinterpreted(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}
}  // namespace standin

inline float __int_as_float(int x) { return standin::reinterpreted<float>(x); }
inline float __uint_as_float(unsigned x) { return standin::reinterpreted<float>(x); }
inline int __float_as_int(float x) { return standin::reinterpreted<int>(x); }
inline unsigned __float_as_uint(float x) { return standin::reinterpreted<unsigned>(x); }
inline double __longlong_as_double(long long x) { return standin::reinterpreted<double>(x); }
inline long long __double_as_longlong(double x) { return standin::reinterpreted<long long>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned result = 0;
    for (int i = 0; i < 32; ++i) result = result << 1 | (x >> i & 1);
    return result;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>(int64_t{a} * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    uint64_t both = uint64_t{y} << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(both >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
    return result;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return by & 31 ? high << (by & 31) | low >> (32 - (by & 31)) : high;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return by & 31 ? high << (32 - (by & 31)) | low >> (by & 31) : low;
}

#define STANDIN_ROUNDED(type, letter)                                                       \
    inline type __##letter##add_rn(type a, type b) { return a + b; }                              \
    inline type __##letter##mul_rn(type a, type b) { return a * b; }                              \
    inline type __##letter##sub_rn(type a, type b) { return a - b; }                              \
    inline type __##letter##div_rn(type a, type b) { return a / b; }
STANDIN_ROUNDED(float, f)
STANDIN_ROUNDED(double, d)
#undef STANDIN_ROUNDED
inline float __fmaf_rn(float a, float b, float c) { return std::fmaf(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __frsqrt_rn(float x) { return 1.0f / std::sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0f, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanhf(float x) { return std::tanh(x); }
inline float __saturatef(float x) { return x > 0.0f ? std::min(x, 1.0f) : 0.0f; }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }

template <class T> inline T __ldg(const T *from) { return *from; }
template <class T> inline T __ldcg(const T *from) { return *from; }
template <class T> inline T __ldcs(const T *from) { return *from; }
template <class T> inline T __ldlu(const T *from) { return *from; }
template <class T> inline void __stcg(T *to, T value) { *to = value; }
template <class T> inline void __stcs(T *to, T value) { *to = value; }
template <class T> inline void __stwt(T *to, T value) { *to = value; }

inline size_t __cvta_generic_to_shared(const void *address) { return reinterpret_cast<size_t>(address); }
