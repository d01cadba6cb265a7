// Tensor maps: checked as strictly as CUDA's documentation says, and written in a form of our own.
#include <cstring>

#include "../engine/tensor_map.h"
#include "state.h"

namespace {

// Bytes of an element, by CUtensorMapDataType.
constexpr uint8_t BYTES[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
constexpr int SWIZZLE_128B = 3;

bool in_bounds(uint64_t value, uint64_t low, uint64_t high) { return value >= low && value <= high; }

}  // namespace

STANDIN_CALL cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *extents, const uint64_t *strides,
                                    const uint32_t *box, const uint32_t *apart, int interleave, int swizzle, int promotion, int fill) {
    ENTER;
    if (setting("STANDIN_ARCH", 90) < 90) return CUDA_ERROR_NOT_SUPPORTED;
    if (reinterpret_cast<uintptr_t>(map) % 64 || type < 0 || type >= static_cast<int>(sizeof BYTES)) return CUDA_ERROR_INVALID_VALUE;
    if (!in_bounds(rank, 1, 5) || !address || reinterpret_cast<uintptr_t>(address) % 16) return CUDA_ERROR_INVALID_VALUE;
    if (interleave != 0 || promotion < 0 || promotion > 3 || fill != 0) return CUDA_ERROR_INVALID_VALUE;  // all that is stood in for
    uint8_t bytes = BYTES[type];
    standin::EncodedMap made{standin::EncodedMap::MAGIC, reinterpret_cast<uint64_t>(address), {}, {}, {}, static_cast<uint8_t>(rank), bytes, 1};
    for (unsigned i = 0; i < rank; ++i) {
        if (!in_bounds(extents[i], 1, 1ull << 32) || !in_bounds(box[i], 1, 256) || !in_bounds(apart[i], 1, 8)) return CUDA_ERROR_INVALID_VALUE;
        if (apart[i] != 1) return CUDA_ERROR_NOT_SUPPORTED;
        if (i && (strides[i - 1] % 16 || strides[i - 1] >= 1ull << 40)) return CUDA_ERROR_INVALID_VALUE;
        made.last[i] = static_cast<uint32_t>(extents[i] - 1), made.box[i] = static_cast<uint16_t>(box[i]);
        if (i) made.strides[i - 1] = strides[i - 1];
    }
    uint64_t row = uint64_t{box[0]} * bytes;
    if (row % 16) return CUDA_ERROR_INVALID_VALUE;
    if (swizzle != SWIZZLE_128B) return CUDA_ERROR_NOT_SUPPORTED;
    if (row > 128) return CUDA_ERROR_INVALID_VALUE;
    std::memset(map, 0, 128);
    std::memcpy(map, &made, sizeof made);
    return CUDA_SUCCESS;
}
