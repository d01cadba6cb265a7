"""Stores of results that are contiguous along rows, while vectors are along columns: tiles are
transposed in registers.

A scattered store of a vector takes as many stores as it has lanes, and registers for their
addresses. A square of vectors transposed in registers is stored by one vector for each column,
along rows.

Other arrays that the epilogue reads may be contiguous along rows too, such as weights and moments
of an optimizer's step. Where there are any, the sums are transposed instead of the results, and the
epilogue is a loop over columns, which reads these arrays without gathers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from xlac.codegen.core.addressing import linear, plain, row_major
from xlac.codegen.core.contraction.contraction import Contraction, zero
from xlac.codegen.core.contraction.packing import TURNED, transposed
from xlac.codegen.core.contraction.tiling import RegisterTile
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.loop_nest import bounded
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, Ramp, Shuffle, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.target import Target

WIDE = 2  # vectors of columns of a tile whose results are transposed


def pays(epilogue: Epilogue, c: Contraction, tile: RegisterTile, target: Target) -> bool:
    """Whether every output is contiguous along the last row axis, none along columns, and vectors
    of columns form squares.
    """
    if target.size or not able(epilogue, c, tile):
        return False
    _, by_column = _places(c, tile)
    return not any(dense(epilogue, node, by_column) for node in epilogue.group.outputs)


def able(epilogue: Epilogue, c: Contraction, tile: RegisterTile) -> bool:
    """Whether every output is contiguous along the last row axis, and vectors of columns form
    squares.
    """
    if not 1 < tile.lanes <= TURNED or tile.rows[1] < 2:
        return False
    by_row, _ = _places(c, tile)
    return all(dense(epilogue, node, by_row) for node in epilogue.group.outputs)


def reads_rows(epilogue: Epilogue, c: Contraction, tile: RegisterTile) -> bool:
    """Whether the epilogue reads arrays of as many elements as the results that are not contiguous
    along columns where they are read.
    """
    _, by_column = _places(c, tile)

    def by_columns(node: Node) -> bool:
        return all(
            one.shape == node.shape and one in epilogue.paths and dense(epilogue, one, by_column)
            for one in epilogue.group.nodes
            if node in one.inputs
        )

    large = [n for n in epilogue.operands() if n.type.size == epilogue.anchor.type.size]
    return not all(map(by_columns, large))


def _places(c: Contraction, tile: RegisterTile) -> tuple[Index, Index]:
    """The result indices of neighbours along the last row axis, and along columns."""
    first, second, column = (Var(name, build.INDEX) for name in ("m", "m_1", "n"))
    outer = [Var(f"t_{number}", build.INDEX) for number in range(len(c.outer))]
    by_row = c.place(outer, (first, build.ramp(second, 1, tile.lanes)), column)
    return by_row, c.place(outer, (first, second), build.ramp(column, 1, tile.lanes))


def dense(epilogue: Epilogue, node: Node, at: Index) -> bool:
    """Whether a vector of results at an index is contiguous in an output."""
    where = linear(plain(epilogue.forward(node, at)), row_major(node.shape), node.shape)
    return isinstance(where, Ramp) and where.stride == 1


def store(
    elements: Elements,
    epilogue: Epilogue,
    c: Contraction,
    outer: Sequence[Expr],
    start: tuple[Expr, Expr],
    size: tuple[int, int],
    column: Expr,
    sums: Sequence[Sequence[Expr]],
    partial: build.Number,
    mask: Expr | None,
) -> None:
    """Stores a tile: for each of its rows, vectors of columns. `partial` columns of the last vector
    are valid, under the mask; 0: all.
    """
    vectors, lanes = len(sums[0]), sums[0][0].lanes
    for i, v, j in product(range(size[0]), range(vectors), range(0, size[1], lanes)):
        last = isinstance(partial, int) and partial > 0 and v == vectors - 1
        count, masked = (partial, mask) if last and isinstance(partial, int) else (lanes, None)
        totals = [row[v] for row in sums[i * size[1] + j : (i + 1) * size[1]]][:lanes]
        row = (build.add(start[0], i), build.add(start[1], j))
        _square(
            elements, epilogue, c, outer, row, build.add(column, v * lanes), totals, count, masked
        )


def store_in_loop(
    elements: Elements,
    epilogue: Epilogue,
    c: Contraction,
    outer: Sequence[Expr],
    start: tuple[Expr, Expr],
    size: tuple[int, int],
    column: Expr,
    sums: Sequence[Sequence[Expr]],
    partial: build.Number,
) -> None:
    """Stores a tile as `store` does, by loops over its vectors of columns and over the columns of
    a vector. `partial` columns of the last vector are valid; 0: all.
    """
    builder, lanes, vectors = elements.builder, sums[0][0].lanes, len(sums[0])
    for i, j in product(range(size[0]), range(0, size[1], lanes)):
        group = sums[i * size[1] + j : (i + 1) * size[1]][:lanes]
        dtype, align = group[0][0].dtype, min(64, lanes * group[0][0].dtype.nbytes)
        kept = builder.local("s", dtype, len(group) * vectors * lanes)
        for row, totals in enumerate(group):
            for v, total in enumerate(totals):
                place = (v * len(group) + row) * lanes
                builder.store(kept, build.ramp(place, 1, lanes), total, align=align)
        square = builder.local("t", dtype, lanes * lanes)
        with builder.loop("v", 0, vectors) as vector:
            first = build.mul(vector, lanes)
            places = [
                build.add(build.mul(vector, len(group) * lanes), row * lanes)
                for row in range(len(group))
            ]
            rows = [
                builder.let("x", build.load(kept, build.ramp(place, 1, lanes))) for place in places
            ]
            rows += [zero(dtype, lanes)] * (lanes - len(rows))
            for lane, along in enumerate(transposed(builder, rows)):
                builder.store(square, build.ramp(lane * lanes, 1, lanes), along, align=align)
            columns: build.Number = lanes
            if partial != 0:
                left = build.sub(build.add((vectors - 1) * lanes, partial), first)
                columns = bounded(
                    builder, build.apply(Primitive.MIN, build.index(lanes), left), lanes
                )
            with builder.loop("n", 0, columns) as lane_of:
                at_column = build.add(column, build.add(first, lane_of))
                for begin, wide in _pieces(len(group), lanes, elements.target):
                    along = build.ramp(build.add(start[1], j + begin), 1, wide)
                    at = c.place(outer, (build.add(start[0], i), along), at_column)
                    here = build.add(build.mul(lane_of, lanes), begin)
                    value = build.load(square, build.ramp(here, 1, wide))
                    whole = begin + wide <= len(group)
                    with elements.masked(None if whole else _below(len(group), lanes)):
                        epilogue.store(elements, at, value)


def _square(
    elements: Elements,
    epilogue: Epilogue,
    c: Contraction,
    outer: Sequence[Expr],
    row: tuple[Expr, Expr],
    column: Expr,
    sums: Sequence[Expr],
    columns: int,
    mask: Expr | None,
) -> None:
    """Stores one vector of columns for each of several consecutive rows from `row` on. The first
    `columns` are valid: see `mask`.
    """
    lanes = sums[0].lanes
    results: dict[Node, list[Expr]] = {}
    for number, total in enumerate(sums):
        at = c.place(outer, (row[0], build.add(row[1], number)), build.ramp(column, 1, lanes))
        with elements.masked(mask):
            for node, _, value in epilogue.results(elements, at, total):
                results.setdefault(node, []).append(value)
    for node, values in results.items():
        square = values + [zero(values[0].dtype, lanes)] * (lanes - len(values))
        for lane, along in enumerate(transposed(elements.builder, square)[:columns]):
            at_column = build.add(column, lane)
            for first, wide in _pieces(len(values), lanes, elements.target):
                where = c.place(
                    outer, (row[0], build.ramp(build.add(row[1], first), 1, wide)), at_column
                )
                part = (
                    along if wide == lanes else Shuffle((along,), tuple(range(first, first + wide)))
                )
                with elements.masked(
                    None if first + wide <= len(values) else _below(len(values), lanes)
                ):
                    elements.store(node, epilogue.forward(node, where), part)


def _below(count: int, lanes: int) -> Expr:
    return build.apply(
        Primitive.LT, build.ramp(0, 1, lanes), build.splat(build.index(count), lanes)
    )


def _pieces(count: int, lanes: int, target: Target) -> list[tuple[int, int]]:
    """The parts in which a vector is stored, as (first lane, lanes): one under a mask, or several
    of powers of two.
    """
    if count == lanes or target.masked:
        return [(0, lanes)]
    pieces, first = [], 0
    while first < count:
        wide = 1 << ((count - first).bit_length() - 1)
        pieces.append((first, wide))
        first += wide
    return pieces
