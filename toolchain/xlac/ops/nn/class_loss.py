"""Losses of predictions of classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xlac.ir.composite import Composite
from xlac.ir.faults import DeclaredFault
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, INTEGERS, check_dtype
from xlac.ops.nn.loss import Reduction, reduced
from xlac.ops.nn.probability import LogSoftmax
from xlac.ops.tensor.choose import TakeAlongAxis, from_either_end
from xlac_sdk.dtypes import DType


class Classes(Composite):
    """Losses of class numbers along `axis` of the prediction."""

    operands = ("prediction", "target")
    reduction: Reduction
    axis: int

    def infer(self, *types: Type) -> Type:
        x, target = types
        check_dtype(self.mnemonic, x, FLOATS)
        axis = normal_axis(self.axis, x.rank)
        kept = (*x.shape[:axis], *x.shape[axis + 1 :])
        if target.dtype.is_float:
            if target != x:
                raise ShapeError(
                    f"{self.mnemonic} of probabilities needs {x}, got {target}", operand=1
                )
        else:
            check_dtype(self.mnemonic, target, INTEGERS, 1)
            if target.shape != kept:
                raise ShapeError(
                    f"{self.mnemonic}: classes {target} do not fit {x} without axis {axis}",
                    operand=1,
                )
        if x.shape[axis] == 0:
            raise ShapeError(f"{self.mnemonic} of no classes: {x}", operand=0)
        return Type(x.dtype, kept if self.reduction == "none" else ())

    @abstractmethod
    def logs(self, x: Node, axis: int) -> Node:
        """Logarithms of probabilities from the prediction."""

    def expand(self, *inputs: Node) -> Node:
        x, target = inputs
        axis = normal_axis(self.axis, x.type.rank)
        logs = self.logs(build.compute(x), axis)
        if target.type.dtype.is_float:
            chosen = build.reduce(build.mul(logs, build.compute(target)), "add", axis)
        else:
            shape = (*target.shape[:axis], 1, *target.shape[axis:])
            chosen = build.reshape(
                TakeAlongAxis(axis).expand(logs, build.reshape(target, shape)), target.shape
            )
        return build.cast(reduced(build.mul(chosen, -1.0), self.reduction), x.type.dtype)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, target = inputs
        if target.type.dtype.is_float:
            return ()
        return from_either_end(target, x.shape[normal_axis(self.axis, x.type.rank)])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        draw = ("normal", "small")
        cases: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = [
            ((3, 8), (3,), {}), ((3, 8), (3,), {"reduction": "sum"}), ((3, 8), (3,), {"reduction": "none"}), ((8,), (), {}),
            ((2, 8, 5), (2, 5), {"axis": 1}), ((0, 8), (0,), {"reduction": "sum"}),
        ]  # fmt: skip
        found = [Sample((Type(DType.F32, s), Type(DType.I64, t)), g, draw) for s, t, g in cases]
        found.append(Sample((Type(DType.F32, (3, 8)),) * 2, {}, ("normal", "positive")))
        return found + [
            Sample((Type(d, (3, 8)), Type(DType.I32, (3,))), {}, draw) for d in DType if d in FLOATS
        ]


@declare
class CrossEntropy(Classes):
    """The mean of -log softmax(prediction) at the wanted class: `target` holds class numbers, or
    probabilities.

    Class numbers count from the end when negative, and are clamped into range.
    """

    mnemonic = "cross_entropy"
    reduction: Reduction = "mean"
    axis: int = -1

    def logs(self, x: Node, axis: int) -> Node:
        return LogSoftmax(axis).expand(x)


@declare
class SoftmaxCrossEntropy(Classes):
    """-log softmax(logits) at the wanted class for each example: `cross_entropy` without a
    reduction.
    """

    mnemonic = "softmax_cross_entropy"
    operands = ("logits", "target")
    reduction: Reduction = "none"
    axis: int = -1

    def logs(self, x: Node, axis: int) -> Node:
        return LogSoftmax(axis).expand(x)


@declare
class NllLoss(Classes):
    """The mean of -prediction at the wanted class, the prediction being logarithms of
    probabilities.
    """

    mnemonic = "nll_loss"
    reduction: Reduction = "mean"
    axis: int = -1

    def logs(self, x: Node, axis: int) -> Node:
        return x
