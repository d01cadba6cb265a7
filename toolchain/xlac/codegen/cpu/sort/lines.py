"""The lines of a sort along its axis: how their elements are read, and their results written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from xlac.codegen.core.access_analysis import Run
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.loop_nest import nest
from xlac.codegen.core.lowered_group import Scratch
from xlac.codegen.cpu.sort.order_keys import least, order_key
from xlac.codegen.schedules.schedule import Threads
from xlac.fusion.group import picked
from xlac.ir.dims import Dim, volume
from xlac.ops.reduction.order import Sort
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Expr

PARTS = 8  # a local array may fill 1/PARTS of the first-level cache


class Lines:
    """The lines of a group whose anchor is a sort; elements are read and stored within `inside`
    only.
    """

    def __init__(self, elements: Elements) -> None:
        self.elements, self.builder = elements, elements.builder
        self.anchor = elements.group.anchor
        op = self.anchor.op
        assert isinstance(op, Sort)
        self.op = op
        self.shape = self.anchor.inputs[0].shape
        self.count = self.shape[op.axis]
        self.kept = self.count if op.kept is None else op.kept
        self.loops = [Run(n, (a,)) for a, n in enumerate(self.shape) if a != op.axis]
        self.lines = volume(tuple(run.extent for run in self.loops))
        self.dtypes = [t.dtype for t in self.anchor.results]
        self._place: dict[int, Expr] = {}
        self.line: Expr = build.index(0)

    @contextmanager
    def inside(self, threads: Threads) -> Iterator[None]:
        """Loops over lines; `line` is the number of the current one."""
        with nest(self.builder, self.loops, threads) as counters:
            self._place = {run.axes[0]: counter for run, counter in counters.items()}
            for run in self.loops:
                self.line = build.add(build.mul(self.line, run.extent), counters[run])
            yield

    def scratch(self, dtype: DType, each: Dim) -> tuple[Buffer, Expr]:
        """Scratch memory of `each` elements for every line, and the offset of the current
        line's.
        """
        buffer = self.elements.parameter(Scratch(dtype, self.lines * each, "sort"), Access.REREAD)
        return buffer, build.mul(self.line, each)

    def memory(self, hint: str, dtype: DType, each: int) -> tuple[Buffer, Expr]:
        """Scratch memory as above, but a local array where that fits a small part of the
        first-level cache.
        """
        if each * 8 * PARTS <= self.elements.target.l1_bytes:
            return self.builder.local(hint, dtype, each), build.index(0)
        return self.scratch(dtype, each)

    def read(self, k: Expr) -> list[Expr]:
        """The record at position k, or the records at a vector of positions."""
        return [self.elements.at(x, self._at(k)) for x in self.anchor.inputs]

    def key(self, k: Expr) -> Expr:
        """The order keys of the elements at positions k."""
        value = self.elements.at(self.anchor.inputs[0], self._at(k))
        return order_key(self.builder, self.op, value)

    def keys(self, first: Expr, lanes: int, mask: Expr | None = None) -> Expr:
        """The order keys of consecutive elements; where the mask is false, those that sort last."""
        if lanes == 1:
            return self.key(first)
        with self.elements.masked(mask):
            keys = self.key(build.ramp(first, 1, lanes))
        if mask is None:
            return keys
        return build.select(mask, keys, Const(least(keys.dtype), keys.dtype, lanes))

    def store(self, k: Expr, values: Sequence[Expr]) -> None:
        """Writes the record at position k of the result."""
        for node, number in picked(self.elements.group):
            self.elements.store(node, self._at(k), values[number])

    def _at(self, k: Expr) -> tuple[Expr, ...]:
        return tuple(k if a == self.op.axis else self._place[a] for a in range(len(self.shape)))
