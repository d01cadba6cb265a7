// Watches every access of a kernel: bounds to the byte, shared memory read before it is written, and races.
//
// g++ reports the accesses (-fsanitize=thread, whose own runtime is not linked: these functions are). Two accesses to
// a byte by two threads race when one writes, not both are atomic, and no barrier of the block, nor a __syncwarp of
// their warp, nor barriers in shared memory on which one arrived and the other waited, lie between them. Different
// blocks of a launch are ordered by fences and atomic accesses (fences.cpp), or not at all.
#include <algorithm>
#include <cstdio>
#include <unordered_map>
#include <vector>

#include "launch.h"

namespace standin {
namespace {

struct Access {
    uint32_t who = 0;  // the thread, counted in the grid from 1; 0: nobody
    uint32_t clock = 0, warp_clock = 0;
    uint32_t epoch = 0;  // of the thread: how often it has let others know
    bool atomic = false;
    uint32_t fences = 0;  // of the thread before it
};

struct Cell {
    Access writer, reader, other_reader;
};

constexpr uintptr_t CELLS = 4096;

struct Watch {
    bool on = false, atomic = false;
    const Launch *launch = nullptr;
    Range dynamic{};
    std::vector<Cell> fixed_cells, dynamic_cells;  // of the block that runs
    std::unordered_map<uintptr_t, std::vector<Cell>> global;  // by page
    std::vector<Clock> known;  // by thread; empty as long as only barriers of the block are used
    std::vector<uint32_t> epochs;
    const Clock *acting = nullptr;  // what is known to who acts, where that is not the thread of now
} watch;

bool inside(const Range &range, const char *at, size_t bytes) { return range.start && at >= range.start && at + bytes <= range.stop; }

Access now() {
    uint32_t threads = block.extent.x * block.extent.y * block.extent.z;
    uint32_t epoch = watch.acting ? (*watch.acting)[thread->number] : watch.epochs.empty() ? 1 : watch.epochs[thread->number];
    return {block.number * threads + thread->number + 1, block.clock, thread->warp_clock, epoch, watch.atomic, fences_so_far()};
}

bool knows_of(const Access &before, uint32_t number) {
    if (watch.known.empty()) return false;
    const Clock &known = watch.acting ? *watch.acting : watch.known[thread->number];
    return known.size() > number && known[number] >= before.epoch;
}

bool races(const Access &before, const Access &after) {
    if (!before.who || before.who == after.who || (before.atomic && after.atomic)) return false;
    uint32_t threads = block.extent.x * block.extent.y * block.extent.z;
    uint32_t a = before.who - 1, b = after.who - 1;
    if (a / threads != b / threads) return !ordered_by_fences(a / threads, a % threads, before.fences);
    if (before.clock != after.clock || knows_of(before, a % threads)) return false;
    bool one_warp = a % threads / WARP == b % threads / WARP;
    return !one_warp || before.warp_clock == after.warp_clock;
}

[[noreturn]] void race(const char *memory, uintptr_t place, const char *one, const Access &before, const char *two) {
    uint32_t threads = block.extent.x * block.extent.y * block.extent.z;
    char text[200];
    std::snprintf(text, sizeof text, "a race in %s memory at byte %zu: %s by thread %u of block %u, %s by this one", memory,
                  static_cast<size_t>(place), one, (before.who - 1) % threads, (before.who - 1) / threads, two);
    watch.on = false;
    fault(text);
}

void record(Cell &cell, bool write, const char *memory, uintptr_t place) {
    Access mine = now();
    if (races(cell.writer, mine)) race(memory, place, "written", cell.writer, write ? "written" : "read");
    if (!write) {
        if (cell.reader.who != mine.who) cell.other_reader = cell.reader;
        cell.reader = mine;
        return;
    }
    if (races(cell.reader, mine)) race(memory, place, "read", cell.reader, "written");
    if (races(cell.other_reader, mine)) race(memory, place, "read", cell.other_reader, "written");
    cell.writer = mine;
}

void in_shared(std::vector<Cell> &cells, size_t start, size_t bytes, bool write) {
    for (size_t i = start; i < start + bytes; ++i) {
        if (!write && !cells[i].writer.who) {
            char text[100];
            std::snprintf(text, sizeof text, "byte %zu of shared memory is read before it is written", i);
            watch.on = false;
            fault(text);
        }
        record(cells[i], write, "shared", i);
    }
}

void in_global(const char *at, size_t bytes, bool write) {
    for (size_t i = 0; i < bytes; ++i) {
        auto address = reinterpret_cast<uintptr_t>(at + i);
        auto &cells = watch.global[address / CELLS];
        if (cells.empty()) cells.resize(CELLS);
        record(cells[address % CELLS], write, "global", address);
    }
}

void access(const void *address, size_t bytes, bool write, bool vector) {
    if (!watch.on || !thread) return;
    auto *at = static_cast<const char *>(address);
    if (inside(stacks(), at, bytes)) return;
    if (vector && reinterpret_cast<uintptr_t>(at) % bytes) {
        watch.on = false;
        char text[100];
        std::snprintf(text, sizeof text, "an access of %zu bytes to address %p", bytes, address);
        fault_of(Outcome::misaligned_address, text);
    }
    if (inside(watch.launch->shared, at, bytes)) return in_shared(watch.fixed_cells, at - watch.launch->shared.start, bytes, write);
    if (inside(watch.dynamic, at, bytes)) return in_shared(watch.dynamic_cells, at - watch.dynamic.start, bytes, write);
    Range found = allocation(address);
    if (inside(found, at, bytes)) return in_global(at, bytes, write);
    if (!write && (inside(watch.launch->image, at, bytes) || inside(watch.launch->arguments, at, bytes))) return;  // constants
    watch.on = false;
    char text[200];
    if (found.start)
        std::snprintf(text, sizeof text, "%zu bytes %s at byte %td of an allocation of %td bytes", bytes, write ? "written" : "read",
                      at - found.start, found.stop - found.start);
    else
        std::snprintf(text, sizeof text, "%zu bytes %s at address %p, where there is nothing", bytes, write ? "written" : "read", address);
    fault_of(Outcome::illegal_address, text);
}

}  // namespace

void watch_launch(const Launch &launch) {
    watch.launch = &launch;
    watch.global.clear();
    watch.acting = nullptr;
    fences_of_launch(true);
    watch.on = true;
}

void watch_block(unsigned char *dynamic, size_t bytes) {
    auto *start = reinterpret_cast<char *>(dynamic);
    watch.dynamic = {start, start + bytes};
    watch.dynamic_cells.assign(bytes, Cell{});
    watch.known.clear(), watch.epochs.clear();
    fences_of_block();
    watch.fixed_cells.assign(watch.launch->shared.stop - watch.launch->shared.start, Cell{});
}

void join(Clock &into, const Clock &from) {
    if (into.size() < from.size()) into.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

void release(Clock &into) {
    if (!watch.on) return;
    if (watch.known.empty()) {
        size_t threads = size_t{block.extent.x} * block.extent.y * block.extent.z;
        watch.known.assign(threads, Clock(threads));
        watch.epochs.assign(threads, 1);
    }
    uint32_t number = thread->number;
    watch.known[number][number] = watch.epochs[number]++;
    join(into, watch.known[number]);
}

void acquire(const Clock &from) {
    if (watch.on && !watch.known.empty()) join(watch.known[thread->number], from);
}

void meet_clocks(unsigned first, unsigned last, uint32_t mask) {
    if (!watch.on || watch.known.empty()) return;
    Clock all;
    for (unsigned i = first; i < last; ++i) {
        if (!(mask >> (i - first) & 1)) continue;
        watch.known[i][i] = watch.epochs[i]++;
        join(all, watch.known[i]);
    }
    for (unsigned i = first; i < last; ++i)
        if (mask >> (i - first) & 1) watch.known[i] = all;
}

Acting::Acting(Thread *who, const Clock &known) : before(thread) {
    thread = who;
    watch.acting = known.empty() ? nullptr : &known;
}

Acting::~Acting() {
    thread = before;
    watch.acting = nullptr;
}

void watch_copied(const char *at, size_t bytes, bool write) { access(at, bytes, write, false); }

void watch_end() {
    watch.on = false;
    fences_of_launch(false);
    watch.global.clear();
}

void watch_atomic(const void *address, size_t bytes) {
    watch.atomic = true;
    access(address, bytes, true, true);
    watch.atomic = false;
    changed_atomically(address);
}

}  // namespace standin

// ---- what g++ calls ------------------------------------------------------------------------------

#define STANDIN_WATCH(bytes)                                                                                                     \
    extern "C" STANDIN_SHARED_API void __tsan_read##bytes(void *p) { standin::access(p, bytes, false, true); }                   \
    extern "C" STANDIN_SHARED_API void __tsan_write##bytes(void *p) { standin::access(p, bytes, true, true); }                   \
    extern "C" STANDIN_SHARED_API void __tsan_unaligned_read##bytes(void *p) { standin::access(p, bytes, false, false); }        \
    extern "C" STANDIN_SHARED_API void __tsan_unaligned_write##bytes(void *p) { standin::access(p, bytes, true, false); }
STANDIN_WATCH(1)
STANDIN_WATCH(2)
STANDIN_WATCH(4)
STANDIN_WATCH(8)
STANDIN_WATCH(16)

extern "C" {
STANDIN_SHARED_API void __tsan_init() {}
STANDIN_SHARED_API void __tsan_func_entry(void *) {}
STANDIN_SHARED_API void __tsan_func_exit() {}
STANDIN_SHARED_API void __tsan_read_range(void *p, size_t bytes) { standin::access(p, bytes, false, false); }
STANDIN_SHARED_API void __tsan_write_range(void *p, size_t bytes) { standin::access(p, bytes, true, false); }
}
