// Numbers as libraries find them in memory, for all of the stand-ins.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace numbers {

enum class Kind { f32, f16, bf16 };

inline size_t bytes_of(Kind kind) { return kind == Kind::f32 ? 4 : 2; }

inline uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

inline float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// Without the low bits of the fraction, to nearest even.
inline float rounded(float value, int dropped) {
    uint32_t bits = bits_of(value);
    if (std::isnan(value)) return value;
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    return float_of(bits & ~((1u << dropped) - 1));
}

inline float tf32(float value) { return rounded(value, 13); }

inline float load(const char *from, Kind kind, int64_t at) {
    if (kind == Kind::f32) {
        float value;
        std::memcpy(&value, from + 4 * at, 4);
        return value;
    }
    uint16_t bits;
    std::memcpy(&bits, from + 2 * at, 2);
    if (kind == Kind::bf16) return float_of(uint32_t(bits) << 16);
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return static_cast<float>(half);
}

inline void store(char *to, Kind kind, int64_t at, double value) {
    if (kind == Kind::f32) {
        float single = static_cast<float>(value);
        std::memcpy(to + 4 * at, &single, 4);
    } else if (kind == Kind::bf16) {
        float single = rounded(static_cast<float>(value), 16);
        uint16_t bits = static_cast<uint16_t>(bits_of(single) >> 16);
        if (std::isnan(single)) bits = 0x7fc0;
        std::memcpy(to + 2 * at, &bits, 2);
    } else {
        _Float16 half = static_cast<_Float16>(static_cast<float>(value));
        std::memcpy(to + 2 * at, &half, 2);
    }
}

inline double relu(double x) { return x > 0 || std::isnan(x) ? x : 0; }
inline double gelu(double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

}  // namespace numbers
