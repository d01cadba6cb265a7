"""Contractions of bytes and of i16 in words: the products of a word, four or two, form one step of
a sum, computed by one instruction.

A step reads the consecutive elements of a word of the left operand, and a word in which those of
the right operand were packed, at compile time or before the product (i16: at compile time). Where
there are so few columns that they fill half a vector, a step may take two words of each: the even
lanes of a vector add the first, the odd lanes the second, and pairs of lanes are added at the end.
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
WORDS = {**SIGNS, DType.I16: DType.I32}  # and of i16
COUNTS = {DType.I32: 1, DType.I64: 2}  # words of a step, by the type in which they are packed


def multiply_words(left: DType, right: DType, target: Target) -> bool:
    """Whether the target has an instruction that adds the products of two words: of bytes, the
    right ones signed, or of i16.
    """
    if left is DType.I16:
        return right is DType.I16 and target.spells(Primitive.DOT2, DType.I32)
    word = SIGNS.get(left)
    return word is not None and right is DType.I8 and target.spells(Primitive.DOT4, word)


def able(c: Contraction, target: Target) -> bool:
    """Whether words of a contraction are adjacent along the sum, with the right operand in memory,
    and the target has the instruction.
    """
    last = c.inner[-1]
    return (
        multiply_words(c.left.dtype, c.right.dtype, target)
        and not c.left.computed
        and not c.right.computed
        and (c.right.constant or c.right.dtype is DType.I8)
        and c.accumulate is DType.I32
        and last.left == 1
        and divisor(last.extent) % count(c.left.dtype) == 0
    )


def count(dtype: DType) -> int:
    """The elements of a word."""
    return BYTES // dtype.nbytes


def in_words(c: Contraction, dtype: DType = DType.I32) -> Contraction:
    """The contraction with steps of one word, or of the two that an i64 has."""
    *others, last = c.inner
    size = count(c.left.dtype) * COUNTS[dtype]
    steps = Axis(last.extent // size, size, last.right * size, last.along)
    right = replace(c.right, dtype=dtype)
    return replace(c, inner=(*others, steps), right=right, word=last.right, words=COUNTS[dtype])


def paired(c: Contraction, lanes: int, target: Target) -> bool:
    """Whether steps of a contraction can take two words of each of `lanes` columns: a
    vector has room for both, and the right operand is packed at compile time.
    """
    whole = divisor(c.inner[-1].extent) % (2 * count(c.left.dtype)) == 0
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


def words(x: Array, many: int = 1) -> Array:
    """Bytes of shape (…, steps, columns) as i32 words of shape (…, steps / 4, columns), i16 of
    (…, steps / 2, columns); or as i64 that have two words each.
    """
    *around, steps, columns = x.shape
    size = BYTES * many // x.itemsize
    parts = x.reshape(*around, steps // size, size, columns)
    little = np.ascontiguousarray(np.moveaxis(parts, -2, -1)).astype(f"<i{x.itemsize}", copy=False)
    packed = little.view(f"<i{BYTES * many}")[..., 0]
    return packed.astype(f"i{BYTES * many}", copy=False)
