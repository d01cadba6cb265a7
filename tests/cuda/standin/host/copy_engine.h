// Hopper's copy engine, barriers in shared memory and products of four warps: functions of the text's names, by the engine's.
#pragma once

#include "../engine/engine.h"

struct alignas(64) TensorMap {
    uint64_t words[16];
};

#define barrier_begin(barrier, arrivals) standin::mbarrier_begin(barrier, arrivals)
#define barrier_ready() ((void)0)
#define barrier_wait(barrier, phases) standin::mbarrier_wait(barrier, static_cast<uint32_t>(phases), __LINE__)
#define barrier_expect(barrier, bytes) standin::mbarrier_arrive(barrier, bytes)
#define barrier_done(barrier) standin::arrive_as_warp(barrier, __LINE__)

namespace standin {

STANDIN_UNWATCHED void arrive_as_warp(void *barrier, unsigned site) {
    meet(nullptr, nullptr, 0xffffffffu, site, true);
    if (lane() == 0) mbarrier_arrive(barrier, 0);
}

// Where the element of a place and a step lies in a tile of a product.
template <bool turned> int place_in_tile(int place, int step) {
    if (turned) return place / 64 * 4096 + step * 64 + ((place % 64 / 8) ^ (step % 8)) * 8 + place % 8;
    return place * 64 + ((step / 8) ^ (place % 8)) * 8 + step % 8;
}

// A thread's results: 16 rows of its warp by 256 columns, over 64 steps of the sum.
template <class P, bool a_turned, bool b_turned>
__attribute__((noinline)) void add_product(float *sums, const uint16_t *a, int a_first, const uint16_t *b, int lane) {
    for (int number = 0; number < 128; ++number) {
        int row = a_first + lane / 4 + number % 4 / 2 * 8, column = number / 4 * 8 + lane % 4 * 2 + number % 2;
        for (int k = 0; k < 64; ++k)
            sums[number] += P::value(a[place_in_tile<a_turned>(row, k)]) * P::value(b[place_in_tile<b_turned>(column, k)]);
    }
}

template <class P, bool a_turned, bool b_turned> STANDIN_UNWATCHED void add_begun(const Product &begun) {
    add_product<P, a_turned, b_turned>(begun.sums, begun.a, begun.a_first, begun.b, static_cast<int>(lane()));
}

}  // namespace standin

template <class P, bool a_turned, bool b_turned>
STANDIN_UNWATCHED void multiply_group(float *sums, const uint16_t *a, int a_first, const uint16_t *b) {
    if ((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % 1024) standin::fault("a tile of a product is not aligned to 1024 bytes");
    standin::begin_product({standin::add_begun<P, a_turned, b_turned>, sums, a, b, a_first});
}

template <int left> STANDIN_UNWATCHED void settle_groups() { standin::settle_products(left, left); }

template <class... Places> STANDIN_UNWATCHED void copy_box(void *to, const TensorMap *map, void *barrier, Places... places) {
    const int place[] = {static_cast<int>(places)...};
    standin::copy_box(to, map, barrier, place, sizeof...(places));
}

template <int count> void more_registers() { static_assert(count % 8 == 0 && count >= 24 && count <= 256); }
template <int count> void fewer_registers() { static_assert(count % 8 == 0 && count >= 24 && count <= 256); }
