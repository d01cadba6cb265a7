"""Contractions of bytes in words: four products of a sum form one step, computed by one
instruction.

A step reads four consecutive bytes of the left operand, and a word in which the four bytes of the
right operand were packed, at compile time or before the product. Where there are so few columns
that they fill half a vector, a step may take two words of each: the even lanes of a vector add the
first, the odd lanes the second, and pairs of lanes are added at the end.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xlac.codegen.core.contraction.contraction import Axis, Contraction
from xlac.ir.dims import Dim, divisor
from xlac.ir.op import Array
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

BYTES = 4  # bytes per word
SIGNS = {DType.U8: DType.U32, DType.I8: DType.I32}  # the word type of each byte type
COUNTS = {DType.I32: 1, DType.I64: 2}  # words of a step, by the type in which they are packed


def able(c: Contraction, target: Target) -> bool:
    """Whether a contraction is of bytes that are adjacent along the sum, with the right ones signed
    and in memory, and the target has the instruction.
    """
    word = SIGNS.get(c.left.dtype)
    last = c.inner[-1]
    return (
        word is not None
        and c.right.dtype is DType.I8
        and not c.left.computed
        and not c.right.computed
        and c.accumulate is DType.I32
        and target.spells(Primitive.DOT4, word)
        and last.left == 1
        and divisor(last.extent) % BYTES == 0
    )


def in_words(c: Contraction, dtype: DType = DType.I32) -> Contraction:
    """The contraction with steps of one word, or of the two that an i64 has."""
    *others, last = c.inner
    size = BYTES * COUNTS[dtype]
    steps = Axis(last.extent // size, size, last.right * size, last.along)
    right = replace(c.right, dtype=dtype)
    return replace(c, inner=(*others, steps), right=right, word=last.right, words=COUNTS[dtype])


def paired(c: Contraction, lanes: int, target: Target) -> bool:
    """Whether steps of a contraction of bytes can take two words of each of `lanes` columns: a
    vector has room for both, and the right operand is packed at compile time.
    """
    whole = divisor(c.inner[-1].extent) % (2 * BYTES) == 0
    return whole and c.right.constant and 2 * lanes <= target.lanes(c.accumulate)


def joined(total: Expr) -> Expr:
    """The sums of the pairs of lanes of a vector i32."""
    pairs = build.bits(total, DType.I64)
    upper = build.apply(Primitive.SHR, pairs, Const(32, DType.I64, pairs.lanes))
    return build.cast(build.apply(Primitive.ADD, pairs, upper), DType.I32)


def loaded(buffer: Buffer, where: Expr, apart: Dim, columns: Dim, lanes: int) -> Expr:
    """Words of `lanes` adjacent columns starting at the byte `where`; the bytes of a word are
    `apart` bytes apart, columns are `columns` apart.
    """
    if apart == 1 and (lanes == 1 or columns == BYTES):
        return build.bits(build.load(buffer, where, BYTES * lanes), DType.I32)
    index = build.mul(build.ramp(0, 1, lanes), columns) if lanes > 1 else build.index(0)
    total: Expr | None = None
    for place in range(BYTES):
        at = build.add(build.add(where, build.mul(build.lift(apart), place)), index)
        byte = build.cast(build.bits(build.load(buffer, at), DType.U8), DType.I32)
        moved = build.apply(Primitive.SHL, byte, Const(8 * place, DType.I32, lanes))
        total = moved if total is None else build.apply(Primitive.OR, total, moved)
    assert total is not None
    return total


def words(x: Array, count: int = 1) -> Array:
    """Bytes of shape (…, steps, columns) as i32 words of shape (…, steps / 4, columns), or as i64
    that have two of them each.
    """
    *around, steps, columns = x.shape
    size = BYTES * count
    parts = x.reshape(*around, steps // size, size, columns)
    packed = np.ascontiguousarray(np.moveaxis(parts, -2, -1)).view(f"<i{size}")[..., 0]
    return packed.astype(f"i{size}", copy=False)
