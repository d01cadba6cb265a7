// Runs the threads of a launch, block by block, and says what a kernel did that a GPU would not forgive.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "launch.h"
#include "signals.h"
#include "switch.h"

namespace standin {

Thread *thread = nullptr;
Block block;

namespace {

constexpr size_t PAGE = 4096, STACK = 256 << 10, MOST_THREADS = 1024;
constexpr unsigned char POISON = 0xFF;  // NaN as a float, -1 as an integer

struct Engine {
    std::vector<Thread> threads;
    std::vector<char *> free_stacks;
    Range stacks{};
    void *home = nullptr;  // where the scheduler waits for the thread that runs
    void (*invoke)(void *) = nullptr;
    void *state = nullptr;
    unsigned count = 0, done = 0;
    unsigned lanes[WARP]{}, next_lane = 0, warp = 0;
    uint64_t random = 0;
    bool running = false, failed = false, inside = false;  // inside: of a thread, not of the scheduler
    Result result;
} engine;

[[noreturn]] void go_home() {
    void *abandoned;
    standin_switch(&abandoned, engine.home);
    std::abort();
}

uint64_t random_number() {
    uint64_t &r = engine.random;
    r ^= r << 13, r ^= r >> 7, r ^= r << 17;
    return r;
}

template <class Items> void shuffle(Items &items, size_t count) {
    for (size_t i = count; engine.random && i > 1; --i) std::swap(items[i - 1], items[random_number() % i]);
}

// The next lane of the warp that has not begun, so that one stack serves all that never wait.
Thread *next_fresh() {
    while (engine.next_lane < WARP) {
        unsigned number = engine.warp * WARP + engine.lanes[engine.next_lane++];
        if (number < engine.count && engine.threads[number].state == State::fresh) return &engine.threads[number];
    }
    return nullptr;
}

void fiber() {
    char *stack = thread->stack;
    do {
        thread->stack = stack;
        thread->state = State::ready;
        engine.invoke(engine.state);
        if (thread->products) fault("a thread ends before the products that it has begun");
        thread->state = State::done;
        ++engine.done;
    } while ((thread = next_fresh()));
    engine.free_stacks.push_back(stack);
    go_home();
}

void make_stacks() {
    if (engine.stacks.start) return;
    size_t each = STACK + PAGE, all = MOST_THREADS * each;
    void *found = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found == MAP_FAILED) std::abort();
    engine.stacks = {static_cast<char *>(found), static_cast<char *>(found) + all};
    for (size_t i = 0; i < MOST_THREADS; ++i) {
        char *start = engine.stacks.start + i * each;
        mprotect(start, PAGE, PROT_NONE);
        engine.free_stacks.push_back(start);
    }
}

void begin(Thread &fresh) {
    fresh.stack = engine.free_stacks.back();
    engine.free_stacks.pop_back();
    fresh.stack_pointer = standin_fresh(fresh.stack + PAGE + STACK, fiber);
}

// Runs a thread until it waits or ends; with it, lanes that have not begun, as long as none of them waits.
void resume(Thread &chosen) {
    if (chosen.state == State::fresh) begin(chosen);
    thread = &chosen;
    engine.inside = true;
    standin_switch(&engine.home, chosen.stack_pointer);
    engine.inside = false;
    thread = nullptr;
}

void leave() { standin_switch(&thread->stack_pointer, engine.home); }

std::string line(unsigned site) { return "line " + std::to_string(site); }

// Lets the lanes that a meeting names go on, when all have come; returns whether any did.
bool resolve_meetings(unsigned first, unsigned last) {
    bool any = false;
    for (unsigned i = first; i < last; ++i) {
        Thread &one = engine.threads[i];
        if (one.state != State::meeting) continue;
        void *brought[WARP] = {};
        bool all = true;
        for (unsigned l = 0; l < WARP && all; ++l) {
            if (!(one.mask >> l & 1)) continue;
            std::string who = "lane " + std::to_string(l);
            if (first + l >= last) fault_of(Outcome::fault, "the warp operation at " + line(one.site) + " names " + who + ", which the block does not have");
            Thread &other = engine.threads[first + l];
            if (other.state == State::done) fault_of(Outcome::fault, "the warp operation at " + line(one.site) + " names " + who + ", which has exited");
            if (other.state == State::waiting) fault_of(Outcome::fault, "the warp operation at " + line(one.site) + " names " + who + ", which waits at the barrier at " + line(other.site));
            all = other.state == State::meeting;
            if (all && (other.mask != one.mask || other.site != one.site))
                fault_of(Outcome::fault, "lanes of one warp meet at different places: " + line(one.site) + " and " + line(other.site));
            brought[l] = other.payload;
        }
        if (!all) continue;
        if (one.resolve) one.resolve(brought);
        uint32_t mask = one.mask, clock = 0;
        if (one.orders) meet_clocks(first, last, mask);
        for (unsigned l = 0; l < WARP; ++l)
            if (mask >> l & 1) clock = std::max(clock, engine.threads[first + l].warp_clock);
        for (unsigned l = 0; l < WARP; ++l) {
            if (!(mask >> l & 1)) continue;
            Thread &other = engine.threads[first + l];
            other.warp_clock = one.orders ? clock + 1 : other.warp_clock;
            other.state = State::ready;
        }
        any = true;
    }
    return any;
}

bool run_warp(unsigned warp) {
    unsigned first = warp * WARP, last = std::min(engine.count, first + WARP);
    bool progress = false, again = true;
    while (again) {
        again = false;
        engine.warp = warp;
        shuffle(engine.lanes, WARP);
        engine.next_lane = 0;
        for (unsigned i = 0; i < WARP; ++i) {
            unsigned number = first + engine.lanes[i];
            if (number >= last) continue;
            Thread &one = engine.threads[number];
            if (one.state == State::polling && one.poll(one.polled, one.polled_number)) one.state = State::ready;
            if (one.state != State::ready && one.state != State::fresh) continue;
            engine.next_lane = i + 1;
            resume(one);
            progress = true;
            if (engine.failed) return true;
        }
        again = resolve_meetings(first, last);
        if (engine.failed) return true;
    }
    return progress;
}

// Opens the barrier when every thread waits at it. Says so when that cannot happen any more.
bool open_barrier() {
    const Thread *waits = nullptr, *exited = nullptr;
    unsigned count = 0;
    for (unsigned i = 0; i < engine.count; ++i) {
        const Thread &one = engine.threads[i];
        if (one.state == State::done) exited = &one;
        if (one.state != State::waiting) continue;
        if (waits && waits->site != one.site)
            fault_of(Outcome::fault, "threads of one block wait at different barriers: " + line(waits->site) + " and " + line(one.site));
        waits = &one;
        ++count;
    }
    if (!waits || engine.failed) return false;
    if (exited)
        fault_of(Outcome::fault, "the barrier at " + line(waits->site) + " is never reached by thread " + std::to_string(exited->number) + ", which has exited");
    if (count < engine.count) return false;
    for (unsigned i = 0; i < engine.count; ++i) engine.threads[i].state = State::ready;
    ++block.clock;
    return true;
}

std::string stuck() {
    for (const Thread &one : engine.threads)
        if (one.state == State::polling)
            return "the block is stuck: thread " + std::to_string(one.number) + " waits at " + line(one.site) + " for a phase that never ends";
    return "the block is stuck: some threads wait for others that never come";
}

void run_block(const Launch &launch) {
    engine.done = 0;
    block.clock = 0;
    if (launch.shared.start) std::memset(launch.shared.start, POISON, launch.shared.stop - launch.shared.start);
    if (launch.dynamic) std::memset(block.dynamic, POISON, launch.dynamic);
    if (launch.watched) watch_block(block.dynamic, launch.dynamic);
    begin_copies();
    for (unsigned i = 0; i < engine.count; ++i) {
        engine.threads[i].state = State::fresh;
        engine.threads[i].warp_clock = 0;
        engine.threads[i].products = 0;
    }
    unsigned warps = (engine.count + WARP - 1) / WARP;
    unsigned order[MOST_THREADS / WARP];
    std::iota(order, order + warps, 0u);
    while (engine.done < engine.count && !engine.failed) {
        bool progress = false;
        shuffle(order, warps);
        for (unsigned i = 0; i < warps && !engine.failed; ++i) progress |= run_warp(order[i]);
        if (engine.failed) return;
        if (engine.done == engine.count) return end_copies();
        if (!open_barrier() && !progress && !engine.failed) fault_of(Outcome::fault, stuck());
    }
}

}  // namespace

Range stacks() { return engine.stacks; }
bool running() { return engine.running && thread; }

void fault_of(Outcome outcome, const std::string &what) {
    if (!engine.failed) {
        std::string place = "block " + std::to_string(block.index.x);
        if (thread) place += ", thread " + std::to_string(thread->number);
        engine.result = {outcome, what + " (" + place + ")"};
    }
    engine.failed = true;
    if (!engine.inside) throw engine.result;  // of the scheduler itself
    go_home();
}

void fault(const char *what) { fault_of(Outcome::fault, what); }

void barrier(unsigned site) {
    thread->state = State::waiting;
    thread->site = site;
    leave();
}

void meet(Resolve resolve, void *payload, uint32_t mask, unsigned site, bool orders) {
    if (!(mask >> lane() & 1)) fault("a lane meets others under a mask that does not name it");
    thread->state = State::meeting;
    thread->site = site, thread->mask = mask;
    thread->resolve = resolve, thread->payload = payload, thread->orders = orders;
    leave();
}

void wait_for(bool (*poll)(void *state, unsigned number), void *state, unsigned number) {
    thread->state = State::polling;
    thread->poll = poll, thread->polled = state, thread->polled_number = number;
    leave();
}

bool random_choice() { return engine.random && random_number() & 1; }

Result run(const Launch &launch, void (*invoke)(void *), void *state) {
    make_stacks();
    size_t blocks = size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    std::vector<unsigned char> dynamic(launch.dynamic + 1024);
    engine.invoke = invoke, engine.state = state;
    engine.count = launch.block.x * launch.block.y * launch.block.z;
    engine.threads.assign(engine.count, Thread{});
    engine.random = launch.seed * 0x9E3779B97F4A7C15ull;
    engine.failed = false, engine.running = true;
    engine.result = {};
    std::iota(engine.lanes, engine.lanes + WARP, 0u);
    for (unsigned i = 0; i < engine.count; ++i) {
        engine.threads[i].number = i;
        engine.threads[i].index = {i % launch.block.x, i / launch.block.x % launch.block.y, i / (launch.block.x * launch.block.y)};
    }
    block = {};
    block.extent = launch.block, block.grid = launch.grid;
    block.dynamic = reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(dynamic.data()) + 1023) & ~uintptr_t{1023});
    std::vector<size_t> order;
    if (launch.seed) {
        order.resize(blocks);
        std::iota(order.begin(), order.end(), size_t{0});
        shuffle(order, blocks);
    }
    if (launch.watched) watch_launch(launch);
    Signals signals;
    for (size_t i = 0; i < blocks && !engine.failed; ++i) {
        size_t number = launch.seed ? order[i] : i;
        block.number = static_cast<unsigned>(number);
        block.index = {static_cast<unsigned>(number % launch.grid.x), static_cast<unsigned>(number / launch.grid.x % launch.grid.y),
                       static_cast<unsigned>(number / (size_t{launch.grid.x} * launch.grid.y))};
        thread = nullptr;
        try {
            run_block(launch);
        } catch (const Result &) {
        }
    }
    engine.running = false;
    thread = nullptr;
    if (launch.watched) watch_end();
    if (engine.failed) {  // stacks of threads that never ended
        engine.free_stacks.clear();
        for (size_t i = 0; i < MOST_THREADS; ++i) engine.free_stacks.push_back(engine.stacks.start + i * (STACK + PAGE));
    }
    return engine.result;
}

}  // namespace standin
