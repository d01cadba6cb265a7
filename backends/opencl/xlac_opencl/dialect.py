"""OpenCL C as a dialect of the SDK's C-family text."""

from __future__ import annotations

from dataclasses import replace

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.catomics import WordSwaps
from xlac_sdk.emit.cdialect import C99, FLOATS, INTEGERS
from xlac_sdk.kernel_ir.kernel import Space
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
TYPES = {
    DType.F64: "double", DType.F32: "float", DType.F16: "ushort", DType.BF16: "ushort",
    DType.I8: "char", DType.I16: "short", DType.I32: "int", DType.I64: "long",
    DType.U8: "uchar", DType.U16: "ushort", DType.U32: "uint", DType.U64: "ulong",
    DType.BOOL: "uchar",
}  # fmt: skip
# functions whose results OpenCL promises to be those of kernel IR; the SDK expands the others, and
# fmod: that of double8 on pocl 3.1 is wrong in lanes beside an infinite one
EXACT = {
    P.FLOOR: "floor({0})", P.CEIL: "ceil({0})", P.TRUNC: "trunc({0})",
    P.ROUND: "rint({0})", P.ABS: "fabs({0})", P.FMA: "fma({0}, {1}, {2})", P.SQRT: "sqrt({0})",
}  # fmt: skip
PLAIN = (P.ADD, P.SUB, P.MUL, P.DIV, P.NEG, P.LT, P.LE, P.EQ, P.NE, P.SELECT, P.MAX, P.MIN)
OPENCL = replace(
    C99,
    name="OpenCL C",
    types=TYPES,
    floats={**{p: FLOATS[p] for p in PLAIN}, **EXACT},
    integers={**INTEGERS, P.POPCNT: "popcount({0})", P.CLZ: "clz({0})"},
    index="int",
    restrict="restrict",
    renames=True,
    kernel="{}_kernel",
    size="long",
    spaces={Space.GLOBAL: "__global ", Space.SHARED: "__local "},
    offset="long",
    bitcast="as_{t}({0})",
    half="half",
    vector="typedef struct {{ {type} lane[{lanes}]; }} __attribute__((aligned({align}))) {name};",
    native=(2, 4, 8, 16),
    widest=16,
    unroll="#pragma unroll",
    block="get_group_id(0)",
    thread="get_local_id(0)",
    barrier="barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
    exchange="exchange_{d}({0}, {1}, {scratch})",
    scratch="__local ulong {name}[{threads}];",
    shared="__local {type} {name}[{size}] __attribute__((aligned({align})));",
    most_shared=1 << 30,
    atomic="atomic_{p}_{space}_{d}(&{place}, {value})",
    language="cl",
)
SUBGROUPS = replace(OPENCL, exchange="intel_sub_group_shuffle_xor({0}, {1})", scratch="")
ATOMIC = (P.ADD, P.AND, P.OR, P.XOR, P.MAX, P.MIN)
SWAPS = WordSwaps(
    {32: "atomic_cmpxchg({0}, {1}, {2})", 64: "atom_cmpxchg({0}, {1}, {2})"},
    {32: "uint", 64: "ulong"},
    direct={
        (p, d): f"atomic_{p.value}({{0}}, {{1}})" for p in ATOMIC for d in (DType.I32, DType.U32)
    },
)
