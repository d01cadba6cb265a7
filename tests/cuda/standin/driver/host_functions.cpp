// Functions of the host in a stream: what a library that stands in for one of NVIDIA's does its work with.
#include "state.h"

STANDIN_CALL cuLaunchHostFunc(CUstream given, void (*function)(void *), void *data) {
    ENTER_CONTEXT;
    return enqueue(given, [=] {
        function(data);
        return CUDA_SUCCESS;
    });
}

// Whether these bytes are of one allocation of the device.
extern "C" __attribute__((visibility("default"))) int standin_holds(CUdeviceptr start, size_t bytes) {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    return on_device(start, bytes);
}
