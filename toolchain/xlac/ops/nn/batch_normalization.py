"""Normalization by what is known of a channel, or while a model learns, of the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ir.op import Sample, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.nn.normalization import Normalization, rsqrt, scaled
from xlac.ops.reduction import statistics


@declare
class BatchNorm(Normalization):
    """Each channel (axis 1) less its known mean, over its known deviation, times weight plus bias.

    (x - mean) / sqrt(variance + epsilon) * weight + bias. While a model learns, the mean and the
    variance are those of the batch, and `momentum` of them goes into what is known: the variance by
    one number less, as PyTorch has it.
    """

    mnemonic, fewest, statistics = "batch_norm", 2, frozenset({"mean", "variance"})
    epsilon: float = 1e-5
    affine: bool = True
    axis: int = 1
    momentum: float = 0.1

    def in_training(
        self, node: Node, uniform: Callable[[Type], Node]
    ) -> tuple[Node, Mapping[Node, Node]]:
        x, *given = node.inputs
        learned = dict(zip(self.learned(x.type), given, strict=True))
        own = normal_axis(self.axis, x.type.rank)
        axes = [axis for axis in range(x.type.rank) if axis != own]
        wide = build.compute(x)
        average = statistics.mean(wide, tuple(axes), True)
        gap = build.sub(wide, average)
        spread = statistics.mean(build.mul(gap, gap), tuple(axes), True)
        result = build.mul(gap, rsqrt(build.add(spread, self.epsilon)))
        if self.affine:
            known = {name: build.compute(learned[name]) for name in ("weight", "bias")}
            result = scaled(result, known, (own,))
        count = statistics.number(wide, tuple(axes))
        corrected = build.mul(spread, build.div(count, build.maximum(build.sub(count, 1.0), 1.0)))
        measured: dict[Node, Node] = {}
        for name, new in (("mean", average), ("variance", corrected)):
            old = learned[name]
            kept = build.mul(build.compute(old), 1.0 - self.momentum)
            part = build.mul(build.reshape(new, old.shape), self.momentum)
            measured[old] = build.cast(build.add(kept, part), old.type.dtype)
        return build.cast(result, x.type.dtype), measured

    def learned(self, x: Type) -> Mapping[str, Shape]:
        channels = (x.shape[normal_axis(self.axis, x.rank)],)
        names = ["weight", "bias", "mean", "variance"] if self.affine else ["mean", "variance"]
        return dict.fromkeys(names, channels)

    def wide(self, x: Node, learned: Mapping[str, Node]) -> Node:
        scale = rsqrt(build.add(learned["variance"], self.epsilon))
        if self.affine:
            scale = build.mul(scale, learned["weight"])
        offset = build.mul(build.mul(learned["mean"], scale), -1.0)
        if self.affine:
            offset = build.add(offset, learned["bias"])
        return scaled(x, {"weight": scale, "bias": offset}, (normal_axis(self.axis, x.type.rank),))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return cls.cases(
            [(2, 3, 5, 7), (2, 3), (4, 5, 7), (0, 3, 5), (1, 64, 9, 9)],
            {"affine": False},
            {"axis": -1},
            {"epsilon": 0.1},
        )

    @classmethod
    def drawn(cls) -> tuple[str, ...]:
        return ("normal", "positive")
