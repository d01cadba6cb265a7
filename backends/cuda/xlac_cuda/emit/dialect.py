"""CUDA C++ as a dialect of the SDK's C-family text."""

from __future__ import annotations

from dataclasses import replace

from xlac_cuda.emit.instructions import HOPPER, INSTRUCTIONS
from xlac_sdk.emit.cdialect import FLOATS, INTEGERS, KEYWORDS
from xlac_sdk.emit.ctext import C99
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
# bytes of static shared memory; a kernel with more uses dynamic shared memory
STATIC_SHARED = 48 << 10
RESERVED = frozenset(
    """threadIdx blockIdx blockDim gridDim warpSize constexpr char8_t co_await co_return
    co_yield concept requires consteval constinit final override import module
    static_cast const_cast dynamic_cast reinterpret_cast typeid typeof decltype""".split()
)

CUDA = replace(
    C99,
    name="CUDA",
    floats={**FLOATS, P.RSQRT: "rsqrt{f}({0})"},
    integers={**INTEGERS, P.POPCNT: "popcnt_{d}({0})", P.CLZ: "clz_{d}({0})"},
    index="int",
    restrict="__restrict__",
    reserved=KEYWORDS | RESERVED,
    kernel="{}_kernel",
    size="int64_t",
    language="cu",
    helper="static __device__ void",
    vector="struct __align__({align}) {name} {{ {type} lane[{lanes}]; }};",
    widest=16,
    unroll="#pragma unroll",
    block="blockIdx.x",
    thread="threadIdx.x",
    barrier="__syncthreads()",
    exchange="exchange_{d}({0}, {1})",
    shared="__shared__ __align__({align}) {type} {name}[{size}];",
    pool="extern __shared__ __align__({align}) unsigned char {name}[];",
    most_shared=STATIC_SHARED,
    tensor_map="const __grid_constant__ TensorMap {name}",
    atomic="atomic_{p}_{d}(&{place}, {value})",
    instructions={**INSTRUCTIONS, **HOPPER},
)
