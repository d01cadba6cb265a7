/* Hopper's copy engine, and barriers in shared memory that count its bytes.

   A barrier's phases end one after the other; whoever waits says how many have to be over, and is never more than one
   behind. Off a GPU these are the tests' own. */
#ifdef __CUDACC__
struct __align__(64) TensorMap { uint64_t words[16]; };

static __device__ __forceinline__ uint32_t shared_address(const void *place) { return (uint32_t)__cvta_generic_to_shared(place); }

/* A phase ends at so many arrivals, when the bytes that they said to expect have come. */
static __device__ __forceinline__ void barrier_begin(int64_t *barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

/* What has begun is there for the copy engine. */
static __device__ __forceinline__ void barrier_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

static __device__ __forceinline__ void barrier_wait(int64_t *barrier, int phases)
{
    const uint32_t address = shared_address(barrier), parity = (uint32_t)(phases - 1) & 1;
    uint32_t over;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(address), "r"(parity) : "memory");
    } while (!over);
}

static __device__ __forceinline__ void barrier_expect(int64_t *barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

/* One arrival of a whole warp. */
static __device__ __forceinline__ void barrier_done(int64_t *barrier)
{
    __syncwarp();
    if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(barrier)) : "memory");
}

/* Begins to copy the box at a place, innermost axis first; its bytes count on the barrier. */
#define COPY_BOX(rank, names, parameters, ...) \
static __device__ __forceinline__ void copy_box(void *to, const TensorMap *map, int64_t *barrier, parameters) \
{ \
    asm volatile("cp.async.bulk.tensor." rank ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {" names "}], [%2];" \
        :: "r"(shared_address(to)), "l"((uint64_t)map), "r"(shared_address(barrier)), __VA_ARGS__ : "memory"); \
}
#define BOTH(...) __VA_ARGS__
COPY_BOX("2d", "%3, %4", BOTH(int a, int b), "r"(a), "r"(b))
COPY_BOX("3d", "%3, %4, %5", BOTH(int a, int b, int c), "r"(a), "r"(b), "r"(c))
COPY_BOX("4d", "%3, %4, %5, %6", BOTH(int a, int b, int c, int d), "r"(a), "r"(b), "r"(c), "r"(d))
COPY_BOX("5d", "%3, %4, %5, %6, %7", BOTH(int a, int b, int c, int d, int e), "r"(a), "r"(b), "r"(c), "r"(d), "r"(e))

/* How many registers a thread of this group of warps has from now on. */
template <int count> static __device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count)); }
template <int count> static __device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count)); }
#endif
