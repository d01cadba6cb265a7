// What kernels compiled for the host and the engine that runs them share: the thread that runs, and where it may wait.
//
// A block runs at a time, a thread of it at a time, each on a stack of its own, until it waits at a barrier or meets
// the other lanes of its warp. The engine lives in the stand-in libcuda.so.1; a kernel's library links to it.
#pragma once

#include <cstddef>
#include <cstdint>

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define STANDIN_SHARED_API __attribute__((visibility("default")))

namespace standin {

constexpr unsigned WARP = 32;

enum class State : uint8_t { fresh, ready, meeting, waiting, polling, done };

// Combines what the lanes of a warp brought, once all that are named have come: a pointer a lane, null for the others.
using Resolve = void (*)(void **lanes);

// A product of four warps that goes on while its threads do.
struct Product {
    void (*add)(const Product &);
    float *sums;
    const uint16_t *a, *b;
    int a_first;
};
constexpr unsigned MOST_PRODUCTS = 8;

struct Thread {
    uint3 index{};
    unsigned number = 0;  // in the block
    State state = State::fresh;
    void *stack_pointer = nullptr;
    char *stack = nullptr;

    // where it waits, and for whom
    unsigned site = 0;  // a line of the source
    uint32_t mask = 0;
    Resolve resolve = nullptr;
    void *payload = nullptr;
    bool orders = false;  // whether memory is ordered between the lanes that meet
    uint32_t warp_clock = 0;  // how often it was
    bool (*poll)(void *state, unsigned number) = nullptr;  // while it polls: whether it may go on
    void *polled = nullptr;
    unsigned polled_number = 0;

    // products that it has begun and not waited for, oldest first
    Product product[MOST_PRODUCTS]{};
    unsigned products = 0;
};

struct Block {
    uint3 index{};
    unsigned number = 0;  // in the grid
    dim3 extent, grid;
    uint32_t clock = 0;  // barriers passed
    unsigned char *dynamic = nullptr;  // shared memory that the launch asked for
};

extern STANDIN_SHARED_API Thread *thread;
extern STANDIN_SHARED_API Block block;

// Every thread of the block arrives before any goes on.
STANDIN_SHARED_API void barrier(unsigned site);

// The lanes of `mask` meet at one place, and `resolve` (which may be null) sees what each brought.
STANDIN_SHARED_API void meet(Resolve resolve, void *payload, uint32_t mask, unsigned site, bool orders);

// The thread goes on when `poll` says so, which is asked again and again.
STANDIN_SHARED_API void wait_for(bool (*poll)(void *state, unsigned number), void *state, unsigned number);

// Barriers in shared memory, each with phases that end at so many arrivals, and when the bytes expected have come.
STANDIN_SHARED_API void mbarrier_begin(void *at, unsigned arrivals);
STANDIN_SHARED_API void mbarrier_arrive(void *at, unsigned bytes);
STANDIN_SHARED_API void mbarrier_wait(void *at, uint32_t phases, unsigned site);

// Asks for a copy of a box of the array that a tensor map describes; its bytes count on a barrier.
STANDIN_SHARED_API void copy_box(void *to, const void *map, void *barrier, const int *place, unsigned rank);

// Begins a product; and, for all lanes of a warp, waits for all but the last few.
STANDIN_SHARED_API void begin_product(const Product &product);
STANDIN_SHARED_API void settle_products(unsigned left, unsigned site);

// What this thread did before is seen by who sees what it does after.
STANDIN_SHARED_API void memory_fence();

// Ends the launch: the kernel did what it must not.
[[noreturn]] STANDIN_SHARED_API void fault(const char *what);

// Says of an access that it is atomic; does nothing where accesses are not watched.
STANDIN_SHARED_API void watch_atomic(const void *address, size_t bytes);

#define STANDIN_UNWATCHED inline __attribute__((no_sanitize("thread")))

STANDIN_UNWATCHED uint3 thread_index() { return thread->index; }
STANDIN_UNWATCHED uint3 block_index() { return block.index; }
STANDIN_UNWATCHED dim3 block_extent() { return block.extent; }
STANDIN_UNWATCHED dim3 grid_extent() { return block.grid; }
STANDIN_UNWATCHED unsigned char *dynamic_shared() { return block.dynamic; }
STANDIN_UNWATCHED unsigned lane() { return thread->number % WARP; }

// How a kernel's library is called: one function a kernel, named `<kernel>__entry`.
struct Arguments {
    const char *packed;  // one buffer, each argument at its natural alignment; or
    size_t bytes;
    void **each;  // a pointer for each argument
};
using Run = void (*)(void (*invoke)(void *), void *state, size_t bytes, void *launch);
using Entry = bool (*)(const Arguments &, Run, void *launch);  // false: arguments of other sizes

struct Range {
    char *start, *stop;
};

}  // namespace standin
