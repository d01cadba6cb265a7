/* Who waits for whom, and who sees what. */

/* Every thread of the warp arrives before any goes on; off a GPU, every thread of the block. */
static __device__ __forceinline__ void warp_barrier()
{
#ifdef __CUDACC__
    __syncwarp();
#else
    __syncthreads();
#endif
}

static __device__ __forceinline__ void memory_fence()
{
    __threadfence();
}

/* Counts the caller in; whether it is the last of `count`, and then the counter is zero again. */
static __device__ __forceinline__ void take_ticket(uint32_t *counter, uint32_t count, uint32_t *last)
{
    *last = atomicInc(counter, count - 1u) == count - 1u;
}
