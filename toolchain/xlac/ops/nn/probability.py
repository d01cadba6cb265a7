"""Softmax and its kin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.leading import AXES
from xlac.ir.op import Array, Sample, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import FLOATS, check_dtype
from xlac_sdk.dtypes import DType


class Normalised(Composite):
    """A distribution along `axis`, from numbers of any size: in f32 for halves."""

    leading = {"axis": AXES}
    axis: int

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, FLOATS)
        normal_axis(self.axis, x.rank)
        return x

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[tuple[tuple[int, ...], int]] = [
            ((7,), 0), ((3, 5), -1), ((3, 5), 0), ((2, 3, 5), 1), ((2, 1, 3, 5), -1), ((0, 3), 1),
            ((3, 0), 1), ((3, 1), 1), ((4999,), 0),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, s),), {"axis": a}) for s, a in shapes]
        return samples + [Sample((Type(d, (3, 17)),), {}) for d in DType if d in FLOATS]


def shifted(x: Node, axis: int) -> Node:
    """x less its largest element along an axis, so that exponentials stay finite."""
    return build.sub(x, build.reduce(x, "max", axis, True))


@declare
class Softmax(Normalised):
    """Exponentials scaled to sum to 1 along `axis`. Of x less its largest element, those below
    the smallest normal number are 0.
    """

    mnemonic = "softmax"
    axis: int = -1

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        (t,), share = tangents, build.compute(node)
        assert t is not None
        weighted = build.mul(build.compute(t), share)
        total = build.reduce(weighted, "add", self.axis, True)
        change = build.sub(weighted, build.mul(share, total))
        return [build.cast(change, node.type.dtype)]

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        powers = build.exp(shifted(build.compute(x), self.axis), flush=True)
        return build.cast(
            build.div(powers, build.reduce(powers, "add", self.axis, True)), x.type.dtype
        )

    def evaluate(self, *arrays: Array) -> Array:
        x = numeric.widen(arrays[0])
        with np.errstate(all="ignore"):
            powers = np.exp(x - np.max(x, axis=self.axis, keepdims=True, initial=-np.inf))
            return numeric.narrow(
                powers / powers.sum(axis=self.axis, keepdims=True), arrays[0].dtype
            )


@declare
class LogSoftmax(Normalised):
    """The logarithm of softmax along `axis`, computed without its rounding."""

    mnemonic = "log_softmax"
    axis: int = -1

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        (t,), share = tangents, build.exp(build.compute(node))
        assert t is not None
        wide = build.compute(t)
        total = build.reduce(build.mul(wide, share), "add", self.axis, True)
        return [build.cast(build.sub(wide, total), node.type.dtype)]

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        moved = shifted(build.compute(x), self.axis)
        total = build.reduce(build.exp(moved), "add", self.axis, True)
        return build.cast(build.sub(moved, build.log(total)), x.type.dtype)

    def evaluate(self, *arrays: Array) -> Array:
        x = numeric.widen(arrays[0])
        with np.errstate(all="ignore"):
            moved = x - np.max(x, axis=self.axis, keepdims=True, initial=-np.inf)
            total = np.exp(moved).sum(axis=self.axis, keepdims=True)
            return numeric.narrow(moved - np.log(total), arrays[0].dtype)
