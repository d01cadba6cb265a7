"""Regression and probability losses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Sample, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, check_dtype, check_one_dtype
from xlac.ops.reduction import named_reductions, statistics
from xlac.ops.scalar import elementary, exponential, native
from xlac_sdk.dtypes import DType

Reduction = Literal["mean", "sum", "none"]


def reduced(x: Node, reduction: str, like: Node | None = None) -> Node:
    """The loss reduced to one number, or unreduced. A tangent says by `like` what is counted for
    the mean: an open size that is asked of the tangent itself would make a quotient of two.
    """
    if reduction == "none":
        return x
    total = build.reduce(x, "add")
    return total if reduction == "sum" else build.div(total, statistics.number(like or x, None))


class Pairwise(Composite):
    """An elementwise loss of two operands, reduced. Both have one type; half precision is computed
    in f32.
    """

    operands = ("prediction", "target")
    reduction: Reduction

    def infer(self, *types: Type) -> Type:
        x, y = types
        check_dtype(self.mnemonic, x, FLOATS)
        check_one_dtype(self.mnemonic, types)
        shape = build.broadcast_shapes([x.shape, y.shape])
        return Type(x.dtype, shape if self.reduction == "none" else ())

    def expand(self, *inputs: Node) -> Node:
        x, y = build.unify(*(build.compute(i) for i in inputs))
        return build.cast(reduced(self.each(x, y), self.reduction), inputs[0].type.dtype)

    @abstractmethod
    def each(self, x: Node, y: Node) -> Node:
        """The loss of each element."""

    def slopes(self, x: Node, y: Node) -> tuple[Node, Node] | None:
        """The derivatives of `each`, where those of its formula are NaN or 0 at points where the
        loss has finite ones; None: those of the formula.
        """
        return None

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        slopes = self.slopes(*build.unify(*(build.compute(i) for i in node.inputs)))
        if slopes is None:
            return None
        total: Node | None = None
        for slope, t in zip(slopes, tangents, strict=True):
            if t is not None:
                part = build.mul(build.broadcast_to(build.compute(t), slope.shape), slope)
                total = part if total is None else build.add(total, part)
        assert total is not None
        return [build.cast(reduced(total, self.reduction, slopes[0]), node.type.dtype)]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        draw = cls.drawn()
        samples = [
            Sample((Type(DType.F32, s),) * 2, {"reduction": r}, draw)
            for s in ((7,), (3, 5))
            for r in ("mean", "sum", "none")
        ]
        samples += [
            Sample((Type(DType.F32, ()),) * 2, {}, draw),
            Sample((Type(DType.F32, (0, 3)),) * 2, {"reduction": "sum"}, draw),
        ]
        return samples + [Sample((Type(d, (3, 5)),) * 2, {}, draw) for d in DType if d in FLOATS]

    @classmethod
    def drawn(cls) -> tuple[str, ...]:
        """The draws of samples' operands, the last one for all further operands."""
        return ("normal",)


@declare
class MseLoss(Pairwise):
    """The mean of squared differences."""

    mnemonic = "mse_loss"
    reduction: Reduction = "mean"

    def each(self, x: Node, y: Node) -> Node:
        gap = build.sub(x, y)
        return build.mul(gap, gap)


@declare
class L1Loss(Pairwise):
    """The mean of absolute differences."""

    mnemonic = "l1_loss"
    reduction: Reduction = "mean"

    def each(self, x: Node, y: Node) -> Node:
        return Node.of(native.Abs(), build.sub(x, y))


@declare
class HuberLoss(Pairwise):
    """Half the squared difference up to `delta`, and `delta` times the absolute one, less a
    constant, beyond it.
    """

    mnemonic = "huber_loss"
    reduction: Reduction = "mean"
    delta: float = 1.0

    def each(self, x: Node, y: Node) -> Node:
        size = Node.of(native.Abs(), build.sub(x, y))
        square = build.mul(build.mul(size, size), 0.5)
        line = build.mul(build.sub(size, 0.5 * self.delta), self.delta)
        return build.select(build.compare(size, "le", self.delta), square, line)

    def slopes(self, x: Node, y: Node) -> tuple[Node, Node] | None:
        """The difference, bounded: finite for infinite differences, and smooth at 0."""
        gap = build.sub(x, y)
        low = build.select(build.compare(gap, "le", -self.delta), -self.delta, gap)
        slope = build.select(build.compare(gap, "ge", self.delta), self.delta, low)
        return slope, build.apply1("neg", slope)


@declare
class BinaryCrossEntropy(Pairwise):
    """-(target log p + (1 - target) log(1 - p)) for probabilities p; logarithms >= -100."""

    mnemonic = "binary_cross_entropy"
    reduction: Reduction = "mean"

    def each(self, x: Node, y: Node) -> Node:
        yes = build.maximum(build.log(x), -100.0)
        no = build.maximum(Node.of(exponential.Log1p(), build.mul(x, -1.0)), -100.0)
        return build.mul(build.add(build.mul(y, yes), build.mul(build.sub(1.0, y), no)), -1.0)

    def slopes(self, x: Node, y: Node) -> tuple[Node, Node] | None:
        """(p - y) / (p (1 - p)), whose divisor is at least 1e-12 as PyTorch has it: a saturated
        sigmoid multiplies it by 0.
        """
        spread = build.maximum(build.mul(x, build.sub(1.0, x)), 1e-12)
        ends = build.compare(x, "eq", 0.0), build.compare(x, "eq", 1.0)
        inner = build.select(build.apply1("or", *ends), 0.5, x)  # 1 / 0 is no derivative of -100
        yes = build.maximum(build.log(inner), -100.0)
        no = build.maximum(elementary.log1p(build.mul(inner, -1.0)), -100.0)
        yes, no = (
            build.select(ends[0], low, build.select(ends[1], high, other))
            for low, high, other in ((-100.0, 0.0, yes), (0.0, -100.0, no))
        )
        return build.div(build.sub(x, y), spread), build.sub(no, yes)

    @classmethod
    def drawn(cls) -> tuple[str, ...]:
        return ("unit",)


@declare
class BinaryCrossEntropyWithLogits(Pairwise):
    """`binary_cross_entropy` of sigmoid(prediction), without its rounding."""

    mnemonic = "binary_cross_entropy_with_logits"
    reduction: Reduction = "mean"

    def each(self, x: Node, y: Node) -> Node:
        power = build.exp(build.mul(elementary.absolute(x), -1.0))
        return build.add(
            build.sub(build.maximum(x, 0.0), build.mul(x, y)), Node.of(exponential.Log1p(), power)
        )

    def slopes(self, x: Node, y: Node) -> tuple[Node, Node] | None:
        """sigmoid(x) - y, without cancellation for either target, and smooth at 0."""
        up = build.compare(x, "gt", 0.0)
        share = Node.of(native.Sigmoid(), build.select(up, build.mul(x, -1.0), x))
        slope = build.select(up, build.sub(build.sub(1.0, y), share), build.sub(share, y))
        return slope, build.mul(x, -1.0)


@declare
class KlDiv(Pairwise):
    """target * (log target - prediction), the prediction being logarithms; 0 where the target is 0.

    With `reduction: mean` it is the mean over all elements.
    """

    mnemonic = "kl_div"
    reduction: Reduction = "mean"
    log_target: bool = False

    def each(self, x: Node, y: Node) -> Node:
        if self.log_target:
            return build.mul(build.exp(y), build.sub(y, x))
        divergence = build.mul(y, build.sub(build.log(y), x))
        return build.select(build.compare(y, "eq", 0.0), build.like(0.0, y), divergence)

    @classmethod
    def drawn(cls) -> tuple[str, ...]:
        return ("normal", "positive")


@declare
class CosineSimilarity(Composite):
    """The cosine of the angle between x and y along `axis`; lengths count as at least `epsilon`."""

    mnemonic = "cosine_similarity"
    operands = ("x", "y")
    axis: int = -1
    epsilon: float = 1e-8

    def infer(self, *types: Type) -> Type:
        x, y = types
        check_dtype(self.mnemonic, x, FLOATS)
        check_one_dtype(self.mnemonic, types)
        whole = x.with_shape(build.broadcast_shapes([x.shape, y.shape]))
        return x.with_shape(
            named_reductions.reduced(whole, normal_axis(self.axis, whole.rank), False)
        )

    def expand(self, *inputs: Node) -> Node:
        x, y = build.unify(*(build.compute(i) for i in inputs))
        total = build.reduce(build.mul(x, y), "add", self.axis)
        norms = (Node.of(statistics.Norm(self.axis), v) for v in (x, y))  # has a slope at 0
        lengths = [build.maximum(norm, self.epsilon) for norm in norms]
        return build.cast(build.div(total, build.mul(*lengths)), inputs[0].type.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [
            Sample((Type(DType.F32, s),) * 2, {"axis": a})
            for s, a in (((7,), 0), ((3, 5), -1), ((3, 5), 0), ((0, 5), 1))
        ]
        return samples + [Sample((Type(d, (3, 5)),) * 2, {}) for d in DType if d in FLOATS]
