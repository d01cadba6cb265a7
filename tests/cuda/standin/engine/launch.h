// Running one launch of a kernel, for the driver.
#pragma once

#include <string>
#include <vector>

#include "engine.h"

namespace standin {

struct Launch {
    std::string kernel;
    dim3 grid, block;
    size_t dynamic = 0;  // bytes of shared memory that the launch asks for
    Range shared{};  // the static shared memory of the kernel's library
    Range image{};  // where the library itself lies
    Range arguments{};  // where those of the kernel lie
    bool watched = false;  // whether its accesses are reported to `watch.cpp`
    uint64_t seed = 0;  // the order of blocks, warps and lanes; 0: ascending
};

enum class Outcome { done, fault, illegal_address, misaligned_address };

struct Result {
    Outcome outcome = Outcome::done;
    std::string what;
};

// Runs every block; a fault ends it. `invoke(state)` is one thread.
Result run(const Launch &launch, void (*invoke)(void *), void *state);

[[noreturn]] void fault_of(Outcome outcome, const std::string &what);

// Where threads' stacks lie, so that watched accesses to them pass.
Range stacks();

// Whether a thread of a kernel runs, so that what the processor faults at is its fault.
bool running();

// The smallest allocation of the device that holds an address, or none: answered by the driver.
Range allocation(const void *address);

// Whether to do something early that could be done late: never without a seed.
bool random_choice();

// ---- the copy engine, block by block

void begin_copies();
void end_copies();

// ---- who knows of whose accesses (watch.cpp): what barriers of the whole block do not order

// By thread, how far its accesses are known; empty: nothing is.
using Clock = std::vector<uint32_t>;
void join(Clock &into, const Clock &from);
void release(Clock &into);        // what this thread has done, and knows of, is known to whoever acquires it
void acquire(const Clock &from);
void meet_clocks(unsigned first, unsigned last, uint32_t mask);  // lanes of a warp

// As long as it lives, accesses are those of a thread at a time before.
class Acting {
  public:
    Acting(Thread *who, const Clock &known);
    ~Acting();

  private:
    Thread *before;
};
void watch_copied(const char *at, size_t bytes, bool write);

// ---- what fences order between blocks (fences.cpp)

void fences_of_launch(bool watched);
void fences_of_block();
uint32_t fences_so_far();  // of this thread
void changed_atomically(const void *word);
// Whether an access of another block's thread, which had fenced memory so often then, lies before what this thread does.
bool ordered_by_fences(uint32_t other, uint32_t number, uint32_t fenced);

// ---- what watch.cpp is told

void watch_launch(const Launch &launch);
void watch_block(unsigned char *dynamic, size_t bytes);
void watch_end();

}  // namespace standin
