// What the stand-in's driver writes into a CUtensorMap, and its copy engine reads.
#pragma once

#include <cstdint>

namespace standin {

struct EncodedMap {
    static constexpr uint64_t MAGIC = 0x6d6170206f662061;

    uint64_t magic;
    uint64_t address;
    uint64_t strides[4];  // bytes, of all axes but the innermost
    uint32_t last[5];     // of each axis the last place, innermost axis first
    uint16_t box[5];
    uint8_t rank, bytes, swizzled;
};
static_assert(sizeof(EncodedMap) <= 128);

}  // namespace standin
