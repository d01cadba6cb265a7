// Memory: every allocation lies between pages that nobody may touch, close to the last, and begins poisoned.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "state.h"

namespace {

constexpr size_t PAGE = 4096, GUARD = 16 * PAGE, ALIGN = 256;
constexpr unsigned char POISON = 0xFF;

size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

CUresult allocate(CUdeviceptr *made, size_t bytes) {
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > static_cast<size_t>(setting("STANDIN_MEMORY", 4ll << 30)) - std::min<size_t>(driver.used, setting("STANDIN_MEMORY", 4ll << 30)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t body = whole_pages(bytes);
    void *found = mmap(nullptr, body + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    auto *start = static_cast<char *>(found);
    mprotect(start, GUARD, PROT_NONE);
    mprotect(start + GUARD + body, GUARD, PROT_NONE);
    char *at = start + GUARD + (body - bytes) / ALIGN * ALIGN;
    std::memset(at, POISON, bytes);
    *made = reinterpret_cast<CUdeviceptr>(at);
    driver.allocations[*made] = bytes;
    driver.owners[*made] = context()->device;
    driver.used += bytes;
    driver.peak = std::max(driver.peak, driver.used);
    return CUDA_SUCCESS;
}

CUresult give_back(CUdeviceptr start) {
    auto found = driver.allocations.find(start);
    if (found == driver.allocations.end()) return CUDA_ERROR_INVALID_VALUE;
    size_t bytes = found->second, body = whole_pages(bytes);
    munmap(reinterpret_cast<void *>(start - (body - bytes) / ALIGN * ALIGN - GUARD), body + 2 * GUARD);
    driver.used -= bytes;
    driver.owners.erase(start);
    driver.allocations.erase(found);
    return CUDA_SUCCESS;
}

bool within(const std::map<uintptr_t, size_t> &known, uintptr_t start, size_t bytes) {
    auto found = known.upper_bound(start);
    if (found == known.begin()) return false;
    --found;
    return start + bytes <= found->first + found->second;
}

char *pointer(CUdeviceptr at) { return reinterpret_cast<char *>(at); }

// A copy in a stream. Memory of the host that is not pinned is read at once, and written before the call returns.
CUresult copy_async(void *target, const void *source, size_t bytes, CUstream stream) {
    const char *way = !on_device(reinterpret_cast<CUdeviceptr>(source), bytes) ? "to" : !on_device(reinterpret_cast<CUdeviceptr>(target), bytes) ? "from" : "on";
    std::string name = "copy " + std::to_string(++driver.copies) + " " + way + " the device, " + std::to_string(bytes) + " bytes";
    traced("begun: " + name);
    auto copied = [=](const void *from) {
        copy_now(target, from, bytes);
        traced("done: " + name);
        return CUDA_SUCCESS;
    };
    bool from_host = !on_device(reinterpret_cast<CUdeviceptr>(source), bytes), to_host = !on_device(reinterpret_cast<CUdeviceptr>(target), bytes);
    if (from_host && !is_pinned(source, bytes)) {
        std::string kept(static_cast<const char *>(source), bytes);
        return enqueue(stream, [=] { return copied(kept.data()); });
    }
    if (CUresult status = enqueue(stream, [=] { return copied(source); })) return status;
    return to_host && !is_pinned(target, bytes) ? drain(stream_of(stream)) : CUDA_SUCCESS;
}

CUresult fill(CUdeviceptr target, unsigned value, size_t width, size_t count) {
    if (!on_device(target, width * count)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) std::memcpy(pointer(target) + i * width, &value, width);
    return CUDA_SUCCESS;
}

}  // namespace

bool on_device(CUdeviceptr start, size_t bytes) { return within(driver.allocations, start, bytes); }
bool is_pinned(const void *start, size_t bytes) { return within(driver.pinned, reinterpret_cast<uintptr_t>(start), bytes); }

CUresult copy_now(void *target, const void *source, size_t bytes) {
    std::memmove(target, source, bytes);
    return CUDA_SUCCESS;
}

standin::Range standin::allocation(const void *address) {
    auto at = reinterpret_cast<uintptr_t>(address);
    auto found = driver.allocations.upper_bound(at);
    if (found == driver.allocations.begin()) return {};
    --found;
    if (at >= found->first + found->second + GUARD) return {};
    return {pointer(found->first), pointer(found->first + found->second)};
}

STANDIN_CALL cuMemAlloc_v2(CUdeviceptr *made, size_t bytes) {
    ENTER_CONTEXT;
    return allocate(made, bytes);
}
STANDIN_CALL cuMemFree_v2(CUdeviceptr start) {
    ENTER_CONTEXT;
    drain_all();
    return give_back(start);
}
STANDIN_CALL cuMemAllocAsync(CUdeviceptr *made, size_t bytes, CUstream) {
    ENTER_CONTEXT;
    return allocate(made, bytes);
}
STANDIN_CALL cuMemFreeAsync(CUdeviceptr start, CUstream stream) {
    ENTER_CONTEXT;
    if (!driver.allocations.count(start)) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, [=] { return give_back(start); });
}
STANDIN_CALL cuMemGetInfo_v2(size_t *free, size_t *total) {
    ENTER_CONTEXT;
    *total = setting("STANDIN_MEMORY", 4ll << 30);
    *free = *total - std::min(*total, driver.used);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes, CUdeviceptr at) {
    ENTER_CONTEXT;
    standin::Range found = standin::allocation(pointer(at));
    if (!found.start) return CUDA_ERROR_NOT_FOUND;
    if (start) *start = reinterpret_cast<CUdeviceptr>(found.start);
    if (bytes) *bytes = found.stop - found.start;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuPointerGetAttribute(void *value, int which, CUdeviceptr at) {
    ENTER_CONTEXT;
    if (!on_device(at, 1)) return CUDA_ERROR_INVALID_VALUE;
    if (which == 2) *static_cast<unsigned *>(value) = CU_MEMORYTYPE_DEVICE;
    else if (which == 9) *static_cast<int *>(value) = 0;  // DEVICE_ORDINAL
    else return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_SUCCESS;
}

STANDIN_CALL cuMemHostAlloc(void **made, size_t bytes, unsigned) {
    ENTER_CONTEXT;
    *made = std::aligned_alloc(PAGE, whole_pages(std::max<size_t>(bytes, 1)));
    if (!*made) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(*made, POISON, bytes);
    driver.pinned[reinterpret_cast<uintptr_t>(*made)] = bytes;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuMemFreeHost(void *start) {
    ENTER;
    if (!driver.pinned.erase(reinterpret_cast<uintptr_t>(start))) return CUDA_ERROR_INVALID_VALUE;
    std::free(start);
    return CUDA_SUCCESS;
}

// ---- copies ------------------------------------------------------------------------------------

STANDIN_CALL cuMemcpyHtoD_v2(CUdeviceptr target, const void *source, size_t bytes) {
    ENTER_CONTEXT;
    return on_device(target, bytes) ? enqueue(nullptr, [=] { return copy_now(pointer(target), source, bytes); }) : CUDA_ERROR_INVALID_VALUE;
}
STANDIN_CALL cuMemcpyDtoH_v2(void *target, CUdeviceptr source, size_t bytes) {
    ENTER_CONTEXT;
    return on_device(source, bytes) ? enqueue(nullptr, [=] { return copy_now(target, pointer(source), bytes); }) : CUDA_ERROR_INVALID_VALUE;
}
STANDIN_CALL cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
    ENTER_CONTEXT;
    if (!on_device(target, bytes) || !on_device(source, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(nullptr, [=] { return copy_now(pointer(target), pointer(source), bytes); });
}
STANDIN_CALL cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
    ENTER_CONTEXT;
    return on_device(target, bytes) ? copy_async(pointer(target), source, bytes, stream) : CUDA_ERROR_INVALID_VALUE;
}
STANDIN_CALL cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
    ENTER_CONTEXT;
    return on_device(source, bytes) ? copy_async(target, pointer(source), bytes, stream) : CUDA_ERROR_INVALID_VALUE;
}
STANDIN_CALL cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
    ENTER_CONTEXT;
    if (!on_device(target, bytes) || !on_device(source, bytes)) return CUDA_ERROR_INVALID_VALUE;
    return copy_async(pointer(target), pointer(source), bytes, stream);
}
STANDIN_CALL cuMemsetD8_v2(CUdeviceptr target, unsigned char value, size_t count) {
    ENTER_CONTEXT;
    return enqueue(nullptr, [=] { return fill(target, value, 1, count); });
}
STANDIN_CALL cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
    ENTER_CONTEXT;
    return enqueue(stream, [=] { return fill(target, value, 1, count); });
}
STANDIN_CALL cuMemsetD32_v2(CUdeviceptr target, unsigned value, size_t count) {
    ENTER_CONTEXT;
    return enqueue(nullptr, [=] { return fill(target, value, 4, count); });
}
STANDIN_CALL cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream) {
    ENTER_CONTEXT;
    return enqueue(stream, [=] { return fill(target, value, 4, count); });
}
