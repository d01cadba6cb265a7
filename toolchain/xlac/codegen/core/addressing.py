"""Addresses of elements: strides of dense tensors, and offsets of indices in flat buffers."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr, Load, Ramp, Splat, Var
from xlac_sdk.kernel_ir.sharing import walk


def row_major(shape: Sequence[Dim]) -> Shape:
    """Element strides of a dense tensor, last axis fastest."""
    return tuple(volume(tuple(shape[axis + 1 :])) for axis in range(len(shape)))


def linear(index: Index, strides: Sequence[Dim], shape: Sequence[Dim] | None = None) -> Expr:
    """The offset of an index in a flat buffer. The entry of an axis of extent 1 is ignored."""
    where: Expr = build.index(0)
    for axis, (entry, step) in enumerate(zip(index, strides, strict=True)):
        if step and (shape is None or shape[axis] != 1):
            where = build.add(where, build.mul(entry, step))
    return where


def alignment(buffer: Buffer, where: Expr) -> int:
    """The known alignment in bytes of a consecutive access; 0 for any other access."""
    if not (isinstance(where, Ramp) and where.stride == 1):
        return 0
    return gcd(build.multiple(where.base) * buffer.dtype.nbytes, buffer.align)


def loaded(exprs: Sequence[Expr]) -> bool:
    """Whether loaded values, or names of values, are among the parts of expressions."""
    return any(
        isinstance(one, Load) or (isinstance(one, Var) and one.low is None) for one in walk(exprs)
    )


def plain(index: Index) -> Index:
    """An index whose entries are scalars unless they vary over the lanes."""
    return tuple(
        [_scalar(entry) if isinstance(entry, (Splat, Const)) else entry for entry in index]
    )


def _scalar(entry: Splat | Const) -> Expr:
    if isinstance(entry, Splat):
        return entry.value
    return Const(entry.value, entry.dtype) if entry.lanes > 1 else entry


def address(buffer: Buffer, index: Expr, lanes: int, align: int) -> tuple[Expr, int]:
    """The index of an access (scalar if its elements are consecutive), lanes, and alignment."""
    if isinstance(index, Ramp) and index.stride == 1:
        return index.base, alignment(buffer, index)
    if index.lanes == 1 < lanes:
        known = gcd(build.multiple(index) * buffer.dtype.nbytes, buffer.align)
        return index, max(align, known)
    return index, align
