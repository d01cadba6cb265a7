"""Which primitives the C text spells itself, and a program in those."""

from __future__ import annotations

from dataclasses import replace

from xlac_sdk.dtypes import DType
from xlac_sdk.legalize import legalize
from xlac_sdk.primitives import Primitive
from xlac_sdk.program import Program
from xlac_sdk.rewrite_program import with_kernels
from xlac_sdk.target import Request, Target

P = Primitive
NATIVE = frozenset(Primitive) - {P.SIGMOID}  # 1 / (1 + exp(-x)) loses the small results
FUNCTIONS = (
    P.REM, P.FLOOR, P.CEIL, P.TRUNC, P.ROUND, P.ABS, P.FMA, P.SQRT, P.RSQRT, P.EXP, P.LOG, P.SIN, P.COS, P.POW, P.EXP2,
    P.EXPM1, P.LOG2, P.LOG1P, P.TANH, P.ERF, P.ATAN2,
)  # fmt: skip
LIBM = frozenset((p, d) for p in FUNCTIONS for d in DType if d.is_float)  # what the mathematics library is called for
SLOW = frozenset((P.FMA, d) for d in DType)  # a call of fma() without the instruction is slow


def target(request: Request) -> Target:
    """Any machine: what the compiler that builds the file aims at."""
    return Target("c", primitives=NATIVE, lacks=SLOW, size=request.size)


def lowered(program: Program, target: Target, libm: bool = True) -> Program:
    """The program in primitives that the text spells: without `libm`, only those that need no library."""
    if not libm:
        target = replace(target, lacks=target.lacks | LIBM)
    fast = program.facts.get("precision") == "fast"
    return with_kernels(program, lambda kernel: legalize(kernel, target, fast))
