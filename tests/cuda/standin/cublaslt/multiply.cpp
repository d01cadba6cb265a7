// The arithmetic of the stand-in's matrix products: sums in double, one rounding to the result's type.
#include "cublaslt.h"

#include <cmath>
#include <cstring>

namespace {

uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}

float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}

// Without the low bits of the fraction, to nearest even.
float rounded(float value, int dropped) {
    uint32_t bits = bits_of(value);
    if (std::isnan(value)) return value;
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    return float_of(bits & ~((1u << dropped) - 1));
}

float load(const char *from, int type, int64_t at) {
    if (type == CUDA_R_32F) {
        float value;
        std::memcpy(&value, from + 4 * at, 4);
        return value;
    }
    uint16_t bits;
    std::memcpy(&bits, from + 2 * at, 2);
    if (type == CUDA_R_16BF) return float_of(uint32_t(bits) << 16);
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return static_cast<float>(half);
}

void store(char *to, int type, int64_t at, double value) {
    if (type == CUDA_R_32F) {
        float single = static_cast<float>(value);
        std::memcpy(to + 4 * at, &single, 4);
    } else if (type == CUDA_R_16BF) {
        float single = rounded(static_cast<float>(value), 16);
        uint16_t bits = static_cast<uint16_t>(bits_of(single) >> 16);
        if (std::isnan(single)) bits = 0x7fc0;
        std::memcpy(to + 2 * at, &bits, 2);
    } else {
        _Float16 half = static_cast<_Float16>(static_cast<float>(value));
        std::memcpy(to + 2 * at, &half, 2);
    }
}

double activated(uint32_t epilogue, double x) {
    if (epilogue & EPILOGUE_RELU) return x > 0 || std::isnan(x) ? x : 0;
    if (epilogue & EPILOGUE_GELU) return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    return x;
}

}  // namespace

size_t bytes_of(int type) { return type == CUDA_R_32F ? 4 : 2; }

void multiply(const Problem &p) {
    std::memset(p.workspace, 0xcd, p.workspace_bytes);  // whoever has something there sees that it is used
    int64_t depth = static_cast<int64_t>(p.a_transposed ? p.a.rows : p.a.columns);
    for (int64_t n = 0; n < p.d.count; ++n)
        for (int64_t j = 0; j < static_cast<int64_t>(p.d.columns); ++j)
            for (int64_t i = 0; i < static_cast<int64_t>(p.d.rows); ++i) {
                double sum = 0;
                for (int64_t k = 0; k < depth; ++k) {
                    int64_t a = n * p.a.stride + (p.a_transposed ? k + i * p.a.leading : i + k * p.a.leading);
                    int64_t b = n * p.b.stride + (p.b_transposed ? j + k * p.b.leading : k + j * p.b.leading);
                    float x = load(p.pa, p.a.type, a), y = load(p.pb, p.b.type, b);
                    sum += p.tf32 ? double(rounded(x, 13)) * rounded(y, 13) : double(x) * y;
                }
                sum *= p.alpha;
                if (p.beta != 0) sum += double(p.beta) * load(p.pc, p.c.type, n * p.c.stride + i + j * p.c.leading);
                if (p.epilogue & EPILOGUE_BIAS) sum += load(p.bias, p.bias_type, i);
                store(p.pd, p.d.type, n * p.d.stride + i + j * p.d.leading, activated(p.epilogue, sum));
            }
}
