"""Stores of results that are contiguous along rows, while vectors are along columns: tiles are
transposed in registers.

A scattered store of a vector takes as many stores as it has lanes, and registers for their
addresses. A square of vectors transposed in registers is stored by one vector for each column,
along rows.
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
