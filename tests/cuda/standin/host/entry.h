// How the driver calls a kernel: its arguments from one packed buffer or one pointer each, then a thread at a time.
#pragma once

#include <cstring>
#include <tuple>
#include <type_traits>

#include "../engine/engine.h"

extern "C" char __start_standin_memory[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_standin_memory[] __attribute__((weak, visibility("hidden")));

namespace standin {

template <class... A> struct Bound {
    void (*kernel)(A...);
    std::tuple<std::decay_t<A>...> arguments;
    __attribute__((no_sanitize("thread"))) static void invoke(void *self) {
        auto *bound = static_cast<Bound *>(self);
        std::apply(bound->kernel, bound->arguments);
    }
};

class Unpacking {
  public:
    explicit Unpacking(const Arguments &given) : given(given) {}

    template <class T> T next() {
        T value;
        const char *from;
        if (given.each) {
            from = static_cast<const char *>(given.each[number++]);
        } else {
            at = (at + alignof(T) - 1) / alignof(T) * alignof(T);
            if (at + sizeof(T) > given.bytes) short_of = true;
            from = given.packed + (short_of ? 0 : at);
        }
        if (short_of) return T{};
        std::memcpy(&value, from, sizeof value);
        at += sizeof value;
        return value;
    }

    bool exact() const { return given.each || (!short_of && (at == given.bytes || (at + 7) / 8 * 8 == given.bytes)); }

  private:
    const Arguments &given;
    size_t at = 0, number = 0;
    bool short_of = false;
};

template <class... A> bool enter(void (*kernel)(A...), const Arguments &given, Run run, void *launch) {
    Unpacking from(given);
    Bound<A...> bound{kernel, {from.next<std::decay_t<A>>()...}};
    if (!from.exact()) return false;
    if (run) run(Bound<A...>::invoke, &bound, sizeof bound, launch);
    return true;
}

}  // namespace standin

// The shared memory of this library, and whether it was compiled to report its accesses.
extern "C" inline __attribute__((visibility("default"), used)) standin::Range standin_shared() {
    return {__start_standin_memory, __stop_standin_memory};
}
#ifdef __SANITIZE_THREAD__
extern "C" inline __attribute__((visibility("default"), used)) bool standin_watched() { return true; }
#else
extern "C" inline __attribute__((visibility("default"), used)) bool standin_watched() { return false; }
#endif

#define STANDIN_ENTRY(kernel, threads)                                                                              \
    extern "C" __attribute__((visibility("default"))) bool kernel##__entry(const standin::Arguments &given,         \
                                                                           standin::Run run, void *launch) {        \
        return standin::enter(&kernel, given, run, launch);                                                         \
    }                                                                                                               \
    extern "C" __attribute__((visibility("default"))) unsigned kernel##__threads() { return threads; }
