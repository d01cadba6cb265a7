// What one block's accesses are to another's: ordered where a thread of the one fenced memory and then, by itself or
// after a barrier, a thread of its block changed a word atomically, and a thread of the other block changed that word
// later, and the thread that asks fenced memory after that, by itself or after a barrier.
#include <unordered_map>
#include <vector>

#include "launch.h"

namespace standin {
namespace {

// How often each thread of a block had fenced memory when one of it changed a word, as far as that one may know.
struct Published {
    uint32_t block;
    std::vector<uint32_t> fences;
};

// A word that this block changed when so many had published by it.
struct Seen {
    const void *word;
    size_t before;
    uint32_t thread, clock, fences;
};

struct Fence {
    uint32_t count = 0, settled = 0;  // in all, and before the barrier that was last when it fenced last
    uint32_t clock = 0;
};

bool on = false;
std::vector<Fence> fences;  // of the block that runs, by thread; empty: none
std::vector<Seen> seen;
std::unordered_map<const void *, std::vector<Published>> published;

}  // namespace

void fences_of_launch(bool watched) {
    on = watched;
    published.clear();
}

void fences_of_block() {
    fences.clear();
    seen.clear();
}

uint32_t fences_so_far() { return fences.empty() ? 0 : fences[thread->number].count; }

void memory_fence() {
    if (!on) return;
    if (fences.empty()) fences.resize(size_t{block.extent.x} * block.extent.y * block.extent.z);
    Fence &mine = fences[thread->number];
    if (mine.clock != block.clock) mine.settled = mine.count;
    mine.clock = block.clock;
    ++mine.count;
}

void changed_atomically(const void *word) {
    if (!on) return;
    auto known = published.find(word);
    if (known != published.end()) seen.push_back({word, known->second.size(), thread->number, block.clock, fences_so_far()});
    if (fences.empty()) return;
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < fences.size(); ++i)
        counts.push_back(i == thread->number || fences[i].clock != block.clock ? fences[i].count : fences[i].settled);
    published[word].push_back({block.number, counts});
}

bool ordered_by_fences(uint32_t other, uint32_t number, uint32_t fenced) {
    if (fences.empty()) return false;
    const Fence &mine = fences[thread->number];
    for (const Seen &one : seen) {
        bool after = one.thread == thread->number ? mine.count > one.fences : mine.count && mine.clock > one.clock;
        if (!after) continue;
        const auto &all = published[one.word];
        for (size_t i = 0; i < one.before; ++i)
            if (all[i].block == other && all[i].fences[number] > fenced) return true;
    }
    return false;
}

}  // namespace standin
