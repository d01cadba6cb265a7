"""The primitives that the C text spells itself, the legalization of programs to those, and shared
functions for expansions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.coutlined import function_text
from xlac_sdk.emit.ctext import C99, Dialect
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.lowering.outline import outline
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.rewrite import with_kernels
from xlac_sdk.target import Request, Target

P = Primitive
FLOATS = (DType.F32, DType.F64)
# 1 / (1 + exp(-x)) loses precision for small results; ldexp() is slow
NATIVE = frozenset(Primitive) - {P.SIGMOID, P.GELU, P.LDEXP, P.DOT4, P.DOT2, P.LOOKUP}
FUNCTIONS = (
    P.REM, P.FLOOR, P.CEIL, P.TRUNC, P.ROUND, P.ABS, P.SQRT, P.RSQRT, P.EXP, P.LOG, P.SIN, P.COS,
    P.POW, P.EXP2, P.EXPM1, P.LOG2, P.LOG1P, P.TANH, P.ERF, P.ATAN2,
)  # fmt: skip
OWN = (P.SIGMOID, P.GELU)  # primitives of C's math library that are not used
# primitives of C's math library
LIBM = frozenset((p, d) for p in (*FUNCTIONS, P.FMA) for d in DType if d.is_float)
SLOW = frozenset((P.FMA, d) for d in DType)  # a call of fma() is slow without the instruction
PORTABLE = replace(C99, index="ptrdiff_t", language="c")


def target(request: Request) -> Target:
    """A generic target: the C compiler chooses the machine, and schedules are for the hardware
    that the user describes.
    """
    made = Target(
        "c",
        primitives=NATIVE,
        lacks=SLOW,
        size=request.size,
        vectorizes=True,
        collectives=True,
        languages=frozenset({PORTABLE.language}),
    )
    return made.with_given(request)


@dataclass(frozen=True, slots=True, eq=False)
class LoweredForC:
    """A program in the primitives of `dialect`, and the text of functions that its spellings call
    beyond those of the SDK.
    """

    program: Program
    dialect: Dialect
    functions: Mapping[str, str]
    libm: bool


def lowered(
    program: Program, target: Target, libm: bool = True, dialect: Dialect = PORTABLE
) -> LoweredForC:
    """The program in primitives that the text spells: without `libm`, only those that need no
    library.

    For small code an expansion is a function, called wherever it is needed.
    """
    fast = program.facts.get("precision") == "fast"
    own = target if libm else replace(target, lacks=target.lacks | LIBM)
    if not target.size:
        return LoweredForC(
            with_kernels(program, lambda k: legalize(k, own, fast)), dialect, {}, libm
        )
    shared = OWN if libm else (*FUNCTIONS, *OWN)
    calls = replace(target, primitives=target.primitives | set(shared))
    texts = {
        f"{p.value}_{d.value}": function_text(outline(p, d, 1, own, fast), dialect, "static")
        for p in shared
        for d in FLOATS
    }
    spelled = {
        p: f"{p.value}_{{d}}({', '.join(f'{{{i}}}' for i in range(p.arity))})" for p in shared
    }
    small = replace(dialect, floats={**dialect.floats, **spelled})
    return LoweredForC(
        with_kernels(program, lambda k: legalize(k, calls, fast)), small, texts, libm
    )
