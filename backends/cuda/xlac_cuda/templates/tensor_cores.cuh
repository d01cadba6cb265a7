/* Matrix products of a warp on tensor cores (ldmatrix, mma).

   A tile in shared memory has rows of 16-byte chunks. They are swizzled: the number of a chunk is combined with bits of
   the row's number by exclusive or, so that loads have no bank conflicts. A row of a tile is one row of a (one column of
   b), along the contracted axis. If the operand is `turned`, a row is one element of the contracted axis. In tests on a
   CPU each thread computes its own results in C. */
#ifdef __CUDACC__
#pragma nv_diag_suppress 177 /* unused functions: those for types that no kernel here uses */
#endif
/* Where chunk `number` of a row is stored, in tiles with rows of `chunks` chunks. */
template <int chunks> struct Swizzle {
    static constexpr int used = chunks < 8 ? chunks : 8;
    static constexpr int shift = used == 8 ? 0 : used == 4 ? 1 : used == 2 ? 2 : 3;
    static __device__ __forceinline__ int chunk(int row, int number) { return number ^ ((row >> shift) & (used - 1)); }
};

/* A product type: elements in shared memory, sums, and `add`, which is d += a b for the fragments of one mma. */
struct Bf16Product {
    typedef uint16_t element;
    typedef float total;
    static __device__ __forceinline__ float value(uint16_t bits) { return f32_of_bf16(bits); }
#ifdef __CUDACC__
    static __device__ __forceinline__ void add(float *d, const uint32_t *a, const uint32_t *b)
    {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#endif
};

struct F16Product {
    typedef uint16_t element;
    typedef float total;
    static __device__ __forceinline__ float value(uint16_t bits) { return f32_of_f16(bits); }
#ifdef __CUDACC__
    static __device__ __forceinline__ void add(float *d, const uint32_t *a, const uint32_t *b)
    {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#endif
};

struct Tf32Product {
    typedef float element;
    typedef float total;
    static __device__ __forceinline__ float value(float given)
    {
        return bitcast_u32_f32((bitcast_f32_u32(given) + 0x1000u) & 0xffffe000u);
    }
#ifdef __CUDACC__
    static __device__ __forceinline__ uint32_t rounded(uint32_t bits)
    {
        uint32_t result;
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(__uint_as_float(bits)));
        return result;
    }
    static __device__ __forceinline__ void add(float *d, const uint32_t *a, const uint32_t *b)
    {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(rounded(a[0])), "r"(rounded(a[1])), "r"(rounded(a[2])), "r"(rounded(a[3])), "r"(rounded(b[0])), "r"(rounded(b[1])));
    }
#endif
};

struct I8Product {
    typedef int8_t element;
    typedef int32_t total;
    static __device__ __forceinline__ int32_t value(int8_t given) { return given; }
#ifdef __CUDACC__
    static __device__ __forceinline__ void add(int32_t *d, const uint32_t *a, const uint32_t *b)
    {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#endif
};

#ifdef __CUDACC__
/* Loads four 8 x 8 matrices of 16-bit elements, transposed if `turned`; each thread gives the address of one row. */
template <bool turned> static __device__ __forceinline__ void load_fragments(uint32_t *to, const void *row)
{
    const uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    if (turned)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address));
}
#endif

/* sums += a b for 32 bytes of the contracted axis from element `step` on. The warp computes `down` x `across` tiles of
   16 x 8 results, beginning at row `a_first` and column `b_first`; a thread holds four results of each tile. Rows of the
   tiles in shared memory have `left` and `right` elements. */
template <typename P, int down, int across, int left, int right, bool left_turned, bool right_turned>
static __device__ __forceinline__ void multiply_warp(
    typename P::total *sums, const typename P::element *a, int a_first, const typename P::element *b, int b_first, int step)
{
    constexpr int chunk = 16 / (int)sizeof(typename P::element);
    typedef Swizzle<left / chunk> A;
    typedef Swizzle<right / chunk> B;
    const int lane = (int)threadIdx.x % 32;
#ifdef __CUDACC__
    const int low = lane & 15, high = lane >> 4, turned = (lane & 7) + (high << 3), second = (lane >> 3) & 1;
    uint32_t rows[down][4], columns[(across + 1) / 2][4];
    #pragma unroll
    for (int i = 0; i < down; ++i) {
        const int row = left_turned ? step + turned : a_first + i * 16 + low;
        const int number = left_turned ? (a_first + i * 16) / chunk + second : step / chunk + high;
        load_fragments<left_turned>(rows[i], a + row * left + A::chunk(row, number) * chunk);
    }
    #pragma unroll
    for (int j = 0; j < across; j += 2) {
        const int row = right_turned ? step + low : b_first + j * 8 + turned;
        const int number = right_turned ? (b_first + j * 8) / chunk + high : step / chunk + second;
        load_fragments<right_turned>(columns[j / 2], b + row * right + B::chunk(row, number) * chunk);
    }
    #pragma unroll
    for (int i = 0; i < down; ++i)
        #pragma unroll
        for (int j = 0; j < across; ++j) P::add(sums + (i * across + j) * 4, rows[i], columns[j / 2] + j % 2 * 2);
#else
    for (int number = 0; number < down * across * 4; ++number) {
        const int tile = number / 4, row = a_first + tile / across * 16 + lane / 4 + number % 4 / 2 * 8;
        const int column = b_first + tile % across * 8 + lane % 4 * 2 + number % 2;
        for (int k = step; k < step + 2 * chunk; ++k) {
            const int x = left_turned ? k * left + A::chunk(k, row / chunk) * chunk + row % chunk
                                      : row * left + A::chunk(row, k / chunk) * chunk + k % chunk;
            const int w = right_turned ? k * right + B::chunk(k, column / chunk) * chunk + column % chunk
                                       : column * right + B::chunk(column, k / chunk) * chunk + k % chunk;
            sums[number] += P::value(a[x]) * P::value(b[w]);
        }
    }
#endif
}
