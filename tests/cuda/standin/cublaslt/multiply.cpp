// The arithmetic of the stand-in's matrix products: sums in double, one rounding to the result's type.
#include "cublaslt.h"

#include <cstring>

#include "../libraries/numbers.h"

using numbers::Kind;
using numbers::load;
using numbers::store;

namespace {

Kind kind_of(int type) { return type == CUDA_R_32F ? Kind::f32 : type == CUDA_R_16F ? Kind::f16 : Kind::bf16; }

double activated(uint32_t epilogue, double x) {
    return epilogue & EPILOGUE_RELU ? numbers::relu(x) : epilogue & EPILOGUE_GELU ? numbers::gelu(x) : x;
}

}  // namespace

size_t bytes_of(int type) { return numbers::bytes_of(kind_of(type)); }

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
                    float x = load(p.pa, kind_of(p.a.type), a), y = load(p.pb, kind_of(p.b.type), b);
                    sum += p.tf32 ? double(numbers::tf32(x)) * numbers::tf32(y) : double(x) * y;
                }
                sum *= p.alpha;
                if (p.beta != 0) sum += double(p.beta) * load(p.pc, kind_of(p.c.type), n * p.c.stride + i + j * p.c.leading);
                if (p.epilogue & EPILOGUE_BIAS) sum += load(p.bias, kind_of(p.bias_type), i);
                store(p.pd, kind_of(p.d.type), n * p.d.stride + i + j * p.d.leading, activated(p.epilogue, sum));
            }
}
