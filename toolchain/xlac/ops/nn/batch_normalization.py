"""Batch normalization, by running statistics or, in training, those of the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xlac.ir.dims import Dim, Shape, bounds, divisor
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.nn.normalization import Normalization, rsqrt, scaled
from xlac.ops.reduction import statistics
from xlac.ops.values import param
from xlac.ops.walks import closed


@declare
class BatchNorm(Normalization):
    """Each channel (axis 1) less its known mean, over its known deviation, times weight plus bias.

    (x - mean) / sqrt(variance + epsilon) * weight + bias. While a model learns, the mean and the
    variance are those of the batch, and `momentum` of them goes into what is known: the variance by
    one number less, as PyTorch has it. One value a channel has no variance: it becomes the bias,
    and what is known stays. With `groups` the batch (axis 0) is in so many equal parts then, each
    with a mean and a variance of its own; those of the first go into what is known.
    """

    mnemonic, fewest, statistics = "batch_norm", 2, frozenset({"mean", "variance"})
    epsilon: float = 1e-5
    affine: bool = True
    axis: int = 1
    momentum: float = 0.1
    groups: int = 1

    def in_training(
        self, node: Node, uniform: Callable[[Type], Node]
    ) -> tuple[Node, Mapping[Node, Node]]:
        x, *given = node.inputs
        learned = dict(zip(self.learned(x.type), given, strict=True))
        affine = [learned["weight"], learned["bias"]] if self.affine else []
        result = self._of_the_batch(x, affine)
        wide = self._grouped(build.compute(x))
        axes = self._around(wide)
        average, _, spread = _moments(wide, axes)
        if self.groups > 1:
            average, spread = (build.cut(one, 0, 0, 1) for one in (average, spread))
        count = statistics.number(wide, axes)
        corrected = build.mul(spread, build.div(count, build.maximum(build.sub(count, 1.0), 1.0)))
        measured: dict[Node, Node] = {}
        for name, new in (("mean", average), ("variance", corrected)):
            old = learned[name]
            kept = build.mul(build.compute(old), 1.0 - self.momentum)
            part = build.mul(build.reshape(new, old.shape), self.momentum)
            following = build.cast(build.add(kept, part), old.type.dtype)
            if bounds(self.values_of_channel(x))[0] <= 1:
                following = build.select(build.compare(count, "gt", 1.0), following, old)
            measured[old] = following
        return result, measured

    def values_of_channel(self, x: Node) -> Dim:
        """How many values of x a mean of the batch is taken over."""
        wide = self._grouped(x)
        return statistics.count(wide, self._around(wide))

    def _grouped(self, x: Node) -> Node:
        """x with an axis of the groups first, if there are several."""
        batch, *others = x.shape
        if self.groups == 1:
            return x
        if not normal_axis(self.axis, x.type.rank) or divisor(batch) % self.groups:
            raise ShapeError(f"the first axis of {x.type} has no {self.groups} equal parts")
        return build.reshape(x, (self.groups, batch // self.groups, *others))

    def _own(self, x: Node) -> int:
        """The axis of the channels of what `_grouped` gives."""
        if self.groups == 1:
            return normal_axis(self.axis, x.type.rank)
        return normal_axis(self.axis, x.type.rank - 1) + 1

    def _around(self, x: Node) -> tuple[int, ...]:
        """The axes that a channel's mean is taken over, of what `_grouped` gives."""
        kept = {self._own(x), *([0] if self.groups > 1 else [])}
        return tuple(axis for axis in range(x.type.rank) if axis not in kept)

    def _of_the_batch(self, x: Node, affine: Sequence[Node]) -> Node:
        """x normalized by its own mean and variance, times weight plus bias. Its gradients are
        computed from two sums, of the cotangent and of its product with the distance from the mean.
        """
        ct = param("ct", x.type.dtype, x.shape)
        result = self._normalized(x, affine)
        body = closed("batch_norm", [x, *affine], [result])
        back = self._gradients(x, affine, ct)
        gradient = closed("batch_norm_gradient", [x, *affine, result, ct], back)
        return Node.of(CustomGradient(body, gradient, "batch_norm"), x, *affine)

    def _normalized(self, x: Node, affine: Sequence[Node]) -> Node:
        wide = self._grouped(build.compute(x))
        _, gap, spread = _moments(wide, self._around(wide))
        result = build.mul(gap, rsqrt(build.add(spread, self.epsilon)))
        known = dict(zip(("weight", "bias"), map(build.compute, affine), strict=False))
        result = build.reshape(scaled(result, known, (self._own(wide),)), x.shape)
        return build.cast(result, x.type.dtype)

    def _gradients(self, x: Node, affine: Sequence[Node], ct: Node) -> list[Node]:
        """The cotangents of x, weight and bias."""
        wide, asked = self._grouped(build.compute(x)), self._grouped(build.compute(ct))
        axes = self._around(wide)
        _, gap, spread = _moments(wide, axes)
        inverse = rsqrt(build.add(spread, self.epsilon))
        total = build.reduce(asked, "add", axes, True)
        along = build.reduce(build.mul(asked, gap), "add", axes, True)
        scale = inverse
        if affine:
            weight = build.spread(build.compute(affine[0]), inverse.shape, (self._own(wide),))
            scale = build.mul(inverse, weight)
        count = statistics.number(wide, axes)
        slope = build.mul(scale, build.div(build.mul(along, build.mul(inverse, inverse)), count))
        level = build.mul(scale, build.div(total, count))
        back = build.sub(build.mul(asked, scale), build.add(build.mul(gap, slope), level))
        gradients = [back, build.mul(along, inverse), total][: 1 + len(affine)]
        if self.groups > 1:
            gradients[1:] = [build.reduce(one, "add", (0,)) for one in gradients[1:]]
        return [
            build.cast(build.reshape(one, node.shape), node.type.dtype)
            for one, node in zip(gradients, (x, *affine), strict=True)
        ]

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
            {"groups": 2},
        )

    @classmethod
    def drawn(cls) -> tuple[str, ...]:
        return ("normal", "positive")


def _moments(x: Node, axes: tuple[int, ...]) -> tuple[Node, Node, Node]:
    """The mean over axes, kept with extent 1, the distance from it, and the variance."""
    average = statistics.mean(x, axes, True)
    gap = build.sub(x, average)
    return average, gap, statistics.mean(build.mul(gap, gap), axes, True)
