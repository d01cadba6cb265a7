// How NCCL combines two numbers: integers wrap, halves are rounded at each step, and the larger of a number and a NaN is the
// number.
#include <type_traits>

#include "../libraries/numbers.h"
#include "nccl.h"

namespace {

template <typename T>
T both(T one, T other, int how) {
    if constexpr (std::is_integral_v<T>) {
        using U = std::make_unsigned_t<T>;
        if (how == 0) return static_cast<T>(static_cast<U>(one) + static_cast<U>(other));
        if (how == 1) return static_cast<T>(static_cast<uint64_t>(one) * static_cast<uint64_t>(other));
        return how == 2 ? std::max(one, other) : std::min(one, other);
    } else {
        if (how == 0) return one + other;
        if (how == 1) return one * other;
        return how == 2 ? std::fmax(one, other) : std::fmin(one, other);
    }
}

template <typename T>
void of_type(char *target, const char *other, size_t count, int how) {
    for (size_t i = 0; i < count; ++i) {
        T one, two;
        std::memcpy(&one, target + i * sizeof(T), sizeof(T));
        std::memcpy(&two, other + i * sizeof(T), sizeof(T));
        one = both(one, two, how);
        std::memcpy(target + i * sizeof(T), &one, sizeof(T));
    }
}

}  // namespace

void combine(char *target, const char *other, size_t count, int type, int how) {
    switch (type) {
        case 0: return of_type<int8_t>(target, other, count, how);
        case 1: return of_type<uint8_t>(target, other, count, how);
        case 2: return of_type<int32_t>(target, other, count, how);
        case 3: return of_type<uint32_t>(target, other, count, how);
        case 4: return of_type<int64_t>(target, other, count, how);
        case 5: return of_type<uint64_t>(target, other, count, how);
        case 7: return of_type<float>(target, other, count, how);
        case 8: return of_type<double>(target, other, count, how);
    }
    numbers::Kind kind = type == 6 ? numbers::Kind::f16 : numbers::Kind::bf16;
    for (size_t i = 0; i < count; ++i)
        numbers::store(target, kind, int64_t(i), both(numbers::load(target, kind, int64_t(i)), numbers::load(other, kind, int64_t(i)), how));
}
