"""Expansions as separate functions, called wherever they are needed, for small code."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Access, Apply, Buffer, Const, Kernel, Store, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.target import Target

P = Primitive
LONG = (
    P.REM, P.FLOOR, P.CEIL, P.TRUNC, P.ROUND, P.SQRT, P.RSQRT, P.EXP, P.LOG, P.SIN, P.COS, P.POW,
    P.EXP2, P.EXPM1, P.LOG2, P.LOG1P, P.TANH, P.ERF, P.ATAN2, P.SIGMOID, P.GELU,
)  # fmt: skip
"""Primitives on floats whose expansion is longer than a call."""


def outline(
    primitive: Primitive, dtype: DType, lanes: int, target: Target, fast: bool = False
) -> Kernel:
    """A primitive's expansion for `target` as a kernel: its sizes are the operands, and its last
    statement stores the return value.
    """
    operands = tuple(Var(name, dtype, lanes) for name in ("x", "y")[: primitive.arity])
    result = Buffer("result", dtype, lanes, access=Access.WRITE)
    store = Store(result, Const(0, DType.I64), Apply(primitive, operands, dtype, lanes))
    return legalize(
        Kernel(f"{primitive.value}_{dtype.value}", (result,), (store,), operands), target, fast
    )
