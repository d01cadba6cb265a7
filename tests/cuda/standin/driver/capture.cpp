// Streams that record what they are asked for as a graph.
#include "graph.h"

static thread_local int recording = 0;  // streams of this thread that record

void capture_work(Stream *stream, Work work) {
    Node *node = add(stream->capture, &stream->last, stream->last ? 1 : 0);
    node->work = std::move(work);
    stream->last = node;
}

void capture_kernel(Stream *stream, const KernelLaunch &launch) {
    capture_work(stream, {});
    stream->last->kind = Node::KERNEL, stream->last->kernel = launch;
}

STANDIN_CALL cuStreamBeginCapture_v2(CUstream given, int) {
    ENTER_CONTEXT;
    Stream *stream = stream_of(given);
    if (!stream || reinterpret_cast<uintptr_t>(given) <= 2 || stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    stream->capture = new Graph;
    stream->last = nullptr;
    ++driver.graphs;
    ++recording;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuStreamEndCapture(CUstream given, CUgraph *made) {
    ENTER_CONTEXT;
    Stream *stream = stream_of(given);
    if (!stream || !stream->capture) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    *made = stream->capture;
    stream->capture = nullptr;
    --recording;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuStreamIsCapturing(CUstream given, int *status) {
    ENTER_CONTEXT;
    Stream *stream = stream_of(given);
    *status = stream && stream->capture ? 1 : 0;
    return CUDA_SUCCESS;
}

// Whether this thread records work: libraries may neither allocate memory nor load code meanwhile.
extern "C" __attribute__((visibility("default"))) int standin_records() { return recording; }
