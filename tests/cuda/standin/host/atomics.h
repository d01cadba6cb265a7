// Atomic operations. A thread runs until it waits, so they are plain ones that say they are atomic.
#pragma once

#include <algorithm>

#include "../engine/engine.h"

namespace standin {
template <class T, class Combine> __attribute__((no_sanitize("thread"))) T atomically(T *at, Combine combine) {
    watch_atomic(at, sizeof(T));
    T before = *at;
    *at = combine(before);
    return before;
}
}  // namespace standin

#define STANDIN_ATOMIC(name, result)                                              \
    template <class T> T name(T *at, T value) {                                   \
        return standin::atomically(at, [value](T before) -> T { return result; }); \
    }
STANDIN_ATOMIC(atomicAdd, before + value)
STANDIN_ATOMIC(atomicSub, before - value)
STANDIN_ATOMIC(atomicMax, std::max(before, value))
STANDIN_ATOMIC(atomicMin, std::min(before, value))
STANDIN_ATOMIC(atomicAnd, before & value)
STANDIN_ATOMIC(atomicOr, before | value)
STANDIN_ATOMIC(atomicXor, before ^ value)
STANDIN_ATOMIC(atomicExch, value)
#undef STANDIN_ATOMIC

template <class T> T atomicInc(T *at, T most) {
    return standin::atomically(at, [=](T before) -> T { return before >= most ? 0 : before + 1; });
}

template <class T> T atomicCAS(T *at, T expected, T value) {
    return standin::atomically(at, [=](T before) { return before == expected ? value : before; });
}

// A load that other threads' atomic operations do not tear.
template <class T> T __ldcv(const T *at) {
    return standin::atomically(const_cast<T *>(at), [](T before) { return before; });
}
