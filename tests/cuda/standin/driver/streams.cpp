// Streams and events. Work waits in its queue until somebody waits for it, so that a missing wait shows.
#include <chrono>
#include <ctime>
#include <thread>

#include "state.h"

namespace {

Stream legacy;  // the stream 0

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec * 1e-6;
}

CUresult step(Stream *stream) {
    if (stream->work.empty()) return CUDA_SUCCESS;
    Work work = std::move(stream->work.front());
    stream->work.pop_front();
    if (Context *of = stream->context ? stream->context : context(); of && of->lost) return of->lost;
    CUresult status = work();
    if (status == PENDING) stream->work.push_front(std::move(work));
    else if (status && stream->context && !stream->context->lost) stream->context->lost = status;
    return status;
}

// Does what may wait for another thread or process; the lock is given up meanwhile.
template <typename Wait>
CUresult patiently(Wait wait) {
    for (;;) {
        CUresult status = wait();
        if (status != PENDING) return status;
        driver.lock.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        driver.lock.lock();
    }
}

CUresult reach(const std::shared_ptr<Record> &record) {
    while (record && !record->reached && stream_of(record->stream) && !record->stream->work.empty())
        if (CUresult status = step(record->stream)) return status;
    return CUDA_SUCCESS;
}

CUresult drain_blocking() {
    for (auto &one : driver.streams)
        if (one.second->blocking)
            if (CUresult status = drain(one.second.get())) return status;
    return CUDA_SUCCESS;
}

}  // namespace

Stream *stream_of(CUstream given) {
    if (reinterpret_cast<uintptr_t>(given) <= 2) return &legacy;
    auto found = driver.streams.find(given);
    return found == driver.streams.end() ? nullptr : found->second.get();
}

CUresult drain(Stream *stream) {
    while (!stream->work.empty())
        if (CUresult status = patiently([=] { return step(stream); })) return status;
    return CUDA_SUCCESS;
}

// Of the current device: others may wait for this thread.
CUresult drain_all() {
    for (auto &one : driver.streams)
        if (one.second->context == context())
            if (CUresult status = drain(one.second.get())) return status;
    return drain(&legacy);
}

CUresult enqueue(CUstream given, Work work) {
    Stream *stream = stream_of(given);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream == &legacy) {
        if (CUresult status = drain_blocking()) return status;
        CUresult status = patiently(work);
        return status ? lose(status) : CUDA_SUCCESS;
    }
    if (stream->capture) capture_work(stream, std::move(work));
    else stream->work.push_back(std::move(work));
    return CUDA_SUCCESS;
}

STANDIN_CALL cuStreamCreate(CUstream *made, unsigned flags) {
    ENTER_CONTEXT;
    auto stream = std::make_unique<Stream>();
    stream->context = context();
    stream->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    *made = stream.get();
    driver.streams[*made] = std::move(stream);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuStreamCreateWithPriority(CUstream *made, unsigned flags, int) { return cuStreamCreate(made, flags); }
STANDIN_CALL cuStreamDestroy_v2(CUstream given) {
    ENTER;
    Stream *stream = stream_of(given);
    if (!stream || stream == &legacy) return CUDA_ERROR_INVALID_HANDLE;
    drain(stream);
    driver.streams.erase(given);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuStreamSynchronize(CUstream given) {
    ENTER_CONTEXT;
    Stream *stream = stream_of(given);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return stream == &legacy ? drain_blocking() : drain(stream);
}
STANDIN_CALL cuStreamQuery(CUstream given) {
    ENTER_CONTEXT;
    Stream *stream = stream_of(given);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->work.empty()) return CUDA_SUCCESS;
    if (CUresult status = step(stream)) return status;
    return CUDA_ERROR_NOT_READY;
}

STANDIN_CALL cuEventCreate(CUevent *made, unsigned) {
    ENTER_CONTEXT;
    auto event = std::make_unique<Event>();
    *made = event.get();
    driver.events[*made] = std::move(event);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuEventDestroy_v2(CUevent event) {
    ENTER;
    return driver.events.erase(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
STANDIN_CALL cuEventRecord(CUevent event, CUstream given) {
    ENTER_CONTEXT;
    if (!driver.events.count(event) || !stream_of(given)) return CUDA_ERROR_INVALID_HANDLE;
    auto record = std::make_shared<Record>(stream_of(given));
    event->last = record;
    return enqueue(given, [=] {
        record->reached = true;
        record->milliseconds = now();
        return CUDA_SUCCESS;
    });
}
STANDIN_CALL cuEventSynchronize(CUevent event) {
    ENTER_CONTEXT;
    if (!driver.events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    return patiently([last = event->last] { return reach(last); });
}
STANDIN_CALL cuEventQuery(CUevent event) {
    ENTER_CONTEXT;
    if (!driver.events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Record> last = event->last;
    if (!last || last->reached) return CUDA_SUCCESS;
    if (!last->stream->work.empty())
        if (CUresult status = step(last->stream)) return status;
    return CUDA_ERROR_NOT_READY;
}
STANDIN_CALL cuStreamWaitEvent(CUstream given, CUevent event, unsigned) {
    ENTER_CONTEXT;
    if (!driver.events.count(event)) return CUDA_ERROR_INVALID_HANDLE;
    return enqueue(given, [last = event->last] { return reach(last); });
}
STANDIN_CALL cuEventElapsedTime_v2(float *milliseconds, CUevent from, CUevent to) {
    ENTER_CONTEXT;
    if (!from->last || !to->last) return CUDA_ERROR_INVALID_HANDLE;
    if (!from->last->reached || !to->last->reached) return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(to->last->milliseconds - from->last->milliseconds);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to) { return cuEventElapsedTime_v2(milliseconds, from, to); }
