// What a graph is: nodes, and which come before which.
#pragma once

#include "state.h"

struct Node {
    Work work;  // of all but kernels, copies and conditionals, whose parameters may be changed
    KernelLaunch kernel;
    CUDA_MEMCPY3D copy{};
    enum { OTHER, KERNEL, COPY, CONDITIONAL } kind = OTHER;
    std::vector<Node *> before;
    // of a conditional
    unsigned *condition = nullptr;
    int type = 0;
    std::vector<Graph *> bodies;
};

struct Graph {
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<std::pair<std::shared_ptr<unsigned>, unsigned>> conditions;  // the value now, and as a launch begins
    std::vector<std::unique_ptr<Graph>> bodies;
};

// A node after others.
Node *add(Graph *graph, Node *const *before, size_t count);
