/* Asynchronous copies from global to shared memory (cp.async). The tests compile this for a CPU, where they copy at once. */

/* Starts a copy of 16 bytes; writes zeros instead if `there` is false. */
static __device__ __forceinline__ void copy_async(void *to, const void *from, bool there)
{
#ifdef __CUDACC__
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" :: "r"(address), "l"(from), "r"(there ? 16 : 0));
#else
    for (int word = 0; word < 4; ++word) ((uint32_t *)to)[word] = there ? ((const uint32_t *)from)[word] : 0u;
#endif
}

static __device__ __forceinline__ void copy_commit()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;");
#endif
}

template <int left> static __device__ __forceinline__ void copy_wait()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" :: "n"(left) : "memory");
#endif
}
