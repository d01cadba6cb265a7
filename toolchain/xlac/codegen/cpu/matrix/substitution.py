"""Solutions of triangular systems with a small matrix.

Several rows of the result are summed at once in registers, each over the rows before them, and then
solved for one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.accumulators import fixed
from xlac.codegen.core.contraction.contraction import multiply_add
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import bounded, nest, pieces_of
from xlac.codegen.core.strip_mining import strip_mine
from xlac.codegen.schedules.matrix import SubstitutionSchedule
from xlac.ir.dims import divisor
from xlac.ops.linalg.triangular_solve import TriangularSolve
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive


class Substitution:
    """Writes the kernel of a triangular system."""

    def __init__(self, elements: Elements, schedule: SubstitutionSchedule) -> None:
        self.elements, self.builder, self.target = elements, elements.builder, elements.target
        self.schedule = schedule
        self.anchor = elements.group.anchor
        assert isinstance(self.anchor.op, TriangularSolve)
        self.op = self.anchor.op
        self.a, self.b = self.anchor.inputs
        *self.batch, size, self.columns = self.b.shape
        assert isinstance(size, int)
        self.size = size
        (self.result,) = elements.group.outputs
        elements.bind(self.result, elements.parameter(self.result, Access.REREAD))
        self._at: tuple[Expr, ...] = ()

    def write(self) -> None:
        """The loops over matrices and groups of columns."""
        builder, lanes, block = self.builder, self.schedule.lanes, self._block
        loops = [Run(n, (a,)) for a, n in enumerate(self.batch)]
        loops.append(pieces_of(self.columns, block))
        with nest(builder, loops, self.schedule.threads) as counters:
            self._at = tuple(counters[run] for run in loops[:-1])
            start = build.mul(counters[loops[-1]], block)
            if divisor(self.columns) % block == 0:
                bases = [build.add(start, n * lanes) for n in range(block // lanes)]
                self._strip(bases, lanes, None)
                return
            left = build.sub(build.lift(self.columns), start)
            length = bounded(builder, build.apply(P.MIN, build.index(block), left), block)
            strip_mine(
                builder, self.target, start, length, lanes, self.schedule.unroll, self._strip
            )

    @property
    def _block(self) -> int:
        return self.schedule.lanes * self.schedule.unroll

    def _strip(self, bases: Sequence[Expr], lanes: int, mask: Expr | None) -> None:
        """Solves for the columns of some vectors."""
        each = self.schedule.rows
        whole = self.size // each * each
        columns = [build.ramp(base, 1, lanes) if lanes > 1 else base for base in bases]
        with self.elements.masked(mask):
            self._rows(build.index(0), min(each, self.size), columns)
            with self.builder.loop("t", each, whole, each) as t:
                self._rows(t, each, columns)
            if 0 < whole < self.size:
                self._rows(build.index(whole), self.size - whole, columns)

    def _rows(self, first: Expr, count: int, columns: Sequence[Expr]) -> None:
        """Solves for some rows, when those before them are solved."""
        builder = self.builder
        rows = [build.add(first, r) for r in range(count)]
        sums = [
            [builder.variable("sum", self._wide(self._right(row, c), c)) for c in columns]
            for row in rows
        ]
        with builder.loop("s", 0, first) as s:
            known = [self._known(s, c) for c in columns]
            for row, own in zip(rows, sums, strict=True):
                times = self._negative(row, s)
                for total, x in zip(own, known, strict=True):
                    builder.assign(total, self._less(times, x, total))
        solved: list[list[Expr]] = []
        for row, own in zip(rows, sums, strict=True):
            found = [fixed(self.elements, total) for total in own]
            for earlier, values in zip(rows, solved, strict=False):
                times = self._negative(row, earlier)
                found = [self._less(times, x, f) for f, x in zip(found, values, strict=True)]
            if not self.op.unit:
                pivot = self._matrix(row, row)
                found = [build.apply(P.DIV, f, build.splat(pivot, f.lanes)) for f in found]
            solved.append([builder.let("x", f) for f in found])
            for column, x in zip(columns, solved[-1], strict=True):
                self.elements.store(self.result, (*self._at, self._row(row), column), x)

    # ---- elements ----------------------------------------------------------------------------

    def _row(self, number: Expr) -> Expr:
        """The row that is solved for as the one of this number."""
        return number if self.op.lower else build.sub(build.index(self.size - 1), number)

    def _matrix(self, row: Expr, column: Expr) -> Expr:
        return self.elements.at(self.a, (*self._at, self._row(row), self._row(column)))

    def _negative(self, row: Expr, column: Expr) -> Expr:
        return self.builder.let("f", build.apply(P.NEG, self._matrix(row, column)))

    def _right(self, row: Expr, columns: Expr) -> Expr:
        return self.elements.at(self.b, (*self._at, self._row(row), columns))

    def _known(self, row: Expr, columns: Expr) -> Expr:
        return self.elements.at(self.result, (*self._at, self._row(row), columns))

    def _wide(self, value: Expr, like: Expr) -> Expr:
        return build.splat(value, like.lanes)

    def _less(self, times: Expr, x: Expr, total: Expr) -> Expr:
        """total + times * x."""
        return multiply_add(self.target, build.splat(times, x.lanes), x, total)
