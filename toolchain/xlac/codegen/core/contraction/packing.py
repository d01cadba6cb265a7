"""Packs the right operand of a contraction into panels, in the order in which the micro-kernel
reads it.

Packed layout: for each position of the outer axes that index the operand, for each panel of
columns, for each step of the sum, the panel's columns, zero-padded to whole vectors. A panel that
begins at column c therefore begins at element `depth * c`, and consecutive reads have consecutive
addresses. Constants are packed at compile time; anything else by a kernel of its own, if it is read
often enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction.byte_words import words
from xlac.codegen.core.contraction.contraction import (
    Axis,
    Contraction,
    OperandSource,
    merge,
    offset,
)
from xlac.codegen.core.contraction.tiling import RegisterTile, TileSplit
from xlac.codegen.core.loop_nest import bounded
from xlac.codegen.core.lowered_group import FoldedOperand, PackedConstant, Scratch
from xlac.ir.dims import Dim, Shape, Sym, ceil_div, divisor, size_hint, static, volume
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.storage import on_a_line, stepped
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr, Shuffle
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

TURNED = 16  # most lanes of a square of vectors that is transposed in registers


@dataclass(frozen=True, slots=True)
class Panels:
    """How the right operand is read: at `base + step * stride + column` within a panel.

    Packed panels are contiguous; `direct` reads the operand in place if its columns are contiguous.
    """

    source: OperandSource
    outer: tuple[Axis, ...]  # the contraction's outer axes with this operand's strides
    inner: tuple[Axis, ...]  # likewise the summed axes; strides depend on the panel when packed
    packed: bool

    def base(self, counters: list[Expr], column: Expr, depth: Dim) -> Expr:
        """The offset of the panel that begins at a column."""
        start = offset(self.outer, counters, "right", self.source.offset)
        return build.add(start, build.mul(column, depth) if self.packed else column)

    def strides(self, width: int) -> Shape:
        """The stride of each summed axis, for a panel of `width` columns."""
        if not self.packed:
            return tuple(a.right for a in self.inner)
        return tuple(s * width for s in row_major([a.extent for a in self.inner]))

    def merged(self, c: Contraction) -> tuple[Contraction, Panels]:
        """The contraction and panels with summed axes merged where the left operand allows; packed
        panels always do.
        """
        contraction = merged(c)
        return contraction, replace(self, inner=contraction.inner)


def merged(c: Contraction) -> Contraction:
    """A contraction with packed right operand, and summed axes merged where the left operand
    allows.
    """
    steps = row_major([a.extent for a in c.inner])
    axes = merge([Axis(a.extent, a.left, s) for a, s in zip(c.inner, steps, strict=True)])
    return replace(c, inner=axes or (Axis(c.depth),))


def direct(c: Contraction) -> Panels:
    """The operand read in place."""
    return Panels(c.right, c.outer, c.inner, packed=False)


def panel_count(columns: Dim, tile: RegisterTile) -> Dim:
    """The number of panels of columns, including narrower ones."""
    if isinstance(columns, Sym):
        full = columns // tile.width
        return full + ceil_div(columns - full * tile.width, tile.lanes)
    return TileSplit(-(-columns // tile.lanes), tile.vectors).count


def panels_before(stop: Expr, columns: Dim, tile: RegisterTile) -> Expr:
    """How many panels contain the columns before `stop`; for an open number of columns the
    remainder has panels of one vector.
    """
    count = build.div(build.add(stop, tile.width - 1), tile.width)
    if isinstance(columns, int):
        return count
    full = columns // tile.width
    left = build.div(build.add(build.sub(stop, full * tile.width), tile.lanes - 1), tile.lanes)
    return build.add(
        build.apply(Primitive.MIN, count, build.lift(full)),
        build.apply(Primitive.MAX, left, build.index(0)),
    )


def each_panel(
    builder: Builder,
    columns: Dim,
    tile: RegisterTile,
    panel: Expr,
    emit: Callable[[Expr, int, build.Number], None],
) -> None:
    """Emits code that runs for whichever `panel` is given: `emit(first column, vectors, columns of
    a partial last vector)`.

    The remainder of a known number of columns is one narrower panel; of a dynamic number, panels of
    one vector.
    """
    if isinstance(columns, Sym):
        _open_panel(builder, columns, tile, panel, emit)
        return
    split, partial = TileSplit(-(-columns // tile.lanes), tile.vectors), columns % tile.lanes
    final = split.count - 1
    if not (split.rest or partial):
        emit(build.mul(panel, tile.width), tile.vectors, 0)
        return
    vectors = split.rest or tile.vectors
    if not final:
        emit(build.index(0), vectors, partial)
        return
    with builder.when(build.apply(Primitive.LT, panel, build.index(final))):
        emit(build.mul(panel, tile.width), tile.vectors, 0)
    with builder.when(build.apply(Primitive.EQ, panel, build.index(final))):
        emit(build.index(final * tile.width), vectors, partial)


def _open_panel(
    builder: Builder,
    columns: Sym,
    tile: RegisterTile,
    panel: Expr,
    emit: Callable[[Expr, int, build.Number], None],
) -> None:
    full = columns // tile.width
    with builder.when(build.apply(Primitive.LT, panel, build.lift(full))):
        emit(build.mul(panel, tile.width), tile.vectors, 0)
    if divisor(columns) % tile.width == 0:
        return
    with builder.when(build.apply(Primitive.LE, build.lift(full), panel)):
        first = build.add(build.mul(build.sub(panel, full), tile.lanes), full * tile.width)
        column = bounded(builder, first, columns - 1)
        if divisor(columns) % tile.lanes == 0:
            emit(column, 1, 0)
            return
        left = build.apply(Primitive.MIN, build.sub(columns, column), build.index(tile.lanes))
        emit(column, 1, bounded(builder, left, tile.lanes, 1))


def packed_layout(
    c: Contraction, tile: RegisterTile, dtype: DType
) -> tuple[tuple[Axis, ...], tuple[Axis, ...], Dim]:
    """The outer axes that the packed operand has, all outer axes with packed strides, and its size
    in elements.
    """
    columns = ceil_div(c.columns.extent, tile.lanes) * tile.lanes
    own = tuple(a for a in c.outer if a.right != 0)
    steps = iter(row_major([a.extent for a in own]))
    outer = tuple(
        Axis(a.extent, a.left, next(steps) * c.depth * columns if a.right != 0 else 0)
        for a in c.outer
    )
    return own, outer, volume(tuple(a.extent for a in own)) * c.depth * columns


def packed_panels(
    c: Contraction, value: PackedConstant | Scratch, outer: tuple[Axis, ...]
) -> Panels:
    """Panels stored packed in a value, whose outer axes have these strides."""
    return Panels(OperandSource(value, value.dtype), outer, c.inner, packed=True)


def one_panel(c: Contraction, tile: RegisterTile, dtype: DType, steps: Dim) -> Panels:
    """The panels of an operand of which only the one in use is packed, `steps` of its sum at a
    time, in scratch memory that is local to a kernel.
    """
    panel = Scratch(dtype, steps * tile.width, "panel")
    outer = tuple(replace(a, right=0) for a in c.outer)
    return packed_panels(c, panel, outer)


# ---- at compile time -----------------------------------------------------------------------------


def constant(
    c: Contraction, tile: RegisterTile, dtype: DType, folded: FoldedOperand | None = None
) -> Panels:
    """Panels of a constant operand, which may be computed from its source."""
    own, outer, room = packed_layout(c, tile, dtype)
    source, lanes, width = c.right, tile.lanes, tile.width
    # weights have static shapes
    (size, depth, extent, offset) = static((room, c.depth, c.columns.extent, source.offset))
    inner = c.inner
    if c.word:  # the operand's elements, in the layout of the source
        inner = (*inner[:-1], Axis(inner[-1].extent * c.products, right=c.word))
    shape = static((*(a.extent for a in own), *(a.extent for a in inner), extent))
    steps = static((*(a.right for a in own), *(a.right for a in inner), c.columns.right))

    def make(array: Array, *others: Array) -> Array:
        if not size:
            return np.zeros(0, dtype.numpy)
        seen = stepped(
            folded.compute(array, *others) if folded else array, shape, steps, offset, len(own)
        )
        seen = words(seen.reshape(shape), c.words) if c.word else seen
        around, within, full = shape[: len(own)], seen.shape[len(own) : -1], extent // width * width
        result = on_a_line(size, dtype.numpy).reshape(*around, size // prod(around))
        panels = result[..., : depth * full].reshape(*around, full // width, *within, width)
        panels[...] = np.moveaxis(
            seen[..., :full].reshape(*around, *within, full // width, width), -2, len(own)
        )
        if full < extent:
            last = result[..., depth * full :].reshape(
                *around, *within, -(-(extent - full) // lanes) * lanes
            )
            last[..., : extent - full] = seen[..., full:]
        return result.reshape(-1)

    assert not isinstance(source.value, PackedConstant | Scratch)
    kind = "words" if c.word else "panels"
    name = f"{kind} of {width}/{lanes} as {dtype} from {source.offset} {shape} {steps}"
    sources: tuple[Node, ...] = (source.value,)
    if folded:
        name, sources = f"{name} {folded.key}", (*sources, *folded.others)
    return packed_panels(c, PackedConstant(dtype, size, sources, make, name), outer)


def is_packed_already(c: Contraction, tile: RegisterTile) -> bool:
    """Whether the operand in place is one panel already, so that packing would copy it
    unchanged.
    """
    if c.columns.right != 1 or c.columns.extent != tile.width:
        return False
    own = [a for a in c.outer if a.right != 0]
    axes = [*own, *c.inner]
    wanted = row_major([*(a.extent for a in axes), c.columns.extent])
    return all(a.right == w for a, w in zip(axes, wanted, strict=False))


def reads_well(c: Contraction, tile: RegisterTile, reuse: int, target: Target) -> bool:
    """Whether `reuse` row tiles read panels in place faster than they are packed and then read. At
    equal cost they are packed, which loses less where the facts are wrong.

    Packing does not pay for few tiles. For more tiles, an unpacked panel still stays in the
    second-level cache, unless its row stride is a multiple of a power of two so that rows compete
    for a few cache sets: a panel that would fill the cache to the last line has none left for the
    other operand and the result, so half of it counts.
    """
    return reuse < target.hardware.packing_pays(stays(c, tile, target), target.threads)


def stays(c: Contraction, tile: RegisterTile, target: Target) -> bool:
    """Whether a panel that is read in place stays in the second-level cache."""
    nbytes, hardware = c.right.dtype.nbytes, target.hardware
    apart = gcd(hardware.l2_bytes, *(size_hint(a.right) * nbytes for a in c.inner))
    return size_hint(c.depth) * max(apart, tile.width * nbytes) <= hardware.l2_room // 2


def transposed(builder: Builder, rows: list[Expr]) -> list[Expr]:
    """Transposes a square of vectors in registers by recursively swapping off-diagonal blocks."""
    lanes = len(rows)
    swapped, size = list(rows), lanes // 2
    while size:
        stay = tuple(n if not n & size else lanes + n - size for n in range(lanes))
        swap = tuple(n + size if not n & size else lanes + n for n in range(lanes))
        for i in range(lanes):
            if not i & size:
                pair = (swapped[i], swapped[i | size])
                swapped[i], swapped[i | size] = (
                    builder.let("x", Shuffle(pair, stay)),
                    builder.let("x", Shuffle(pair, swap)),
                )
        size //= 2
    return swapped
