// Hopper's barriers in shared memory, the copies that count on them, and products that go on while their threads do.
//
// Copies are made as late as can be, when somebody waits for them and nothing else is missing; with a seed, some at once.
// Products are added when they are waited for. So what is handed back or read too early shows.
#include <cstring>
#include <map>
#include <vector>

#include "launch.h"
#include "tensor_map.h"

namespace standin {
namespace {

struct BoxCopy {
    Thread *asked;
    Clock known;  // what its thread knew when it asked
    EncodedMap map;
    int place[5];
    char *to;
};

struct Mbarrier {
    unsigned arrivals = 0, pending = 0;
    long bytes = 0;  // still expected
    uint32_t phases = 0;  // that are over
    Clock gathered, known;  // of those who have arrived in this phase, and in those that are over
    std::vector<BoxCopy> copies;
};

std::map<const void *, Mbarrier> barriers;

Mbarrier &barrier_at(const void *at) {
    auto found = barriers.find(at);
    if (found == barriers.end()) fault("a barrier in shared memory is used that has not begun");
    return found->second;
}

void settle_phase(Mbarrier &barrier) {
    if (barrier.pending || barrier.bytes) return;
    ++barrier.phases;
    barrier.pending = barrier.arrivals;
    join(barrier.known, barrier.gathered);
    barrier.gathered.clear();
}

bool in_box(const BoxCopy &copy, const unsigned *counters, uint64_t &from) {
    from = copy.map.address;
    for (unsigned i = 0; i < copy.map.rank; ++i) {
        int64_t at = int64_t{copy.place[i]} + counters[i];
        if (at < 0 || at > copy.map.last[i]) return false;
        from += static_cast<uint64_t>(at) * (i ? copy.map.strides[i - 1] : copy.map.bytes);
    }
    return true;
}

// Copies a box: 16 bytes at a time, exchanged in each 128 bytes by bits of the address, zeros where there is nothing.
size_t perform(const BoxCopy &copy) {
    const EncodedMap &map = copy.map;
    Acting acting(copy.asked, copy.known);
    unsigned each = 16 / map.bytes, counters[5] = {};
    size_t rows = 1, row_bytes = size_t{map.box[0]} * map.bytes;
    for (unsigned i = 1; i < map.rank; ++i) rows *= map.box[i];
    for (size_t row = 0; row < rows; ++row) {
        size_t left = row;
        for (unsigned i = 1; i < map.rank; ++i) counters[i] = left % map.box[i], left /= map.box[i];
        for (unsigned chunk = 0; chunk < row_bytes / 16; ++chunk) {
            uintptr_t place = reinterpret_cast<uintptr_t>(copy.to) + row * row_bytes + chunk * 16;
            auto *to = reinterpret_cast<char *>(place ^ ((place >> 7 & 7) << 4));
            char held[16] = {};
            for (unsigned i = 0; i < each; ++i) {
                uint64_t from;
                counters[0] = chunk * each + i;
                if (!in_box(copy, counters, from)) continue;
                Range found = allocation(reinterpret_cast<const void *>(from));
                if (!found.start) fault_of(Outcome::illegal_address, "the copy engine reads where there is nothing");
                watch_copied(reinterpret_cast<const char *>(from), map.bytes, false);
                std::memcpy(held + i * map.bytes, reinterpret_cast<const void *>(from), map.bytes);
            }
            watch_copied(to, 16, true);
            std::memcpy(to, held, 16);
        }
    }
    return rows * row_bytes;
}

void perform_all(Mbarrier &barrier) {
    std::vector<BoxCopy> copies;
    copies.swap(barrier.copies);
    for (const BoxCopy &copy : copies) {
        barrier.bytes -= static_cast<long>(perform(copy));
        join(barrier.gathered, copy.known);
    }
    settle_phase(barrier);
}

// Whether the phase of that parity is over: copies are made when only they are missing.
bool over(Mbarrier &barrier, unsigned parity) {
    if ((barrier.phases & 1) == parity && !barrier.copies.empty()) perform_all(barrier);
    return (barrier.phases & 1) != parity;
}

}  // namespace

void mbarrier_begin(void *at, unsigned arrivals) {
    if (reinterpret_cast<uintptr_t>(at) % 8) fault("a barrier in shared memory is not aligned to 8 bytes");
    if (!barriers.emplace(at, Mbarrier{arrivals, arrivals}).second) fault("a barrier in shared memory begins twice");
}

void mbarrier_arrive(void *at, unsigned bytes) {
    Mbarrier &barrier = barrier_at(at);
    if (!barrier.pending) fault("more arrive at a barrier in shared memory than a phase of it has");
    barrier.bytes += bytes;
    release(barrier.gathered);
    --barrier.pending;
    settle_phase(barrier);
}

void mbarrier_wait(void *at, uint32_t phases, unsigned site) {
    Mbarrier &barrier = barrier_at(at);
    unsigned parity = (phases - 1) & 1;
    thread->site = site;
    while (!over(barrier, parity)) wait_for([](void *state, unsigned parity) { return over(*static_cast<Mbarrier *>(state), parity); }, &barrier, parity);
    if (barrier.phases < phases) fault("a thread waits for a phase of a barrier that is more than one ahead");
    acquire(barrier.known);
}

void copy_box(void *to, const void *map, void *at, const int *place, unsigned rank) {
    BoxCopy copy{thread, {}, {}, {}, static_cast<char *>(to)};
    std::memcpy(&copy.map, map, sizeof copy.map);
    if (copy.map.magic != EncodedMap::MAGIC) fault("a copy by what is no tensor map");
    if (copy.map.rank != rank) fault("a copy at a place of another number of axes than its tensor map has");
    if (reinterpret_cast<uintptr_t>(to) % 128) fault("a copy to shared memory that is not aligned to 128 bytes");
    std::memcpy(copy.place, place, rank * sizeof *place);
    release(copy.known);
    Mbarrier &barrier = barrier_at(at);
    barrier.copies.push_back(std::move(copy));
    if (random_choice()) perform_all(barrier);
}

void begin_product(const Product &product) {
    if (thread->products == MOST_PRODUCTS) fault("more products are begun than a thread may have");
    thread->product[thread->products++] = product;
}

void settle_products(unsigned left, unsigned site) {
    unsigned done = thread->products > left ? thread->products - left : 0;
    for (unsigned i = 0; i < done; ++i) thread->product[i].add(thread->product[i]);
    for (unsigned i = done; i < thread->products; ++i) thread->product[i - done] = thread->product[i];
    thread->products -= done;
    meet(nullptr, nullptr, 0xffffffffu, site, true);
}

void begin_copies() { barriers.clear(); }

void end_copies() {
    for (auto &[at, barrier] : barriers)
        if (!barrier.copies.empty()) fault("a block ends before all that it asked the copy engine for has come");
}

}  // namespace standin
