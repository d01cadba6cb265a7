// Where a thread is, and how the threads of a block and of a warp meet.
#pragma once

#include <cstring>

#include "../engine/engine.h"

#define threadIdx standin::thread_index()
#define blockIdx standin::block_index()
#define blockDim standin::block_extent()
#define gridDim standin::grid_extent()
#define warpSize 32

#define __syncthreads() standin::barrier(__LINE__)
#define __syncwarp(...) standin::sync_warp(__LINE__ __VA_OPT__(, ) __VA_ARGS__)
#define __threadfence() standin::memory_fence()
#define __threadfence_block() ((void)0)

#define __shfl_sync(mask, value, source, ...) standin::shuffle(mask, value, (source) & 31, __LINE__)
#define __shfl_xor_sync(mask, value, distance, ...) standin::shuffle(mask, value, standin::lane() ^ unsigned(distance), __LINE__)
#define __shfl_down_sync(mask, value, distance, ...) standin::shuffle(mask, value, standin::lane() + unsigned(distance), __LINE__)
#define __shfl_up_sync(mask, value, distance, ...) standin::shuffle(mask, value, standin::lane() - unsigned(distance), __LINE__)
#define __ballot_sync(mask, predicate) standin::ballot(mask, predicate, __LINE__)
#define __any_sync(mask, predicate) (standin::ballot(mask, predicate, __LINE__) != 0)
#define __all_sync(mask, predicate) (standin::ballot(mask, !(predicate), __LINE__) == 0)
#define __activemask() 0xffffffffu

namespace standin {

inline void sync_warp(unsigned site, uint32_t mask = 0xffffffffu) { meet(nullptr, nullptr, mask, site, true); }

struct Shuffled {
    uint64_t value, result;
    unsigned source;
};

inline void resolve_shuffle(void **lanes) {
    for (unsigned i = 0; i < WARP; ++i) {
        auto *mine = static_cast<Shuffled *>(lanes[i]);
        if (!mine || mine->source >= WARP) continue;  // beyond the warp: a lane keeps its own
        if (!lanes[mine->source]) fault("a shuffle reads a lane that its mask does not name");
        mine->result = static_cast<Shuffled *>(lanes[mine->source])->value;
    }
}

template <class T> __attribute__((no_sanitize("thread"))) T shuffle(uint32_t mask, T value, unsigned source, unsigned site) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles 4 or 8 bytes");
    Shuffled mine{0, 0, source};
    std::memcpy(&mine.value, &value, sizeof value);
    mine.result = mine.value;
    meet(resolve_shuffle, &mine, mask, site, false);
    std::memcpy(&value, &mine.result, sizeof value);
    return value;
}

struct Vote {
    bool mine;
    uint32_t all;
};

inline void resolve_ballot(void **lanes) {
    uint32_t all = 0;
    for (unsigned i = 0; i < WARP; ++i)
        if (lanes[i] && static_cast<Vote *>(lanes[i])->mine) all |= 1u << i;
    for (unsigned i = 0; i < WARP; ++i)
        if (lanes[i]) static_cast<Vote *>(lanes[i])->all = all;
}

inline uint32_t ballot(uint32_t mask, bool mine, unsigned site) {
    Vote vote{mine, 0};
    meet(resolve_ballot, &vote, mask, site, false);
    return vote.all;
}

}  // namespace standin
