"""Turns strided loads along a matrix's columns into contiguous loads along its rows: a square of as
many vectors as one has lanes is transposed in registers.

A vector along a column is a gather that touches as many cache lines as it has lanes. The square of
adjacent columns reads the same lines once, by one load each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from xlac.codegen.core.contraction.packing import transposed
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import ONE, Builder
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Buffer,
    Expr,
    For,
    Let,
    Load,
    Ramp,
    Space,
    Stmt,
    Var,
    statements,
)
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.kernel_ir.sharing import walk

# the largest distance of columns for which rows are loaded: beyond it, most loaded elements are
# unused
APART = 4

Column = tuple[Buffer, int, frozenset[tuple[Expr, int]]]
"""The key of loads that may form squares: the stride of their lanes, and their base without its
constant.
"""


def emit(builder: Builder, block: Sequence[Stmt], lanes: int, ahead: int = 0) -> None:
    """Emits straight-line statements. Where `lanes` of their loads (of that many lanes each) are
    equally spaced columns, their square is loaded by rows before all of them.

    If `ahead` is not 0, what later squares to the right load is prefetched: `ahead` bytes further
    along rows, and the next square's columns.
    """
    columns = _Columns(lanes)
    rewriter = KernelRewriter(columns.note)
    rewriter.block(tuple(block))
    later = _defined(block)
    if ahead:
        columns.prefetch(builder, later, ahead)
    vectors = columns.turned(builder, later, bool(ahead))

    def visit(node: Expr) -> Expr:
        where = columns.column(node)
        return node if where is None else vectors.get(where, node)

    for statement in KernelRewriter(visit).block(tuple(block)):
        builder.emit(statement)


class _Columns:
    """The loads along columns in a block, and their replacements."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        # the index of the first element, by the constant of its base
        self.places: dict[Column, dict[int, Expr]] = {}
        self.rows: list[Load] = []  # loads of neighbours

    def note(self, node: Expr) -> Expr:
        """Records a load."""
        where = self.column(node)
        if isinstance(node, Load) and node.lanes == self.lanes and node.index.lanes == 1:
            self.rows.append(node)
        if where is not None and isinstance(node, Load) and isinstance(node.index, Ramp):
            self.places.setdefault(where[0], {})[where[1]] = node.index.base
        return node

    def column(self, node: Expr) -> tuple[Column, int] | None:
        """The column that a load is along, and the constant of its base; None for any other
        load.
        """
        match node:
            case Load(buffer=buffer, index=Ramp(base=base, stride=stride), mask=None):
                pass
            case _:
                return None
        plain = buffer.access is Access.READ and buffer.space is Space.GLOBAL
        if not plain or node.lanes != self.lanes or abs(stride) < 2:
            return None
        parts = dict(build.terms(base))
        constant = parts.pop(ONE, 0)
        return (buffer, stride, frozenset(parts.items())), constant

    def prefetch(self, builder: Builder, later: set[Var], ahead: int) -> None:
        """Emits prefetches of global memory, `ahead` bytes further along rows. Loads whose address
        uses variables defined `later` have none.
        """
        for load in self.rows:
            far = load.buffer.space is Space.GLOBAL
            if far and load.mask is None and not any(one in later for one in walk([load.index])):
                further = ahead // load.buffer.dtype.nbytes
                builder.prefetch(load.buffer, build.add(load.index, further))

    def turned(
        self, builder: Builder, later: set[Var], prefetch: bool
    ) -> dict[tuple[Column, int], Expr]:
        """Emits the squares, and returns the vector that replaces each of their loads. Loads whose
        address uses variables defined `later` are kept. With `prefetch`, the rows of the next
        square are prefetched.
        """
        vectors: dict[tuple[Column, int], Expr] = {}
        for column, loads in self.places.items():
            buffer, stride, parts = column
            if any(one in later for one in walk([term for term, _ in parts])):
                continue
            starts = sorted(loads)
            step = min((b - a for a, b in pairwise(starts)), default=0)
            if not 0 < step <= APART:
                continue
            for start in self._squares(starts, step):
                places = [build.add(loads[start], row * stride) for row in range(self.lanes)]
                for place in places if prefetch else ():
                    builder.prefetch(buffer, build.add(place, self.lanes * stride))
                if step > 1:
                    places = [build.ramp(place, step, self.lanes) for place in places]
                rows = [builder.let("v", Load(buffer, place, self.lanes)) for place in places]
                for number, vector in enumerate(transposed(builder, rows)):
                    vectors[column, start + number * step] = vector
        return vectors

    def _squares(self, starts: Sequence[int], step: int) -> Iterator[int]:
        """The first columns of squares: they cover each run of at least `lanes` columns that are
        `step` apart, the last square of a run overlapping where necessary.
        """
        first, side = 0, self.lanes * step
        for number, start in enumerate(starts):
            if number + 1 < len(starts) and starts[number + 1] == start + step:
                continue
            begin, end = starts[first], start + step
            if end - begin >= side:
                yield from range(begin, end - side, side)
                yield end - side
            first = number + 1


def _defined(block: Sequence[Stmt]) -> set[Var]:
    """The variables that statements define."""
    variables = set[Var]()
    for stmt in statements(block):
        match stmt:
            case Let(var=var) | For(counter=var):
                variables.add(var)
    return variables
