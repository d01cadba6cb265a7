"""Contractions of bytes, by words: four products of a sum are one step, for which machines have an
instruction.

A step reads four consecutive bytes of the left operand, and a word in which the four bytes of the
right operand were packed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from xlac.codegen.core.contraction.contraction import Axis, Contraction
from xlac.ir.dims import divisor
from xlac.ir.op import Array
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

BYTES = 4  # of a word
SIGNS = {DType.U8: DType.U32, DType.I8: DType.I32}  # the words of bytes


def able(c: Contraction, target: Target) -> bool:
    """Whether a contraction is of bytes that are neighbours along the sum, the right ones signed
    and known at compile time, and the target computes dot products of those.
    """
    word = SIGNS.get(c.left.dtype)
    last = c.inner[-1]
    return (
        word is not None
        and c.right.dtype is DType.I8
        and c.right.constant
        and not c.left.computed
        and c.accumulate is DType.I32
        and target.spells(Primitive.DOT4, word)
        and last.left == 1
        and divisor(last.extent) % BYTES == 0
    )


def in_words(c: Contraction) -> Contraction:
    """The contraction whose steps are words."""
    *others, last = c.inner
    steps = Axis(last.extent // BYTES, BYTES, last.right * BYTES, last.along)
    right = replace(c.right, dtype=DType.I32)
    return replace(c, inner=(*others, steps), right=right, word=last.right)


def words(x: Array) -> Array:
    """Bytes of shape (…, steps, columns) as i32 words of shape (…, steps / 4, columns)."""
    *around, steps, columns = x.shape
    parts = x.reshape(*around, steps // BYTES, BYTES, columns)
    packed = np.ascontiguousarray(np.moveaxis(parts, -2, -1)).view("<i4")[..., 0]
    return packed.astype(np.int32, copy=False)
