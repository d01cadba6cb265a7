"""Sorting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cmp_to_key
from typing import Any

import numpy as np

from xlac.ir.dims import Shape
from xlac.ir.graph import Graph, Node, apply, pick
from xlac.ir.leading import AXES
from xlac.ir.op import Array, Op, Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import numeric
from xlac.ops.checks import check_axes, fits, several
from xlac.ops.control import bodies
from xlac.ops.tensor.index import taken_along
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


@declare
class Sort(Op):
    """Tensors of one shape reordered together along `axis`, by the first `keys` of them.

    Ascending, NaN comes last (all NaNs are equal, and so are +0 and -0); descending is the opposite
    order. Equal keys keep their order, whether or not `stable` demands it. A `body` instead says
    whether the first of two goes before the second: it takes (x0, y0, x1, y1, …) and gives a bool.
    With `kept`, only so many elements along `axis` are given, the first in order.
    """

    mnemonic = "sort"
    creates = frozenset()
    operands = ("*xs",)
    leading = {"axis": AXES}
    axis: int = 0
    descending: bool = False
    keys: int = 1
    stable: bool = True
    body: Graph | None = None
    kept: int | None = None

    def infer(self, *types: Type) -> Types:
        if not types:
            raise ShapeError("sort needs at least one tensor")
        check_axes((self.axis,), types[0].rank, "axis")
        for number, x in enumerate(types):
            if x.shape != types[0].shape:
                raise ShapeError(f"sort needs equal shapes, got {types[0]} and {x}", operand=number)
        if not 1 <= self.keys <= len(types):
            raise ShapeError(f"sort by {self.keys} keys of {len(types)} tensors", attribute="keys")
        if self.body is not None:
            scalars = [x.with_shape(()) for x in types for _ in range(2)]
            bodies.check(self.mnemonic, self.body, scalars, [Type(DType.BOOL)])
        if self.kept is None:
            return several(types)
        if self.kept < 0 or not fits(self.kept, types[0].shape[self.axis]):
            raise ShapeError(
                f"there are no {self.kept} elements along axis {self.axis} of {types[0]}",
                attribute="kept",
            )
        return several([x.with_shape(self.given(x.shape)) for x in types])

    def given(self, shape: Shape) -> Shape:
        """The shape of a result for operands of some shape."""
        if self.kept is None:
            return shape
        return (*shape[: self.axis], self.kept, *shape[self.axis + 1 :])

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """Changes are reordered as what changes is."""
        first = node.inputs[0]
        line = apply("iota", shape=first.shape, axis=self.axis, dtype=DType.I64)
        op = self
        if self.body is not None:
            extra = tuple(
                apply("param", name=f"line{n}", type=line.type.with_shape(())) for n in range(2)
            )
            op = replace(self, body=replace(self.body, inputs=(*self.body.inputs, *extra)))
        order = pick(Node.of(op, *node.inputs, line), len(node.inputs))
        return [None if t is None else taken_along(t, order, self.axis) for t in tangents]

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        order = self._order(arrays) if self.body is None else self._order_by_body(arrays)
        if self.kept is not None:
            order = order[(slice(None),) * self.axis + (slice(self.kept),)]
        results = [np.take_along_axis(x, order, self.axis) for x in arrays]
        return results[0] if len(results) == 1 else tuple(results)

    def _order(self, arrays: Sequence[Array]) -> Array:
        ranks = []
        for x in arrays[: self.keys]:
            _, place = np.unique(numeric.widen(x), return_inverse=True, equal_nan=True)
            place = place.reshape(x.shape)
            ranks.append(-place if self.descending else place)
        return np.lexsort(ranks[::-1], axis=self.axis)

    def _order_by_body(self, arrays: Sequence[Array]) -> Array:
        assert self.body is not None
        shape = arrays[0].shape
        order = np.empty(shape, np.int64)
        lines = np.moveaxis(order, self.axis, -1)
        xs = [np.moveaxis(x, self.axis, -1) for x in arrays]
        for place in np.ndindex(tuple(lines.shape)[:-1]):
            rows = [x[place] for x in xs]

            def before(i: int, j: int, rows: Sequence[Array] = rows) -> int:
                assert self.body is not None
                first, second = (
                    [value for row in rows for value in (row[a], row[b])]
                    for a, b in ((i, j), (j, i))
                )
                return bool(bodies.run(self.body, second)[0]) - bool(
                    bodies.run(self.body, first)[0]
                )

            lines[place] = sorted(range(shape[self.axis]), key=cmp_to_key(before))
        return order

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int]] = [
            ((1,), 0), ((0,), 0), ((7,), 0), ((3, 0), 1), ((3, 17), 1), ((17, 3), 0),
            ((2, 9, 3), 1), ((2, 1, 3, 8), 3), ((4999,), 0),
        ]  # fmt: skip
        samples = [
            Sample((Type(DType.F32, s),), {"axis": a, "descending": d})
            for s, a in cases
            for d in (False, len(s) == 2)
        ]
        samples += [Sample((Type(d, (3, 13)),), {"axis": 1}, ("special",)) for d in DType]
        samples.append(
            Sample((Type(DType.F32, (3, 13)),), {"axis": 1, "descending": True}, ("special",))
        )
        pair = (Type(DType.I32, (3, 13)), Type(DType.F32, (3, 13)))
        samples += [
            Sample(pair, {"axis": 1, "keys": k, "descending": d}, ("small",))
            for k in (1, 2)
            for d in (False, True)
        ]
        return samples + cls._kept_samples()

    @classmethod
    def _kept_samples(cls) -> list[Sample]:
        cases: list[tuple[Ints, int, int]] = [
            ((7,), 0, 0), ((7,), 0, 7), ((9, 3), 0, 2), ((3, 90), 1, 5), ((3, 130), 1, 65),
            ((2, 400, 3), 1, 7), ((2, 900), 1, 1), ((1500,), 0, 600),
        ]  # fmt: skip
        samples = [
            Sample((Type(DType.F32, s),), {"axis": a, "kept": k, "descending": k % 2 == 0})
            for s, a, k in cases
        ]
        for d in DType:
            given = {"axis": 1, "descending": d.nbytes < 4}
            samples += [
                Sample((Type(d, (2, n)),), {**given, "kept": k}, (values,))
                for n, k, values in ((300, 3, "special"), (40, 39, "special"), (300, 20, "small"))
            ]
        pair = (Type(DType.I32, (2, 150)), Type(DType.F32, (2, 150)))
        return samples + [
            Sample(pair, {"axis": 1, "keys": k, "kept": 9}, ("small",)) for k in (1, 2)
        ]
