"""Expansions as separate functions, called wherever they are needed: for small code, and where a
kernel would else have the same long expansion many times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Apply,
    Buffer,
    Const,
    Expansion,
    Kernel,
    Store,
    Var,
    statements,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.target import Target

P = Primitive
LONG = (
    P.REM, P.FLOOR, P.CEIL, P.TRUNC, P.ROUND, P.SQRT, P.RSQRT, P.EXP, P.LOG, P.SIN, P.COS, P.POW,
    P.EXP2, P.EXPM1, P.LOG2, P.LOG1P, P.TANH, P.ERF, P.ATAN2, P.SIGMOID, P.GELU,
)  # fmt: skip
"""Primitives on floats whose expansion is longer than a call."""

FEW = 8  # uses of a primitive in a kernel that are still expanded where they are
Called = tuple[Primitive, DType]


def outline(
    primitive: Primitive, dtype: DType, lanes: int, target: Target, fast: bool = False
) -> Kernel:
    """A primitive's expansion for `target` as a kernel: its sizes are the operands, and its last
    statement stores the return value.
    """
    operands = tuple(Var(name, dtype, lanes) for name in ("x", "y")[: primitive.arity])
    result = Buffer("result", dtype, lanes, access=Access.WRITE)
    store = Store(result, Const(0, DType.I64), Apply(primitive, operands, dtype, lanes))
    name = f"{primitive.value}_{dtype.value}{f'x{lanes}' if lanes > 1 else ''}"
    return legalize(Kernel(name, (result,), (store,), operands), target, fast)


def calling(target: Target, calls: AbstractSet[Called]) -> Target:
    """The target, with primitives that it lacks listed as native, to be spelled as calls."""
    called = {primitive for primitive, _ in calls}
    others = {(p, d) for p in called - target.primitives for d in DType} - calls
    return replace(
        target, primitives=target.primitives | called, lacks=(target.lacks - calls) | others
    )


def with_functions(kernel: Kernel, target: Target, fast: bool) -> Kernel:
    """The kernel in the target's primitives; expansions that it uses more than a few times are
    functions that it calls.
    """
    uses = Counter((primitive, dtype) for primitive, dtype, _ in long_primitives(kernel))
    calls = {one for one, count in uses.items() if count > FEW and not target.spells(*one)}
    if not calls:
        return legalize(kernel, target, fast)
    legal = legalize(kernel, calling(target, calls), fast)
    called = dict.fromkeys(one for one in long_primitives(legal) if one[:2] in calls)
    # a vector that the language lacks is written lane by lane
    called |= {(primitive, dtype, 1): None for primitive, dtype, _ in called}
    functions = (Expansion(one[0], outline(*one, target, fast)) for one in called)
    return replace(legal, functions=tuple(functions))


def long_primitives(kernel: Kernel) -> Iterator[tuple[Primitive, DType, int]]:
    """The long primitives of floats that a kernel uses, the type they are computed in, and their
    lanes; each as often as it is used.
    """
    for stmt in statements(kernel.body):
        for expr in walk(roots(stmt)):
            if isinstance(expr, Apply) and expr.primitive in LONG:
                dtype = expr.operands[0].dtype
                if dtype.is_float:
                    yield expr.primitive, dtype.compute, expr.lanes
