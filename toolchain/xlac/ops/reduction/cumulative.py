"""Running combinations along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlac.ir.graph import Graph, Node, apply, pick, zeros
from xlac.ir.leading import AXES
from xlac.ir.op import Array, Op, Sample, ShapeError, declare, normal_axis
from xlac.ir.permutations import inverse
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.reduction.reduction import check_combine, created
from xlac.ops.tensor.index import taken_along
from xlac_sdk.dtypes import DType


@declare
class Cumulative(Op):
    """Running combinations along `axis`: element i combines elements 0..i, or 0..i-1 when
    `exclusive`.

    `reverse` runs from the end. Halves accumulate in f32, and each result is rounded.
    """

    mnemonic = "cumulative"
    leading = {"axis": AXES}
    axis: int = 0
    combine: str = "add"
    reverse: bool = False
    exclusive: bool = False

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_combine(self.mnemonic, self.combine, x)
        if normal_axis(self.axis, x.rank) != self.axis:
            raise ShapeError(f"axis {self.axis} must count from the start", attribute="axis")
        return x

    @property
    def creates(self) -> frozenset[str]:
        return created(self.combine)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),) if self.combine == "add" else ()

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [Node.of(replace(self, reverse=not self.reverse), ct)]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """Of a running maximum: the change of the latest of the largest elements so far. Of a
        product: each step multiplies the change so far and adds what its own factor changes.
        """
        (x,), (t,) = node.inputs, tangents
        assert t is not None
        if self.combine == "mul":
            return [self._product_change(x, t)]
        if self.combine not in ("max", "min"):
            return None
        inclusive = Node.of(replace(self, exclusive=False), x)
        line = apply("iota", shape=x.shape, axis=self.axis, dtype=DType.I64)
        if self.reverse:
            line = apply("neg", line)
        nothing = apply("const", value=np.asarray(-(2**62), np.int64))
        nothing = apply("broadcast", nothing, shape=x.shape, axes=())
        same = apply("compare", x, inclusive, direction="eq")
        nan = apply("compare", x, x, direction="ne")
        places = apply("select", apply("or", same, nan), line, nothing)
        latest = Node.of(replace(self, combine="max"), places)
        moved = apply(
            "compare",
            latest,
            apply(
                "broadcast",
                apply("const", value=np.asarray(-(2**61), np.int64)),
                shape=x.shape,
                axes=(),
            ),
            direction="gt",
        )
        if self.reverse:
            latest = apply("neg", latest)
        kept = taken_along(t, latest, self.axis)
        return [apply("select", moved, kept, zeros(t.type))]

    def _product_change(self, x: Node, t: Node) -> Node:
        front = (self.axis, *(axis for axis in range(x.type.rank) if axis != self.axis))
        back = inverse(front)
        wide = x.type.dtype.compute
        before = Node.of(replace(self, exclusive=True), apply("cast", x, dtype=wide))
        factors, change = apply("cast", x, dtype=wide), apply("cast", t, dtype=wide)
        first = apply("mul", change, before)  # what a step's own factor changes
        factors, first = (apply("transpose", n, perm=front) for n in (factors, first))
        line = first.type.with_shape(first.shape[1:])
        carry, own, factor = (apply("param", name=f"x{n}", type=line) for n in range(3))
        total = apply("add", apply("mul", carry, factor), own)
        shown = carry if self.exclusive else total
        body = Graph("change", (carry, own, factor), {"y0": total, "y1": shown})
        scan = apply(
            "scan",
            zeros(line),
            first,
            factors,
            body=body,
            length=first.shape[0],
            carries=1,
            scanned=2,
            reverse=self.reverse,
        )
        product = apply("transpose", pick(scan, 1), perm=back)
        return apply("cast", product, dtype=t.type.dtype)

    def evaluate(self, *arrays: Array) -> Array:
        (x,) = arrays
        flipped = np.flip(x, self.axis) if self.reverse else x
        result = numeric.accumulate(self.combine, flipped, self.axis)
        if self.exclusive and x.shape[self.axis]:
            first = np.full_like(
                np.take(result, [0], self.axis), numeric.identity(self.combine, DType.of(x.dtype))
            )
            result = np.concatenate([first, np.delete(result, -1, self.axis)], self.axis)
        return np.ascontiguousarray(np.flip(result, self.axis) if self.reverse else result)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [
            Sample((Type(DType.F32, s),), {"axis": a, "combine": "add"})
            for s, a in (
                ((7,), 0),
                ((0,), 0),
                ((3, 5), 0),
                ((3, 5), 1),
                ((3, 0), 1),
                ((2, 3, 5), 1),
                ((2, 1, 3, 5), 3),
                ((4999,), 0),
            )
        ]
        for combine, draw in (("mul", "unit"), ("max", "special"), ("min", "special")):
            samples.append(
                Sample((Type(DType.F32, (3, 11)),), {"axis": 1, "combine": combine}, (draw,))
            )
        for reverse, exclusive in ((True, False), (False, True), (True, True)):
            given = {"axis": 1, "combine": "add", "reverse": reverse, "exclusive": exclusive}
            samples.append(Sample((Type(DType.F32, (3, 7)),), given))
        for dtype in DType:
            combine = "xor" if dtype is DType.BOOL else "add"
            samples.append(
                Sample((Type(dtype, (2, 9)),), {"axis": 1, "combine": combine}, ("small",))
            )
        return samples
