// Conditional nodes: loops and branches that kernels decide while a graph runs.
#include <algorithm>

#include "graph.h"

namespace {

constexpr int SINCE = 12040, SWITCHES_SINCE = 12080;  // versions of CUDA

bool known_to(int version) { return setting("STANDIN_VERSION", 13000) >= version; }

std::map<uintptr_t, std::weak_ptr<Condition>> handles;

// Bodies may have kernels, copies, sets of memory, empty nodes, graphs and conditionals: nothing of the host's.
bool permitted(const Graph &graph) {
    return std::all_of(graph.nodes.begin(), graph.nodes.end(), [](auto &node) {
        if (node->kind == Node::CHILD) return permitted(*node->child);
        return node->kind != Node::HOST;
    });
}

}  // namespace

CUresult checked(const Graph &graph) {
    for (auto &node : graph.nodes)
        if (node->kind == Node::CHILD)
            if (CUresult status = checked(*node->child)) return status;
    for (auto &body : graph.bodies) {
        if (!permitted(*body)) return CUDA_ERROR_NOT_SUPPORTED;
        if (CUresult status = checked(*body)) return status;
    }
    bool whole = std::all_of(graph.conditions.begin(), graph.conditions.end(), [](auto &one) { return one->taken; });
    return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void begin(const Graph &graph) {
    for (auto &one : graph.conditions) one->known = one->starts, one->value = one->start;
    for (auto &body : graph.bodies) begin(*body);
}

CUresult run_conditional(const Node &node) {
    Condition &condition = *node.condition;
    if (!condition.known) return CUDA_ERROR_ILLEGAL_ADDRESS;  // whatever a GPU would do
    if (node.type == CU_GRAPH_COND_TYPE_WHILE) {
        while (condition.value)
            if (CUresult status = run_graph(*node.bodies[0])) return status;
        return CUDA_SUCCESS;
    }
    size_t chosen = node.type == CU_GRAPH_COND_TYPE_IF ? (condition.value ? 0 : 1) : condition.value;
    return chosen < node.bodies.size() ? run_graph(*node.bodies[chosen]) : CUDA_SUCCESS;
}

STANDIN_CALL cuGraphConditionalHandleCreate(CUgraphConditionalHandle *made, CUgraph graph, CUcontext of, unsigned start, unsigned flags) {
    ENTER_CONTEXT;
    if (!known_to(SINCE)) return CUDA_ERROR_NOT_SUPPORTED;
    if (of != context() || flags > 1) return CUDA_ERROR_INVALID_VALUE;
    graph->conditions.push_back(std::make_shared<Condition>(graph, start, flags == 1));
    *made = reinterpret_cast<CUgraphConditionalHandle>(graph->conditions.back().get());
    handles[*made] = graph->conditions.back();
    return CUDA_SUCCESS;
}

STANDIN_CALL cuGraphAddNode_v2(CUgraphNode *made, CUgraph graph, const CUgraphNode *before, const void *edges, size_t count, CUgraphNodeParams *given) {
    ENTER_CONTEXT;
    if (given->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) return CUDA_ERROR_NOT_SUPPORTED;
    const CUDA_CONDITIONAL_NODE_PARAMS &asked = given->conditional;
    if (!known_to(asked.type == CU_GRAPH_COND_TYPE_SWITCH || asked.size > 1 ? SWITCHES_SINCE : SINCE)) return CUDA_ERROR_NOT_SUPPORTED;
    const unsigned most[] = {2, 1, ~0u};
    if (edges || asked.ctx != context() || asked.type > CU_GRAPH_COND_TYPE_SWITCH || !asked.size || asked.size > most[asked.type])
        return CUDA_ERROR_INVALID_VALUE;
    auto found = handles.find(asked.handle);
    std::shared_ptr<Condition> condition = found == handles.end() ? nullptr : found->second.lock();
    if (!condition || condition->home != graph || condition->taken) return CUDA_ERROR_INVALID_VALUE;
    condition->taken = true;
    *made = add(graph, before, count);
    Node *node = *made;
    node->kind = Node::CONDITIONAL, node->type = asked.type, node->condition = condition;
    for (unsigned i = 0; i < asked.size; ++i) {
        graph->bodies.push_back(std::make_unique<Graph>());
        node->bodies.push_back(graph->bodies.back().get());
    }
    given->conditional.phGraph_out = node->bodies.data();
    return CUDA_SUCCESS;
}

// What a kernel calls (cudaGraphSetConditional).
extern "C" __attribute__((visibility("default"))) void standin_set_condition(uint64_t handle, unsigned value) {
    auto found = handles.find(handle);
    std::shared_ptr<Condition> condition = found == handles.end() ? nullptr : found->second.lock();
    if (condition) condition->known = true, condition->value = value;
}
