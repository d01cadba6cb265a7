"""Taps of depthwise NHWC convolutions of bytes in words: one instruction multiplies up to four taps
of a row.

A word of x has the bytes of a channel at four columns, one of each of four loads. Neighbouring
pixels whose windows lie in the same four columns share it: each has words of weights in which its
taps are at their columns, and zeros at the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from xlac.codegen.core.contraction import byte_words, packing
from xlac.codegen.core.contraction.byte_words import BYTES, SIGNS
from xlac.codegen.core.contraction.contraction import Axis, Contraction
from xlac.codegen.core.contraction.packing import Panels
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.contraction.window_sums import WindowSums
from xlac.codegen.core.lowered_group import FoldedOperand
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.ir.storage import stepped
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class TapWord:
    """A word of weights: `count` taps from `first` on, at the bytes from `shift` on."""

    first: int
    count: int
    shift: int


def able(sums: WindowSums) -> bool:
    """Whether a convolution multiplies bytes of which the target sums four products, and has
    several taps in a row.
    """
    word, spatial = SIGNS.get(sums.left.dtype), sums.geometry.op.spatial
    return (
        word is not None
        and sums.right.dtype is DType.I8
        and sums.right.constant
        and not sums.left.computed
        and sums.accumulate is DType.I32
        and sums.target.spells(Primitive.DOT4, word)
        and bool(spatial)
        and sums.taps[spatial[-1]] > 1
    )


def pays(target: Target) -> bool:
    """Whether words of bytes take fewer instructions than widened bytes."""
    return target.byte_words


def tap_words(taps: int) -> list[TapWord]:
    """The words of weights of a row: of few taps at every place in a word."""
    if taps <= BYTES:
        return [TapWord(0, taps, shift) for shift in range(BYTES - taps + 1)]
    return [TapWord(k, min(BYTES, taps - k), 0) for k in range(0, taps, BYTES)]


def panels(sums: WindowSums, lanes: int) -> Panels:
    """One panel of all channels, with a step for each word of weights of each row of taps."""
    g, right, kernel = sums.geometry, sums.right, sums.kernel
    taps, words = [sums.taps[s] for s in g.op.spatial], tap_words(sums.taps[g.op.spatial[-1]])
    channels, offset = static((g.result["C"], right.offset))
    shape = (*taps, channels)
    steps = static((*(g.kernel[s] for s in g.op.spatial), g.kernel["O"]))

    def placed(array: Array, *others: Array) -> Array:
        """The weights at all their places, and zeros beside them."""
        whole = kernel.elements(array, *others)
        seen = stepped(whole, shape, steps, offset, 0).reshape(shape)
        wide = np.zeros((*taps[:-1], len(words), BYTES, channels), seen.dtype)
        for number, word in enumerate(words):
            span = slice(word.shift, word.shift + word.count)
            wide[..., number, span, :] = seen[..., word.first : word.first + word.count, :]
        return wide

    rows, size = [], channels * BYTES * len(words)
    for many in reversed(taps[:-1]):
        rows.append(Axis(many, 0, size))
        size *= many
    inner = (*reversed(rows), Axis(BYTES * len(words), 0, channels))
    ones, columns = (Axis(1), Axis(1)), Axis(channels, 0, 1)
    at = replace(right, offset=0)
    c = Contraction((), ones, columns, inner, sums.left, at, DType.I32, lambda o, r, n: ())
    tile = RegisterTile((1, 1), -(-channels // lanes), lanes)
    key = f"taps in words {shape} {steps} {offset} {kernel.key}"
    words_of = FoldedOperand(placed, key, kernel.others)
    return packing.constant(byte_words.in_words(c), tile, DType.I32, words_of)


@dataclass(frozen=True, slots=True)
class RowWord:
    """A word of x that begins at column `start` of a tile, in steps of the taps' distance apart,
    and the words of weights with which pixels multiply it.
    """

    start: int
    uses: tuple[tuple[int, int], ...]  # pixels of the tile, and numbers of words of weights
    met: frozenset[int]  # of its four columns, those that have taps

    def places(self, apart: int) -> list[int | None]:
        """Its columns in x, which are `apart`; None for those without taps."""
        return [self.start + k * apart if k in self.met else None for k in range(BYTES)]


def row_words(pixels: int, moves: int, reaches: int, taps: int) -> list[RowWord]:
    """The words of a tile's pixels, whose windows are `moves` columns apart and whose taps
    `reaches`.
    """
    weights = tap_words(taps)
    uses: dict[int, list[tuple[int, int]]] = {}
    for pixel in range(pixels):
        first = pixel * moves
        if taps > BYTES:
            for number, word in enumerate(weights):
                uses.setdefault(first + word.first * reaches, []).append((pixel, number))
            continue
        shifts = [(start, *divmod(first - start, reaches)) for start in uses]
        fit = [(start, n) for start, n, rest in shifts if not rest and n < len(weights)]
        start, number = fit[0] if fit else (first, 0)
        uses.setdefault(start, []).append((pixel, number))
    words = []
    for start, each in uses.items():
        used = [weights[number] for _, number in each]
        met = {word.shift + tap for word in used for tap in range(word.count)}
        words.append(RowWord(start, tuple(each), frozenset(met)))
    return words


def joined(columns: Sequence[Expr], word: DType) -> Expr:
    """Vectors of the bytes of four columns as one of words, with the first column's the lowest."""
    lanes = columns[0].lanes
    if lanes == 1:
        total: Expr = Const(0, DType.U32)
        for place, column in enumerate(columns):
            byte = build.cast(build.bits(column, DType.U8), DType.U32)
            moved = build.apply(Primitive.SHL, byte, Const(BYTES * 2 * place, DType.U32))
            total = build.apply(Primitive.OR, total, moved)
        return build.bits(total, word)
    every = tuple(range(2 * lanes))
    pairs = (Shuffle((columns[0], columns[1]), every), Shuffle((columns[2], columns[3]), every))
    turns = tuple(place * lanes + lane for lane in range(lanes) for place in range(BYTES))
    return build.bits(Shuffle(pairs, turns), word)
