// The part of cublasLt.h (CUDA 13.0) that the stand-in has: numbers and structures, as compiled code sees them.
#pragma once

#include <cstddef>
#include <cstdint>

using cublasStatus_t = int;
enum : cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_NOT_SUPPORTED = 15,
};

enum : int { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum : int { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum : int { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2, CUBLASLT_REDUCTION_SCHEME_MASK = 7 };
enum : int { EPILOGUE_DEFAULT = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };

// Attributes, by number, with the bytes that each takes.
enum : int { DESC_TRANSA = 3, DESC_TRANSB = 4, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8, DESC_BIAS_DATA_TYPE = 26 };
enum : int { LAYOUT_BATCH_COUNT = 5, LAYOUT_STRIDED_BATCH_OFFSET = 6 };
enum : int { PREF_MAX_WORKSPACE_BYTES = 1, PREF_REDUCTION_SCHEME_MASK = 3, PREF_MIN_ALIGNMENT_A_BYTES = 5, PREF_MIN_ALIGNMENT_D_BYTES = 8 };

struct Layout {
    int type;
    uint64_t rows, columns;
    int64_t leading;
    int32_t count = 1;
    int64_t stride = 0;
};

struct Desc {
    int compute;
    int32_t transposed[2] = {0, 0};
    uint32_t epilogue = EPILOGUE_DEFAULT;
    const void *bias = nullptr;
    int32_t bias_type = -1;
};

struct Preference {
    uint64_t workspace = 0;
    uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
    uint32_t alignments[4] = {256, 256, 256, 256};
};

struct Algorithm {
    uint64_t problem;  // what it was chosen for, by a hash
    uint64_t workspace;
    uint32_t alignments[4];
    uint64_t spare[4];
};
static_assert(sizeof(Algorithm) == 64);

struct Heuristic {
    Algorithm algorithm;
    size_t workspace;
    cublasStatus_t state;
    float waves;
    int reserved[4];
};

// A product that was checked: addresses, and how to read what is there.
struct Problem {
    Layout a, b, c, d;
    bool a_transposed, b_transposed;
    float alpha, beta;
    uint32_t epilogue;
    const char *pa, *pb, *pc, *bias;
    char *pd, *workspace;
    size_t workspace_bytes;
    int bias_type;
    bool tf32;
};

void multiply(const Problem &problem);
size_t bytes_of(int type);
