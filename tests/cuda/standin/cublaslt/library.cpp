// A library that stands in for cuBLASLt: it checks what it is asked as strictly as the documentation allows, and computes
// on the CPU, in the streams of the stand-in driver.
#include "cublaslt.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define CALL extern "C" __attribute__((visibility("default"))) cublasStatus_t

extern "C" int cuCtxGetCurrent(void **context);
extern "C" int standin_launch(void *stream, void (*function)(void *), void *data);
extern "C" int standin_holds(uint64_t start, size_t bytes);

namespace {

std::mutex lock;
std::string complaint;  // what was wrong with the last call that was refused
long held = 0, products = 0, searches = 0;
std::vector<std::unique_ptr<Problem>> asked;  // graphs may run them again, as long as the process lasts

cublasStatus_t refuse(const std::string &why, cublasStatus_t status = CUBLAS_STATUS_INVALID_VALUE) {
    complaint = why;
    return status;
}

bool setting(const char *name) {
    const char *value = std::getenv(name);
    return value && *value && *value != '0';
}

template <typename T>
cublasStatus_t give(T **made, T *value) {
    *made = value;
    ++held;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t take(T *value) {
    if (!value) return refuse("a descriptor that is none is destroyed");
    delete value;
    --held;
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t set(T &field, const void *value, size_t bytes, const char *name) {
    if (bytes != sizeof(T)) return refuse(std::string(name) + " does not take " + std::to_string(bytes) + " bytes");
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

struct Asked {
    const Desc &desc;
    const Layout &a, &b, &c, &d;

    uint64_t rows(int side) const { return (desc.transposed[side] ? layout(side).columns : layout(side).rows); }
    uint64_t columns(int side) const { return (desc.transposed[side] ? layout(side).rows : layout(side).columns); }
    const Layout &layout(int side) const { return side ? b : a; }

    uint64_t hash() const {
        uint64_t found = 1469598103934665603u;
        auto mix = [&](uint64_t value) { found = (found ^ value) * 1099511628211u; };
        for (const Layout *of : {&a, &b, &c, &d})
            for (uint64_t value : {uint64_t(of->type), of->rows, of->columns, uint64_t(of->leading), uint64_t(of->count), uint64_t(of->stride)}) mix(value);
        for (uint64_t value : {uint64_t(desc.compute), uint64_t(desc.transposed[0]), uint64_t(desc.transposed[1]), uint64_t(desc.epilogue)}) mix(value);
        return found;
    }

    cublasStatus_t check() const {
        for (const Layout *of : {&a, &b, &c, &d}) {
            if (!of->rows || !of->columns) return refuse("a matrix has no elements");
            if (of->leading < static_cast<int64_t>(of->rows)) return refuse("columns of a matrix overlap");
            if (of->count != d.count) return refuse("matrices come in different numbers");
        }
        if (columns(0) != rows(1) || rows(0) != d.rows || columns(1) != d.columns || c.rows != d.rows || c.columns != d.columns)
            return refuse("extents do not agree");
        if (d.count > 1 && d.stride < static_cast<int64_t>(d.rows)) return refuse("results overlap");
        if (a.type != b.type || c.type != d.type) return refuse("types do not agree", CUBLAS_STATUS_NOT_SUPPORTED);
        if (d.type != a.type && d.type != CUDA_R_32F) return refuse("no such type of a result", CUBLAS_STATUS_NOT_SUPPORTED);
        if (desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type != CUDA_R_32F) return refuse("tf32 is for f32", CUBLAS_STATUS_NOT_SUPPORTED);
        uint32_t activation = desc.epilogue & ~uint32_t(EPILOGUE_BIAS);
        if (activation > 1 && activation != EPILOGUE_RELU && activation != EPILOGUE_GELU) return refuse("no such epilogue");
        if (desc.epilogue & EPILOGUE_BIAS && desc.bias_type != d.type) return refuse("the bias is not of the result's type", CUBLAS_STATUS_NOT_SUPPORTED);
        if (setting("STANDIN_CUBLASLT_REFUSES")) return refuse("the test asked for it", CUBLAS_STATUS_NOT_SUPPORTED);
        return CUBLAS_STATUS_SUCCESS;
    }
};

bool reaches(const void *start, const Layout &of) {
    size_t last = (of.count - 1) * of.stride + (of.columns - 1) * of.leading + of.rows;
    return standin_holds(reinterpret_cast<uint64_t>(start), last * bytes_of(of.type));
}

bool same(const Layout &one, const Layout &other) {
    return one.type == other.type && one.leading == other.leading && one.stride == other.stride;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() {
    const char *given = std::getenv("STANDIN_CUBLASLT_VERSION");
    return given ? std::strtoul(given, nullptr, 10) : 130100;
}
extern "C" __attribute__((visibility("default"))) const char *cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
        case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
        case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
        case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
        case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
        case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
        case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "unknown";
}

CALL cublasLtCreate(int **handle) {
    void *context = nullptr;
    if (cuCtxGetCurrent(&context) || !context) return refuse("no context is current", CUBLAS_STATUS_NOT_INITIALIZED);
    if (const char *given = std::getenv("STANDIN_CUBLASLT_CREATE")) return refuse("the test asked for it", std::atoi(given));
    return give(handle, new int(0));
}
CALL cublasLtDestroy(int *handle) { return take(handle); }

CALL cublasLtMatmulDescCreate(Desc **made, int compute, int scale) {
    if (scale != CUDA_R_32F || (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_FAST_TF32)) return refuse("no such arithmetic");
    return give(made, new Desc{compute});
}
CALL cublasLtMatmulDescDestroy(Desc *desc) { return take(desc); }
CALL cublasLtMatmulDescSetAttribute(Desc *desc, int attribute, const void *value, size_t bytes) {
    switch (attribute) {
        case DESC_TRANSA: return set(desc->transposed[0], value, bytes, "TRANSA");
        case DESC_TRANSB: return set(desc->transposed[1], value, bytes, "TRANSB");
        case DESC_EPILOGUE: return set(desc->epilogue, value, bytes, "EPILOGUE");
        case DESC_BIAS_POINTER: return set(desc->bias, value, bytes, "BIAS_POINTER");
        case DESC_BIAS_DATA_TYPE: return set(desc->bias_type, value, bytes, "BIAS_DATA_TYPE");
    }
    return refuse("no such attribute of a product");
}

CALL cublasLtMatrixLayoutCreate(Layout **made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF) return refuse("no such type");
    return give(made, new Layout{type, rows, columns, leading});
}
CALL cublasLtMatrixLayoutDestroy(Layout *layout) { return take(layout); }
CALL cublasLtMatrixLayoutSetAttribute(Layout *layout, int attribute, const void *value, size_t bytes) {
    switch (attribute) {
        case LAYOUT_BATCH_COUNT: return set(layout->count, value, bytes, "BATCH_COUNT");
        case LAYOUT_STRIDED_BATCH_OFFSET: return set(layout->stride, value, bytes, "STRIDED_BATCH_OFFSET");
    }
    return refuse("no such attribute of a matrix");
}

CALL cublasLtMatmulPreferenceCreate(Preference **made) { return give(made, new Preference); }
CALL cublasLtMatmulPreferenceDestroy(Preference *preference) { return take(preference); }
CALL cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t bytes) {
    if (attribute >= PREF_MIN_ALIGNMENT_A_BYTES && attribute <= PREF_MIN_ALIGNMENT_D_BYTES)
        return set(preference->alignments[attribute - PREF_MIN_ALIGNMENT_A_BYTES], value, bytes, "MIN_ALIGNMENT");
    switch (attribute) {
        case PREF_MAX_WORKSPACE_BYTES: return set(preference->workspace, value, bytes, "MAX_WORKSPACE_BYTES");
        case PREF_REDUCTION_SCHEME_MASK: return set(preference->reductions, value, bytes, "REDUCTION_SCHEME_MASK");
    }
    return refuse("no such attribute of a preference");
}

// The one algorithm takes all of the workspace, and pointers of no less alignment than was said.
CALL cublasLtMatmulAlgoGetHeuristic(int *handle, Desc *desc, Layout *a, Layout *b, Layout *c, Layout *d, Preference *preference,
                                    int wanted, Heuristic *found, int *count) {
    std::lock_guard<std::mutex> guard(lock);
    ++searches;
    *count = 0;
    if (!handle || wanted < 1) return refuse("no algorithm is asked for");
    if (preference->reductions & ~uint32_t(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)) return refuse("parts of sums may be rounded");
    Asked problem{*desc, *a, *b, *c, *d};
    if (cublasStatus_t status = problem.check()) return status;
    *found = Heuristic{{problem.hash(), preference->workspace}, preference->workspace, CUBLAS_STATUS_SUCCESS, 1.0f};
    std::memcpy(found->algorithm.alignments, preference->alignments, sizeof preference->alignments);
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

CALL cublasLtMatmul(int *handle, Desc *desc, const float *alpha, const void *pa, Layout *a, const void *pb, Layout *b, const float *beta,
                    const void *pc, Layout *c, void *pd, Layout *d, const Algorithm *algorithm, void *workspace, size_t bytes, void *stream) {
    std::lock_guard<std::mutex> guard(lock);
    Asked problem{*desc, *a, *b, *c, *d};
    if (!handle || !algorithm) return refuse("there is no algorithm");
    if (cublasStatus_t status = problem.check()) return status;
    if (algorithm->problem != problem.hash()) return refuse("the algorithm was chosen for another product");
    const void *pointers[] = {pa, pb, pc, pd};
    for (int k = 0; k < 4; ++k)
        if (reinterpret_cast<uintptr_t>(pointers[k]) % algorithm->alignments[k]) return refuse("a pointer is less aligned than was said");
    if (!reaches(pa, *a) || !reaches(pb, *b) || (*beta != 0 && !reaches(pc, *c)) || !reaches(pd, *d)) return refuse("a matrix is not all in memory");
    if (pc == pd && !same(*c, *d)) return refuse("C and D are one matrix of two layouts");
    if (*beta == 0 && pc != pd) return refuse("a C that is not added is another matrix than D");
    if (bytes < algorithm->workspace || reinterpret_cast<uintptr_t>(workspace) % 16) return refuse("the workspace is too small, or not aligned");
    if (bytes && !standin_holds(reinterpret_cast<uint64_t>(workspace), bytes)) return refuse("the workspace is not in memory");
    bool biased = desc->epilogue & EPILOGUE_BIAS;
    if (biased && !standin_holds(reinterpret_cast<uint64_t>(desc->bias), d->rows * bytes_of(desc->bias_type))) return refuse("the bias is not in memory");
    asked.push_back(std::make_unique<Problem>(Problem{
        *a, *b, *c, *d, desc->transposed[0] != 0, desc->transposed[1] != 0, *alpha, *beta, desc->epilogue, static_cast<const char *>(pa),
        static_cast<const char *>(pb), static_cast<const char *>(pc), static_cast<const char *>(desc->bias), static_cast<char *>(pd),
        static_cast<char *>(workspace), bytes, desc->bias_type, desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32}));
    ++products;
    auto run = [](void *of) { multiply(*static_cast<Problem *>(of)); };
    return standin_launch(stream, run, asked.back().get()) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

// ---- for tests

extern "C" __attribute__((visibility("default"))) const char *standin_cublaslt_complaint() { return complaint.c_str(); }
extern "C" __attribute__((visibility("default"))) long standin_cublaslt_count(const char *what) {
    return !std::strcmp(what, "held") ? held : !std::strcmp(what, "products") ? products : !std::strcmp(what, "searches") ? searches : -1;
}
