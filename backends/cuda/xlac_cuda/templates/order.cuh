/* Synchronization: barriers, memory fences, and counters of blocks that have arrived. */

/* A barrier for the threads of a warp; in tests on a CPU, for those of the block. */
static __device__ __forceinline__ void warp_barrier()
{
#ifdef __CUDACC__
    __syncwarp();
#else
    __syncthreads();
#endif
}

/* Makes the caller's earlier writes visible to the whole GPU before its later ones. */
static __device__ __forceinline__ void memory_fence()
{
    __threadfence();
}

/* Counts an arrival. `last` becomes true for the last of `count` arrivals, which also resets the counter to zero. */
static __device__ __forceinline__ void take_ticket(uint32_t *counter, uint32_t count, uint32_t *last)
{
    *last = atomicInc(counter, count - 1u) == count - 1u;
}
