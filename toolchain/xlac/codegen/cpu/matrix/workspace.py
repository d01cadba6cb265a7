"""The memory in which a kernel factors a matrix, row by row in whole vectors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import nest
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.schedules.matrix import FactorSchedule
from xlac.fusion.group import picked
from xlac.ir.dims import Dim, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Number
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
PARTS = 4  # a local array may fill 1/PARTS of the first-level cache


class Workspace:
    """The matrix of a group's operand, which becomes that of its first result in place.

    Where rows are whole vectors that is the result's own memory, else memory with longer rows. Used
    within `inside`, the loops over the matrices of a batch.
    """

    def __init__(self, elements: Elements, schedule: FactorSchedule) -> None:
        self.elements, self.builder, self.target = elements, elements.builder, elements.target
        (self.source,) = elements.group.anchor.inputs
        *self.batch, rows, columns = self.source.shape
        assert isinstance(rows, int) and isinstance(columns, int)
        self.rows, self.columns, self.lanes = rows, columns, schedule.lanes
        self.dtype, self.threads = self.source.type.dtype, schedule.threads
        self.pitch = self.vectors(columns)
        self.results = {number: node for node, number in picked(elements.group)}
        self.line: Expr = build.index(0)
        self._at: tuple[Expr, ...] = ()

    def vectors(self, count: int) -> int:
        """A number of elements, rounded up to vectors."""
        return -(-count // self.lanes) * self.lanes

    @contextmanager
    def inside(self) -> Iterator[None]:
        """The loops over matrices, around what is done to each: first its elements are copied."""
        loops = [Run(n, (a,)) for a, n in enumerate(self.batch)]
        with nest(self.builder, loops, self.threads) as counters:
            self._at = tuple(counters[run] for run in loops)
            for run in loops:
                self.line = build.add(build.mul(self.line, run.extent), counters[run])
            result = self.results.get(0)
            self.direct = result is not None and self.pitch == self.columns
            if self.direct:
                assert result is not None
                self.buffer = self.elements.parameter(result, Access.REREAD)
                self.first = self._begin(self.rows * self.pitch)
            else:
                self.buffer, self.first = self.memory("work", self.dtype, self.rows * self.pitch)
            self._fill()
            yield
            if not self.direct and result is not None:
                self._copy_out(self.elements.parameter(result, Access.WRITE))

    def _begin(self, each: int) -> Expr:
        return self.builder.let("first", build.mul(self.line, each))

    def memory(self, hint: str, dtype: DType, each: int) -> tuple[Buffer, Expr]:
        """Memory for each matrix, and where that of the current one begins: a local array if that
        fits a small part of the first-level cache.
        """
        if each * dtype.nbytes * PARTS <= self.target.l1_bytes:
            return self.builder.local(hint, dtype, each), build.index(0)
        size: Dim = volume(tuple(self.batch)) * each
        buffer = self.elements.parameter(Scratch(dtype, size, hint), Access.REREAD)
        return buffer, self._begin(each)

    def result(self, number: int, each: int) -> tuple[Buffer, Expr] | None:
        """The memory of a result that has `each` elements for a matrix, if anything reads it."""
        node = self.results.get(number)
        if node is None:
            return None
        return self.elements.parameter(node, Access.REREAD), self._begin(each)

    # ---- elements ----------------------------------------------------------------------------

    def load(self, row: Expr, column: Expr, lanes: int) -> Expr:
        """Consecutive elements of a row."""
        return self.elements.load(self.buffer, build.ramp(self._where(row, column), 1, lanes))

    def store(self, row: Expr, column: Expr, value: Expr) -> None:
        """Replaces consecutive elements of a row."""
        where = build.ramp(self._where(row, column), 1, value.lanes)
        self.elements.store_to(self.buffer, where, value)

    def _where(self, row: Expr, column: Expr) -> Expr:
        return build.add(build.add(self.first, build.mul(row, self.pitch)), column)

    def zeros(self) -> Expr:
        """A vector of zeros."""
        return Const(0.0, self.dtype, self.lanes)

    def down(self, count: Number) -> Expr:
        """A number of elements, rounded down to vectors."""
        if self.lanes == 1:
            return build.lift(count)
        return self.builder.let(
            "first", build.mul(build.div(build.lift(count), self.lanes), self.lanes)
        )

    def lane_of(self, count: Expr) -> Expr:
        """The lane of the element with this number in its vector."""
        inside = build.mod(count, self.lanes)
        return self.builder.let("lane", build.splat(build.cast(inside, DType.I32), self.lanes))

    def lane_of_last(self, first: Expr) -> Expr:
        """The lane of the last row in the vector that begins at `first`, or more than there are."""
        last = build.sub(build.index(self.rows - 1), first)
        return self.builder.let("lane", build.splat(build.cast(last, DType.I32), self.lanes))

    def lane_numbers(self) -> Expr:
        """The numbers of the lanes."""
        if self.lanes == 1:
            return Const(0, DType.I32)
        return build.cast(build.ramp(build.index(0), 1, self.lanes), DType.I32)

    # ---- whole matrices ----------------------------------------------------------------------

    def _fill(self) -> None:
        """Copies the operand; elements beyond the ends of its rows are 0."""
        whole = self.columns // self.lanes * self.lanes
        with self.builder.loop("i", 0, self.rows) as i:
            with self.builder.loop("j", 0, whole, self.lanes) as j:
                self.store(i, j, self._read(i, j, self.lanes))
            if whole < self.columns:
                self._fill_tail(i, whole)

    def _fill_tail(self, row: Expr, start: int) -> None:
        at = build.index(start)
        if self.target.masked:
            mask = self._inside_row(start)
            with self.elements.masked(mask):
                value = self._read(row, at, self.lanes)
            self.store(row, at, build.select(mask, value, self.zeros()))
            return
        self.store(row, at, self.zeros())
        with self.builder.loop("j", start, self.columns) as j:
            self.store(row, j, self._read(row, j, 1))

    def _copy_out(self, result: Buffer) -> None:
        whole = self.columns // self.lanes * self.lanes
        first = self._begin(self.rows * self.columns)
        with self.builder.loop("i", 0, self.rows) as i:
            start = build.add(first, build.mul(i, self.columns))
            with self.builder.loop("j", 0, whole, self.lanes) as j:
                self._put(result, build.add(start, j), self.load(i, j, self.lanes), None)
            if whole < self.columns and self.target.masked:
                at = build.index(whole)
                value = self.load(i, at, self.lanes)
                self._put(result, build.add(start, whole), value, self._inside_row(whole))
            elif whole < self.columns:
                with self.builder.loop("j", whole, self.columns) as j:
                    self._put(result, build.add(start, j), self.load(i, j, 1), None)

    def _put(self, buffer: Buffer, where: Expr, value: Expr, mask: Expr | None) -> None:
        with self.elements.masked(mask):
            self.elements.store_to(buffer, build.ramp(where, 1, value.lanes), value)

    def _inside_row(self, start: int) -> Expr:
        return build.apply(
            P.LT, build.ramp(build.index(start), 1, self.lanes), build.index(self.columns)
        )

    def _read(self, row: Expr, column: Expr, lanes: int) -> Expr:
        at = build.ramp(column, 1, lanes)
        return self.elements.at(self.source, (*self._at, row, at))
