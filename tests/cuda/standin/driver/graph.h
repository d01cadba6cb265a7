// What a graph is: nodes, and which come before which.
#pragma once

#include "state.h"

// What a conditional node looks at, and kernels set by its handle, which is its address.
struct Condition {
    const Graph *home;  // the graph that its node is to be in
    unsigned start;
    bool starts;  // whether a launch begins with `start`; else nothing is known until a kernel has set it
    bool taken = false;  // by a node: one has it
    bool known = false;
    unsigned value = 0;
};

struct Node {
    Work work;  // of all but kernels, copies and conditionals, whose parameters may be changed
    KernelLaunch kernel;
    CUDA_MEMCPY3D copy{};
    enum { OTHER, KERNEL, COPY, HOST, CHILD, CONDITIONAL } kind = OTHER;
    std::vector<Node *> before;
    std::shared_ptr<Graph> child;
    // of a conditional
    std::shared_ptr<Condition> condition;
    int type = 0;
    std::vector<Graph *> bodies;
};

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::shared_ptr<Condition>> conditions;  // of handles made for this graph
    std::vector<std::unique_ptr<Graph>> bodies;
};

// A node after others.
Node *add(Graph *graph, Node *const *before, size_t count);

// Graphs with conditional nodes: whether their bodies have only what bodies may have, and what a launch begins with.
CUresult checked(const Graph &graph);
void begin(const Graph &graph);
CUresult run_graph(const Graph &graph);
CUresult run_conditional(const Node &node);
