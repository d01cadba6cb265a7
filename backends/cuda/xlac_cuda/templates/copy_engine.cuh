/* Hopper's tensor memory accelerator (TMA), and the barriers in shared memory (mbarrier) that count the bytes it copies.

   A waiter says how many phases of a barrier must be complete. Only the parity of that number is tested, so a waiter
   must be at most one phase behind. Tests that compile kernels for a CPU define these functions themselves. */
#ifdef __CUDACC__
struct __align__(64) TensorMap { uint64_t words[16]; };

static __device__ __forceinline__ uint32_t shared_address(const void *place) { return (uint32_t)__cvta_generic_to_shared(place); }

/* A phase is complete after `arrivals` arrivals, once all bytes that barrier_expect announced have been copied. */
static __device__ __forceinline__ void barrier_begin(int64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

/* Makes initialized barriers visible to the TMA. */
static __device__ __forceinline__ void barrier_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

/* Waits until `phases` phases are complete. */
static __device__ __forceinline__ void barrier_wait(int64_t *barrier, int phases)
{
    const uint32_t address = shared_address(barrier), parity = (uint32_t)(phases - 1) & 1;
    uint32_t over;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(address), "r"(parity) : "memory");
    } while (!over);
}

/* Arrives, and announces `bytes` bytes of TMA copies for this phase. */
static __device__ __forceinline__ void barrier_expect(int64_t *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

/* The whole warp arrives as one. */
static __device__ __forceinline__ void barrier_done(int64_t *barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}

/* Starts a TMA copy of a tensor map's box at the given coordinates, innermost axis first, to shared memory; the barrier
   counts its bytes. */
#define COPY_BOX(rank, names, parameters, ...) \
static __device__ __forceinline__ void copy_box(void *to, const TensorMap *map, int64_t *barrier, parameters) \
{ \
    asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" names "}], [%2];" \
        :: "r"(shared_address(to)), "l"((uint64_t)map), "r"(shared_address(barrier)), __VA_ARGS__ : "memory"); \
}
/* Passes a list with commas as one argument of a macro. */
#define BOTH(...) __VA_ARGS__
COPY_BOX("2d", "%3, %4", BOTH(int a, int b), "r"(a), "r"(b))
COPY_BOX("3d", "%3, %4, %5", BOTH(int a, int b, int c), "r"(a), "r"(b), "r"(c))
COPY_BOX("4d", "%3, %4, %5, %6", BOTH(int a, int b, int c, int d), "r"(a), "r"(b), "r"(c), "r"(d))
COPY_BOX("5d", "%3, %4, %5, %6, %7", BOTH(int a, int b, int c, int d, int e), "r"(a), "r"(b), "r"(c), "r"(d), "r"(e))

/* Sets the number of registers of each thread of a warpgroup, which all its warps call. */
template <int count> static __device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count)); }
template <int count> static __device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count)); }
#endif
