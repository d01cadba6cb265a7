// Graphs: made node by node or captured from a stream, instantiated, updated, launched.
//
// Nodes run in any order that their edges allow: the last that may, so that a missing edge shows.
#include <algorithm>
#include <set>

#include "graph.h"

struct GraphExec {
    std::unique_ptr<Graph> graph;
    std::map<const Node *, Node *> made_from;  // of the graph it was made of
};

namespace {

using Made = std::map<const Node *, Node *>;

// Conditions are shared with the graph that was cloned: kernels know their handles.
std::unique_ptr<Graph> cloned(const Graph &graph, Made &made) {
    auto copy = std::make_unique<Graph>();
    copy->conditions = graph.conditions;
    for (auto &node : graph.nodes) {
        copy->nodes.push_back(std::make_unique<Node>(*node));
        made[node.get()] = copy->nodes.back().get();
    }
    for (auto &node : copy->nodes) {
        for (Node *&before : node->before) before = made.at(before);
        for (Graph *&body : node->bodies) {
            copy->bodies.push_back(cloned(*body, made));
            body = copy->bodies.back().get();
        }
    }
    return copy;
}

bool valid_copy(const CUDA_MEMCPY3D &copy) {
    size_t bytes = copy.WidthInBytes;
    if (copy.Height != 1 || copy.Depth != 1) return false;
    if (copy.srcMemoryType == CU_MEMORYTYPE_DEVICE && !on_device(copy.srcDevice, bytes)) return false;
    if (copy.dstMemoryType == CU_MEMORYTYPE_DEVICE && !on_device(copy.dstDevice, bytes)) return false;
    if (copy.srcMemoryType == CU_MEMORYTYPE_HOST && !is_pinned(copy.srcHost, bytes)) return false;  // stricter than CUDA: ours are
    if (copy.dstMemoryType == CU_MEMORYTYPE_HOST && !is_pinned(copy.dstHost, bytes)) return false;
    return bytes > 0;
}

CUresult run_copy(const CUDA_MEMCPY3D &copy) {
    void *target = copy.dstMemoryType == CU_MEMORYTYPE_HOST ? copy.dstHost : reinterpret_cast<void *>(copy.dstDevice);
    const void *source = copy.srcMemoryType == CU_MEMORYTYPE_HOST ? copy.srcHost : reinterpret_cast<void *>(copy.srcDevice);
    return copy_now(target, source, copy.WidthInBytes);
}

CUresult run_node(const Node &node) {
    switch (node.kind) {
        case Node::KERNEL: return run_kernel(node.kernel);
        case Node::COPY: return run_copy(node.copy);
        case Node::CONDITIONAL: return run_conditional(node);
        case Node::CHILD: return run_graph(*node.child);
        default: return node.work ? node.work() : CUDA_SUCCESS;
    }
}

CUresult take_kernel(KernelLaunch &kernel, const CUDA_KERNEL_NODE_PARAMS *given) {
    kernel = {given->func, {given->gridDimX, given->gridDimY, given->gridDimZ}, {given->blockDimX, given->blockDimY, given->blockDimZ},
              given->sharedMemBytes, {}};
    return checked_launch(kernel, given->kernelParams, given->extra);
}

}  // namespace

CUresult run_graph(const Graph &graph) {
    std::map<const Node *, size_t> missing;
    std::map<const Node *, std::vector<const Node *>> after;
    std::vector<const Node *> ready;
    for (auto &node : graph.nodes) {
        missing[node.get()] = node->before.size();
        for (Node *before : node->before) after[before].push_back(node.get());
        if (node->before.empty()) ready.push_back(node.get());
    }
    size_t done = 0;
    while (!ready.empty()) {
        const Node *node = ready.back();
        ready.pop_back();
        if (CUresult status = run_node(*node)) return status;
        ++done;
        for (const Node *next : after[node])
            if (!--missing[next]) ready.push_back(next);
    }
    return done == graph.nodes.size() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;  // a cycle
}

Node *add(Graph *graph, Node *const *before, size_t count) {
    graph->nodes.push_back(std::make_unique<Node>());
    graph->nodes.back()->before.assign(before, before + count);
    return graph->nodes.back().get();
}

STANDIN_CALL cuGraphCreate(CUgraph *made, unsigned) {
    ENTER;
    *made = new Graph;
    ++driver.graphs;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphDestroy(CUgraph graph) {
    ENTER;
    delete graph;
    --driver.graphs;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    ENTER;
    for (size_t i = 0; nodes && i < std::min(*count, graph->nodes.size()); ++i) nodes[i] = graph->nodes[i].get();
    *count = graph->nodes.size();
    return CUDA_SUCCESS;
}

// ---- nodes ---------------------------------------------------------------------------------------

STANDIN_CALL cuGraphAddKernelNode_v2(CUgraphNode *made, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_KERNEL_NODE_PARAMS *given) {
    ENTER_CONTEXT;
    KernelLaunch kernel;
    if (CUresult status = take_kernel(kernel, given)) return status;
    *made = add(graph, before, count);
    (*made)->kind = Node::KERNEL, (*made)->kernel = kernel;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphAddMemcpyNode(CUgraphNode *made, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_MEMCPY3D *given, CUcontext) {
    ENTER_CONTEXT;
    if (!valid_copy(*given)) return CUDA_ERROR_INVALID_VALUE;
    *made = add(graph, before, count);
    (*made)->kind = Node::COPY, (*made)->copy = *given;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphAddMemsetNode(CUgraphNode *made, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_MEMSET_NODE_PARAMS *given, CUcontext) {
    ENTER_CONTEXT;
    CUDA_MEMSET_NODE_PARAMS kept = *given;
    if (kept.height != 1 || !on_device(kept.dst, kept.width * kept.elementSize)) return CUDA_ERROR_INVALID_VALUE;
    *made = add(graph, before, count);
    (*made)->work = [kept] {
        for (size_t i = 0; i < kept.width; ++i) copy_now(reinterpret_cast<char *>(kept.dst) + i * kept.elementSize, &kept.value, kept.elementSize);
        return CUDA_SUCCESS;
    };
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphAddEmptyNode(CUgraphNode *made, CUgraph graph, const CUgraphNode *before, size_t count) {
    ENTER_CONTEXT;
    *made = add(graph, before, count);
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphAddChildGraphNode(CUgraphNode *made, CUgraph graph, const CUgraphNode *before, size_t count, CUgraph child) {
    ENTER_CONTEXT;
    Made nodes;
    std::shared_ptr<Graph> kept = cloned(*child, nodes);
    *made = add(graph, before, count);
    (*made)->kind = Node::CHILD, (*made)->child = kept;
    return CUDA_SUCCESS;
}

STANDIN_CALL cuGraphKernelNodeGetParams_v2(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *found) {
    ENTER_CONTEXT;
    if (node->kind != Node::KERNEL) return CUDA_ERROR_INVALID_VALUE;
    const KernelLaunch &kernel = node->kernel;
    *found = {kernel.function, kernel.grid.x, kernel.grid.y, kernel.grid.z, kernel.block.x, kernel.block.y, kernel.block.z, kernel.dynamic,
              nullptr, nullptr, nullptr, nullptr};
    return CUDA_SUCCESS;
}

// ---- executables ---------------------------------------------------------------------------------

STANDIN_CALL cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph, unsigned long long) {
    ENTER_CONTEXT;
    if (CUresult status = checked(*graph)) return status;
    auto exec = std::make_unique<GraphExec>();
    exec->graph = cloned(*graph, exec->made_from);
    *made = exec.release();
    ++driver.graphs;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphExecDestroy(CUgraphExec exec) {
    ENTER;
    drain_all();
    delete exec;
    --driver.graphs;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *given) {
    ENTER_CONTEXT;
    auto found = exec->made_from.find(node);
    if (found == exec->made_from.end() || found->second->kind != Node::KERNEL) return CUDA_ERROR_INVALID_VALUE;
    drain_all();  // launches before keep what they had
    return take_kernel(found->second->kernel, given);
}
STANDIN_CALL cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *given, CUcontext) {
    ENTER_CONTEXT;
    auto found = exec->made_from.find(node);
    if (found == exec->made_from.end() || found->second->kind != Node::COPY || !valid_copy(*given)) return CUDA_ERROR_INVALID_VALUE;
    drain_all();
    found->second->copy = *given;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphUpload(CUgraphExec, CUstream) {
    ENTER_CONTEXT;
    return CUDA_SUCCESS;
}
STANDIN_CALL cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    ENTER_CONTEXT;
    return enqueue(stream, [exec] {
        begin(*exec->graph);
        return run_graph(*exec->graph);
    });
}
