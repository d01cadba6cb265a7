/* Blocks that share a result. */

static __device__ __forceinline__ void memory_fence()
{
    __threadfence();
}

/* Counts the caller in; whether it is the last of `count`, and then the counter is zero again. */
static __device__ __forceinline__ void take_ticket(uint32_t *counter, uint32_t count, uint32_t *last)
{
    *last = atomicInc(counter, count - 1u) == count - 1u;
}
