// Functions of the host in a stream: what a library that stands in for one of NVIDIA's does its work with.
#include "graph.h"

namespace {

CUresult asked(CUstream given, void (*function)(void *), void *data) {
    return enqueue(given, [=] {
        function(data);
        return CUDA_SUCCESS;
    });
}

}  // namespace

STANDIN_CALL cuLaunchHostFunc(CUstream given, void (*function)(void *), void *data) {
    ENTER_CONTEXT;
    CUresult status = asked(given, function, data);
    Stream *stream = stream_of(given);
    if (!status && stream->capture) stream->last->kind = Node::HOST;
    return status;
}

// A kernel of a library that stands in for one of NVIDIA's.
STANDIN_CALL standin_launch(CUstream given, void (*function)(void *), void *data) {
    ENTER_CONTEXT;
    return asked(given, function, data);
}

// Likewise, of a function that gives 0, or PENDING where it waits for another thread or process.
STANDIN_CALL standin_patient_launch(CUstream given, int (*function)(void *), void *data) {
    ENTER_CONTEXT;
    return enqueue(given, [=] { return function(data); });
}

// The device of a stream that was created; -1 for any other.
extern "C" __attribute__((visibility("default"))) int standin_stream_device(CUstream given) {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    auto found = driver.streams.find(given);
    return found == driver.streams.end() || !found->second->context ? -1 : found->second->context->device;
}

// The device that has these bytes in one allocation; -1: none.
extern "C" __attribute__((visibility("default"))) int standin_device_of(CUdeviceptr start, size_t bytes) {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    if (!on_device(start, bytes)) return -1;
    return (--driver.owners.upper_bound(start))->second;
}

// Whether these bytes are of one allocation of the device.
extern "C" __attribute__((visibility("default"))) int standin_holds(CUdeviceptr start, size_t bytes) {
    std::lock_guard<std::recursive_mutex> guard(driver.lock);
    return on_device(start, bytes);
}
