"""Contractions of bytes in words: four products of a sum form one step, computed by one
instruction.

A step reads four consecutive bytes of the left operand, and a word in which the four bytes of the
right operand were packed, at compile time or before the product.
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


def in_words(c: Contraction) -> Contraction:
    """The contraction with words as steps."""
    *others, last = c.inner
    steps = Axis(last.extent // BYTES, BYTES, last.right * BYTES, last.along)
    right = replace(c.right, dtype=DType.I32)
    return replace(c, inner=(*others, steps), right=right, word=last.right)


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


def words(x: Array) -> Array:
    """Bytes of shape (…, steps, columns) as i32 words of shape (…, steps / 4, columns)."""
    *around, steps, columns = x.shape
    parts = x.reshape(*around, steps // BYTES, BYTES, columns)
    packed = np.ascontiguousarray(np.moveaxis(parts, -2, -1)).view("<i4")[..., 0]
    return packed.astype(np.int32, copy=False)
