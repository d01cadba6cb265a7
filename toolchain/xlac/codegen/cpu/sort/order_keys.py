"""Sort keys as integers that vectors compare: a greater key sorts first, and equal elements have
equal keys.
"""

from __future__ import annotations

from xlac.ops.reduction.order import Sort
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


def has_order_key(op: Sort) -> bool:
    """Whether a single integer per element represents its order."""
    return op.body is None and op.keys == 1


def key_dtype(dtype: DType) -> DType:
    """The signed integer type of the keys of an element type."""
    return DType.I64 if dtype.compute.nbytes == 8 else DType.I32


def least(dtype: DType) -> int:
    """The key that sorts last."""
    return -(1 << (8 * dtype.nbytes - 1))


def order_key(builder: Builder, op: Sort, value: Expr) -> Expr:
    """The key of an element, given in its compute type; a greater key sorts first."""
    kind = key_dtype(value.dtype)
    key = _ascending(builder, value, kind)
    if not op.descending:
        key = build.apply(P.XOR, key, Const(-1, kind))
    return builder.let("key", key)


def _ascending(builder: Builder, value: Expr, kind: DType) -> Expr:
    dtype = value.dtype
    if dtype.is_float:
        bits = builder.let("bits", build.apply(P.BITCAST, value, dtype=kind))
        # the bits of negative floats are in reverse order
        sign = build.apply(P.SHR, bits, Const(8 * kind.nbytes - 1, kind))
        key = build.apply(P.XOR, bits, build.apply(P.AND, sign, Const(~least(kind), kind)))
        zero = build.apply(P.EQ, value, Const(0.0, dtype))
        key = build.select(zero, Const(0, kind), key)
        number = build.apply(P.EQ, value, value)
        return build.select(number, key, Const(~least(kind), kind))
    if dtype.is_signed or dtype.nbytes < kind.nbytes:
        return build.cast(value, kind)
    return build.apply(P.XOR, build.apply(P.BITCAST, value, dtype=kind), Const(least(kind), kind))
