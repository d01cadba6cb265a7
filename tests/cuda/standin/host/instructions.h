// Emulations of the instructions that generated text spells as inline PTX: functions of the same names and effects.
#pragma once

#include <cstring>

#include "threads.h"

namespace standin {

inline float of_bf16(uint16_t bits) {
    uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

}  // namespace standin
