// What the stand-in driver keeps: devices, contexts, memory, queues of work. One lock guards it all.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../engine/launch.h"
#include "cuda_abi.h"

#define STANDIN_CALL extern "C" __attribute__((visibility("default"))) CUresult
// Every call begins so: it takes the lock and tells the error that the test asked for, or that the context is lost with.
#define ENTER                                                         \
    std::lock_guard<std::recursive_mutex> guard(driver.lock);         \
    if (CUresult status = entered(__func__, false)) return status
#define ENTER_CONTEXT                                                 \
    std::lock_guard<std::recursive_mutex> guard(driver.lock);         \
    if (CUresult status = entered(__func__, true)) return status

using Work = std::function<CUresult()>;
constexpr CUresult PENDING = CUDA_ERROR_NOT_READY;  // of work that waits for another thread or process: it is asked again

struct Context {
    CUdevice device = 0;
    int retained = 0;  // of a primary context
    bool primary = false;
    CUresult lost = CUDA_SUCCESS;  // the error that ended it; every call gives it from then on
};

struct Record {  // an event's place in a stream
    Stream *stream;
    bool reached = false;
    double milliseconds = 0;
};

struct Event {
    std::shared_ptr<Record> last;  // who waits, waits for what was the last when they asked
};

struct Stream {
    Context *context = nullptr;
    bool blocking = true;  // waits for the legacy stream and is waited for by it
    std::deque<Work> work;  // not done yet: nothing runs before somebody waits for it
    Graph *capture = nullptr;
    Node *last = nullptr;  // of the capture
};

struct Driver {
    std::recursive_mutex lock;
    bool initialised = false;
    std::vector<std::unique_ptr<Context>> primaries;
    std::map<uintptr_t, size_t> allocations, pinned;  // start -> bytes
    std::map<uintptr_t, CUdevice> owners;             // of allocations
    size_t used = 0, peak = 0;
    std::map<Stream *, std::unique_ptr<Stream>> streams;
    std::map<Event *, std::unique_ptr<Event>> events;
    int modules = 0, graphs = 0, contexts = 0;
    long launches = 0;  // kernels run
    long copies = 0;    // asynchronous copies that were traced
    std::string trace;  // a line for each
    std::map<std::string, long> calls;
    std::string fault;  // what the last kernel that failed did
};

extern Driver driver;
extern thread_local std::vector<Context *> current;  // the contexts that this thread has pushed

CUresult entered(const char *call, bool needs_context);

// A number from the environment, read anew each time: tests change it.
long long setting(const char *name, long long otherwise);

Context *context();

// With STANDIN_TRACE=1 a line is added to the trace: what was asked for, or is done, in the order in which it happens.
void traced(const std::string &line);

// ---- queues

Stream *stream_of(CUstream given);  // also of the legacy stream and the one of a thread
CUresult enqueue(CUstream stream, Work work);
void capture_work(Stream *stream, Work work);  // into the graph that the stream records
CUresult drain(Stream *stream);
CUresult drain_all();
CUresult lose(CUresult error);  // ends the context

// ---- memory

bool on_device(CUdeviceptr start, size_t bytes);
bool is_pinned(const void *start, size_t bytes);
CUresult copy_now(void *target, const void *source, size_t bytes);

// ---- kernels

struct KernelLaunch {
    Function *function = nullptr;
    dim3 grid, block;
    unsigned dynamic = 0;
    std::string arguments;  // one packed buffer
};

CUresult checked_launch(KernelLaunch &made, void **each, void **extra);  // takes over the arguments
CUresult run_kernel(const KernelLaunch &launch);
void capture_kernel(Stream *stream, const KernelLaunch &launch);
