"""Context-free rules of expressions: types, lanes and constants. `verify.py` checks each expression
once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Apply,
    Const,
    Exchange,
    Expr,
    Fold,
    Load,
    Ramp,
    Shuffle,
    Space,
    Splat,
)
from xlac_sdk.kernel_ir.primitives import TRANSCENDENTAL, Primitive, operand_dtypes, result_dtype
from xlac_sdk.kernel_ir.semantics import FOLDABLE

P = Primitive
_BITS = frozenset({P.AND, P.OR, P.XOR, P.NOT})
_WHOLE = _BITS | {P.SHL, P.SHR, P.POPCNT, P.CLZ}  # not defined on floats
_FLOATS = (TRANSCENDENTAL - {P.POW}) | {P.FLOOR, P.CEIL, P.TRUNC, P.ROUND, P.SQRT, P.FMA, P.LDEXP}
# operations on 16-bit floats besides loads and stores
_ANY = frozenset({P.SELECT, P.CAST, P.BITCAST})
_BOOLS = _BITS | {P.LT, P.LE, P.EQ, P.NE, P.MAX, P.MIN, P.SELECT, P.CAST}
_RANGES = {
    d: (-(1 << (d.bits - 1)), 1 << (d.bits - 1)) if d.is_signed else (0, 1 << d.bits)
    for d in DType
    if d.is_integer
}


def fault(expr: Expr) -> str | None:
    """What is wrong with an expression itself, without its operands; None if nothing is."""
    if expr.lanes < 1:
        return "an expression has no lanes"
    check = _CHECKS.get(type(expr))
    return None if check is None else check(expr)


def index_fault(name: str, index: Expr, lanes: int, mask: Expr | None) -> str | None:
    """What is wrong with an access of `lanes` lanes to a buffer."""
    if not index.dtype.is_integer:
        return f"the index into '{name}' is a {index.dtype}"
    if index.lanes not in (1, lanes):
        return f"'{name}' is indexed by {index.lanes} lanes for {lanes}"
    if mask is not None and (mask.dtype is not DType.BOOL or mask.lanes != lanes):
        return f"the mask of an access to '{name}' is not {lanes} lanes of bool"
    return None


@cache
def operand_fault(primitive: Primitive, dtype: DType) -> str | None:
    """Why a primitive does not support a type; None if it does."""
    if dtype.is_half and primitive not in _ANY:
        return f"'{primitive.value}' of {dtype}: halves are cast to f32 first"
    if primitive is P.DOT4:
        wrong = dtype not in (DType.I32, DType.U32)
    elif primitive is P.DOT2:
        wrong = dtype is not DType.I32
    elif primitive is P.LOOKUP:
        wrong = not dtype.is_float
    elif dtype is DType.BOOL:
        wrong = primitive not in _BOOLS
    elif dtype.is_float:
        wrong = primitive in _WHOLE
    else:
        wrong = primitive in _FLOATS
    return f"'{primitive.value}' of {dtype}" if wrong else None


# ---- by kind of expression -----------------------------------------------------------------------


def _apply(expr: Apply) -> str | None:
    primitive, operands, lanes = expr.primitive, expr.operands, expr.lanes
    if len(operands) != primitive.arity:
        return f"'{primitive.value}' is given {len(operands)} operands"
    for operand in operands:
        if operand.lanes != lanes and primitive is not P.BITCAST:
            return f"'{primitive.value}' meets operands of other lanes"
    if primitive is P.BITCAST:
        return _bits(operands[0], expr)
    return _types(primitive, tuple([operand.dtype for operand in operands]), expr.dtype)


def _bits(value: Expr, expr: Apply) -> str | None:
    """What is wrong with a bitcast: it has other bits, or those of bools, which have none."""
    whole = value.lanes * value.dtype.bits == expr.lanes * expr.dtype.bits
    if whole and DType.BOOL not in (value.dtype, expr.dtype):
        return None
    return f"{value.lanes} x {value.dtype} has no bits of {expr.lanes} x {expr.dtype}"


@cache
def _types(primitive: Primitive, kinds: tuple[DType, ...], result: DType) -> str | None:
    """What is wrong with the types of a conversion."""
    first = kinds[0]
    if primitive is P.SELECT:
        if first is not DType.BOOL:
            return "the condition of a select is not bool"
        return None if kinds[1] is kinds[2] is result else "the branches of a select differ in type"
    if primitive is P.CAST:
        return None
    if kinds != operand_dtypes(primitive, first):
        return f"'{primitive.value}' meets {', '.join(kind.value for kind in kinds)}"
    if result is not result_dtype(primitive, kinds):
        return f"'{primitive.value}' of {first} is said to be {result}"
    return operand_fault(primitive, first)


def _const(expr: Const) -> str | None:
    value, dtype = expr.value, expr.dtype
    if dtype.is_float:
        fine = isinstance(value, (int, float))
    elif dtype is DType.BOOL:
        fine = value in (0, 1)
    else:
        low, end = _RANGES[dtype]
        fine = isinstance(value, int) and low <= value < end
    return None if fine else f"{value!r} is not a {dtype}"


def _ramp(expr: Ramp) -> str | None:
    fine = expr.base.dtype.is_integer and expr.base.lanes == 1
    return None if fine else "the base of a ramp is not a scalar integer"


def _splat(expr: Splat) -> str | None:
    return None if expr.value.lanes == 1 else "a splat of a vector"


def _load(expr: Load) -> str | None:
    buffer = expr.buffer
    if buffer.space is Space.GLOBAL and buffer.access is Access.WRITE:
        return f"'{buffer.name}' is only written, but read"
    return index_fault(buffer.name, expr.index, expr.lanes, expr.mask)


def _fold(expr: Fold) -> str | None:
    if expr.primitive not in FOLDABLE:
        return f"'{expr.primitive.value}' cannot fold lanes"
    return operand_fault(expr.primitive, expr.value.dtype)


def _shuffle(expr: Shuffle) -> str | None:
    if len({v.dtype for v in expr.values}) != 1 or not 1 <= len(expr.values) <= 2:
        return "a shuffle of unequal types"
    total = sum(v.lanes for v in expr.values)
    fine = bool(expr.picks) and min(expr.picks) >= 0 and max(expr.picks) < total
    return None if fine else "a shuffle picks a lane that is not there"


def _exchange(expr: Exchange) -> str | None:
    return None if expr.distance > 0 else "an exchange over no distance"


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    Apply: _apply, Const: _const, Ramp: _ramp, Splat: _splat, Load: _load, Fold: _fold,
    Shuffle: _shuffle, Exchange: _exchange,
}  # fmt: skip
