// Start, devices, contexts, errors; and what a test asks of the stand-in itself.
//
// STANDIN_DEVICES, STANDIN_ARCH (90), STANDIN_VERSION (13000) and STANDIN_MEMORY (bytes) say what there is.
// STANDIN_FAIL="cuMemAlloc_v2=2,cuGraphLaunch:3=700" makes calls fail: every one, or the third from then on.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "state.h"

Driver driver;
thread_local std::vector<Context *> current;

namespace {

struct Named {
    CUresult code;
    const char *name, *text;
};
const Named ERRORS[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Named *named(CUresult code) {
    for (const Named &one : ERRORS)
        if (one.code == code) return &one;
    return nullptr;
}

// The error that STANDIN_FAIL has for this call.
CUresult asked_for(const char *call, long count) {
    const char *text = std::getenv("STANDIN_FAIL");
    std::string all = text ? text : "";
    for (size_t at = 0; at < all.size();) {
        size_t end = std::min(all.find(',', at), all.size()), equals = all.find('=', at), colon = all.find(':', at);
        if (equals == std::string::npos || equals > end) break;
        std::string name = all.substr(at, std::min(colon, equals) - at);
        long from = colon < equals ? std::atol(all.c_str() + colon + 1) : 1;
        if (name == call && count >= from) return std::atoi(all.c_str() + equals + 1);
        at = end + 1;
    }
    return CUDA_SUCCESS;
}

int devices() { return static_cast<int>(setting("STANDIN_DEVICES", 1)); }

int attribute(int which) {
    int arch = static_cast<int>(setting("STANDIN_ARCH", 90));
    switch (which) {
        case 1: return 1024;  // MAX_THREADS_PER_BLOCK
        case 2: case 3: return 1024;
        case 4: return 64;  // MAX_BLOCK_DIM_Z
        case 5: return 2147483647;  // MAX_GRID_DIM_X
        case 6: case 7: return 65535;
        case 8: return 49152;  // MAX_SHARED_MEMORY_PER_BLOCK
        case 10: return 32;  // WARP_SIZE
        case 12: return 65536;  // MAX_REGISTERS_PER_BLOCK
        case 13: return 1980000;  // CLOCK_RATE, kHz
        case 16: return 132;  // MULTIPROCESSOR_COUNT
        case 38: return 50 << 20;  // L2_CACHE_SIZE
        case 39: return 2048;  // MAX_THREADS_PER_MULTIPROCESSOR
        case 41: return 1;  // UNIFIED_ADDRESSING
        case 75: return arch / 10;  // COMPUTE_CAPABILITY_MAJOR
        case 76: return arch % 10;
        case 97: return 232448;  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        case 115: return 1;  // MEMORY_POOLS_SUPPORTED
        default: return 0;
    }
}

}  // namespace

long long setting(const char *name, long long otherwise) {
    const char *text = std::getenv(name);
    return text && *text ? std::atoll(text) : otherwise;
}

void traced(const std::string &line) {
    if (setting("STANDIN_TRACE", 0)) driver.trace += line + "\n";
}

Context *context() { return current.empty() ? nullptr : current.back(); }

CUresult entered(const char *call, bool needs_context) {
    long count = ++driver.calls[call];
    if (CUresult asked = asked_for(call, count)) return asked >= 700 && asked < 800 && context() ? lose(asked) : asked;
    if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
    if (!needs_context) return CUDA_SUCCESS;
    if (!context()) return CUDA_ERROR_INVALID_CONTEXT;
    return context()->lost;
}

CUresult lose(CUresult error) {
    if (context() && !context()->lost) context()->lost = error;
    return error;
}

// ---- start and devices -------------------------------------------------------------------------

STANDIN_CALL cuInit(unsigned) {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    if (CUresult asked = asked_for("cuInit", ++driver.calls["cuInit"])) return asked;
    if (devices() == 0) return CUDA_ERROR_NO_DEVICE;
    driver.initialised = true;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDriverGetVersion(int *version) {
    *version = static_cast<int>(setting("STANDIN_VERSION", 13000));
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDeviceGetCount(int *count) {
    ENTER;
    *count = devices();
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER;
    *device = ordinal;
    return ordinal >= 0 && ordinal < devices() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
STANDIN_CALL cuDeviceGetName(char *name, int size, CUdevice) {
    ENTER;
    std::snprintf(name, size, "stand-in for a GPU");
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    ENTER;
    std::memset(uuid->bytes, device + 1, sizeof uuid->bytes);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
    ENTER;
    *bytes = setting("STANDIN_MEMORY", 4ll << 30);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDeviceGetAttribute(int *value, int which, CUdevice) {
    ENTER;
    *value = attribute(which);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDeviceComputeCapability(int *major, int *minor, CUdevice) {
    ENTER;
    *major = attribute(75), *minor = attribute(76);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDeviceGetPCIBusId(char *id, int size, CUdevice device) {
    ENTER;
    std::snprintf(id, size, "0000:%02x:00.0", device + 1);
    return CUDA_SUCCESS;
}

// ---- contexts ----------------------------------------------------------------------------------

STANDIN_CALL cuDevicePrimaryCtxRetain(CUcontext *found, CUdevice device) {
    ENTER;
    if (device < 0 || device >= devices()) return CUDA_ERROR_INVALID_DEVICE;
    while (static_cast<int>(driver.primaries.size()) <= device) {
        driver.primaries.push_back(std::make_unique<Context>());
        driver.primaries.back()->primary = true;
        driver.primaries.back()->device = static_cast<int>(driver.primaries.size()) - 1;
    }
    Context *primary = driver.primaries[device].get();
    if (!primary->retained++) primary->lost = CUDA_SUCCESS;
    *found = primary;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    ENTER;
    if (device >= static_cast<int>(driver.primaries.size()) || !driver.primaries[device]->retained) return CUDA_ERROR_INVALID_CONTEXT;
    --driver.primaries[device]->retained;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxCreate_v2(CUcontext *made, unsigned, CUdevice device) {
    ENTER;
    *made = new Context{device};
    ++driver.contexts;
    current.push_back(*made);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxCreate_v4(CUcontext *made, void *, unsigned flags, CUdevice device) { return cuCtxCreate_v2(made, flags, device); }
STANDIN_CALL cuCtxDestroy_v2(CUcontext gone) {
    ENTER;
    if (!current.empty() && current.back() == gone) current.pop_back();
    if (!gone->primary) delete gone, --driver.contexts;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxDetach(CUcontext gone) { return cuCtxDestroy_v2(gone); }
STANDIN_CALL cuCtxPushCurrent_v2(CUcontext pushed) {
    ENTER;
    if (!pushed) return CUDA_ERROR_INVALID_CONTEXT;
    current.push_back(pushed);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxPopCurrent_v2(CUcontext *popped) {
    ENTER;
    if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (popped) *popped = current.back();
    current.pop_back();
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxGetCurrent(CUcontext *found) {
    ENTER;
    *found = context();
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxSetCurrent(CUcontext chosen) {
    ENTER;
    if (!current.empty()) current.pop_back();
    if (chosen) current.push_back(chosen);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxGetDevice(CUdevice *device) {
    ENTER_CONTEXT;
    *device = context()->device;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxGetApiVersion(CUcontext, unsigned *version) {
    *version = 13000;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuCtxSynchronize() {
    ENTER_CONTEXT;
    return drain_all();
}

// ---- errors, and entry points by name ------------------------------------------------------------

STANDIN_CALL cuGetErrorName(CUresult code, const char **text) {
    const Named *found = named(code);
    *text = found ? found->name : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
STANDIN_CALL cuGetErrorString(CUresult code, const char **text) {
    const Named *found = named(code);
    *text = found ? found->text : nullptr;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- what tests ask of the stand-in --------------------------------------------------------------

// What the last kernel that failed did, for people.
extern "C" __attribute__((visibility("default"))) const char *standin_fault() { return driver.fault.c_str(); }

// What happened since the counts began anew, with STANDIN_TRACE=1.
extern "C" __attribute__((visibility("default"))) const char *standin_trace() { return driver.trace.c_str(); }

// How much of a kind there is now; -1 for a kind it does not know.
extern "C" __attribute__((visibility("default"))) long long standin_count(const char *kind) {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    std::string what = kind;
    if (what == "allocations") return driver.allocations.size();
    if (what == "bytes") return driver.used;
    if (what == "peak") return driver.peak;
    if (what == "pinned") return driver.pinned.size();
    if (what == "streams") return driver.streams.size();
    if (what == "events") return driver.events.size();
    if (what == "modules") return driver.modules;
    if (what == "graphs") return driver.graphs;
    if (what == "launches") return driver.launches;
    if (what == "pushed") return current.size();
    if (what.rfind("calls:", 0) == 0) return driver.calls[what.substr(6)];
    long long retained = 0;
    for (auto &primary : driver.primaries) retained += primary->retained;
    return what == "retained" ? retained : -1;
}

// Lost contexts work again, and what was asked of them is forgotten: a test goes on where a process would end.
extern "C" __attribute__((visibility("default"))) void standin_revive() {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    for (auto &primary : driver.primaries) primary->lost = CUDA_SUCCESS;
    for (auto &stream : driver.streams) stream.second->work.clear();
}

// Counts begin anew.
extern "C" __attribute__((visibility("default"))) void standin_reset() {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    driver.calls.clear(), driver.fault.clear(), driver.trace.clear();
    driver.peak = driver.used, driver.launches = 0;
}
