"""Classification losses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.faults import DeclaredFault
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, INTEGERS, check_dtype
from xlac.ops.nn.loss import Reduction, reduced
from xlac.ops.nn.probability import LogSoftmax
from xlac.ops.reduction.statistics import number
from xlac.ops.tensor.choose import TakeAlongAxis, from_either_end, wrapped
from xlac_sdk.dtypes import DType


def _holds(dtype: DType, value: int) -> bool:
    ends = np.iinfo(dtype.numpy)
    return bool(ends.min <= value <= ends.max)


class Classes(Composite):
    """Losses of class indices along `axis` of the prediction."""

    operands = ("prediction", "target", "weights?")
    reduction: Reduction
    axis: int
    ignore: int | None
    smoothing: float

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        """Class weights given as numbers are floats as precise as the prediction is computed."""
        x, *others = inputs
        nodes = [build.as_node(one) for one in (x, *others[:1])]
        wide = nodes[0].type.dtype.compute if nodes[0].type.dtype.is_float else DType.F32
        weak = [isinstance(one, build.Weak) for one in others[1:]]
        given = zip(others[1:], weak, strict=True)
        weights = (build.as_node(one, wide if known else None) for one, known in given)
        return (*nodes, *weights)

    def infer(self, *types: Type) -> Type:
        x, target = types[:2]
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
        self._check_options(target, x.shape[axis], types[2:])
        return Type(x.dtype, kept if self.reduction == "none" else ())

    def _check_options(self, target: Type, classes: Dim, weights: Sequence[Type]) -> None:
        """Raises ShapeError for options that do not fit together."""
        name = self.mnemonic
        if not 0 <= self.smoothing <= 1:
            problem = f"smoothing of {name} is 0 to 1, and not {self.smoothing}"
            raise ShapeError(problem, attribute="smoothing")
        if self.ignore is not None and target.dtype.is_float:
            problem = f"{name} ignores a class number, and {target} are probabilities"
            raise ShapeError(problem, attribute="ignore")
        if self.ignore is not None and not _holds(target.dtype, self.ignore):
            problem = f"{name}: no {target.dtype} is {self.ignore}, which is to be ignored"
            raise ShapeError(problem, attribute="ignore")
        for one in weights:
            check_dtype(name, one, FLOATS, 2)
            if one.shape != (classes,):
                problem = f"{name}: there is a weight for each of {classes} classes, got {one}"
                raise ShapeError(problem, operand=2)

    def logs(self, x: Node, axis: int) -> Node:
        """Log probabilities from the prediction."""
        return Node.of(LogSoftmax(axis), x)  # log_softmax has a derivative of its own

    def expand(self, *inputs: Node) -> Node:
        x = inputs[0]
        loss = self._each(*inputs)
        number = self.counted(*inputs) if self.reduction == "mean" else None
        if number is None:
            return build.cast(reduced(loss, self.reduction), x.type.dtype)
        return build.cast(build.div(build.reduce(loss, "add"), number), x.type.dtype)

    def counted(self, *inputs: Node) -> Node | None:
        """The divisor of the mean where it is not the number of rows: the number of rows not
        ignored, or the sum of their class weights; otherwise None.
        """
        share = self._share(*inputs)
        return None if share is None else build.reduce(share, "add")

    def _kept(self, target: Node) -> Node | None:
        """Which rows are not ignored; None: all."""
        return None if self.ignore is None else build.compare(target, "ne", self.ignore)

    def _places(self, target: Node) -> Node:
        """The target classes; arbitrary where a row is ignored."""
        kept = self._kept(target)
        return target if kept is None else build.select(kept, target, build.like(0, target))

    def _share(self, *inputs: Node) -> Node | None:
        """The weight of each row in the mean; None: equal."""
        x, target, *weights = inputs
        kept = self._kept(target)
        if target.type.dtype.is_float or (kept is None and not weights):
            return None
        dtype = x.type.dtype.compute
        if not weights:
            assert kept is not None
            return build.cast(kept, dtype)
        axis = normal_axis(self.axis, x.type.rank)
        own = build.take(
            build.cast(weights[0], dtype), wrapped(self._places(target), x.shape[axis]), 0
        )
        return own if kept is None else build.select(kept, own, build.like(0.0, own))

    def _each(self, *inputs: Node) -> Node:
        """The loss of each row."""
        x, target, *weights = inputs
        axis = normal_axis(self.axis, x.type.rank)
        wide, kept = build.compute(x), self._kept(target)
        if kept is not None:  # an ignored row's prediction affects neither loss nor gradient
            around = tuple(a for a in range(x.type.rank) if a != axis)
            wide = build.select(build.spread(kept, x.shape, around), wide, build.like(0.0, wide))
        logs = self.logs(wide, axis)
        each = logs
        if weights:
            row = build.spread(build.cast(weights[0], logs.type.dtype), x.shape, (axis,))
            each = build.mul(logs, row)
        if target.type.dtype.is_float:
            wanted = build.compute(target)
            if self.smoothing:
                wanted = build.add(build.mul(wanted, 1 - self.smoothing), self._evenly(logs, axis))
            chosen = build.reduce(build.mul(each, wanted), "add", axis)
        else:
            shape = (*target.shape[:axis], 1, *target.shape[axis:])
            places = build.reshape(self._places(target), shape)
            chosen = build.reshape(TakeAlongAxis(axis).expand(each, places), target.shape)
            if self.smoothing:
                even = build.mul(build.reduce(each, "add", axis), self._evenly(logs, axis))
                chosen = build.add(build.mul(chosen, 1 - self.smoothing), even)
        loss = build.mul(chosen, -1.0)
        return loss if kept is None else build.select(kept, loss, build.like(0.0, loss))

    def _evenly(self, logs: Node, axis: int) -> Node:
        """The share of label smoothing per class."""
        return build.div(self.smoothing, number(logs, axis))

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        x, target = inputs[:2]
        if target.type.dtype.is_float:
            return ()
        return from_either_end(self._places(target), x.shape[normal_axis(self.axis, x.type.rank)])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        draw = ("normal", "small")
        cases: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]] = [
            ((3, 8), (3,), {}), ((3, 8), (3,), {"reduction": "sum"}),
            ((3, 8), (3,), {"reduction": "none"}), ((8,), (), {}), ((2, 8, 5), (2, 5), {"axis": 1}),
            ((0, 8), (0,), {"reduction": "sum"}),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, s), Type(DType.I64, t)), g, draw) for s, t, g in cases]
        samples.append(Sample((Type(DType.F32, (3, 8)),) * 2, {}, ("normal", "positive")))
        samples += cls._optional_samples()
        return samples + [
            Sample((Type(d, (3, 8)), Type(DType.I32, (3,))), {}, draw) for d in DType if d in FLOATS
        ]

    @classmethod
    def _optional_samples(cls) -> Sequence[Sample]:
        """Samples with class weights, ignored rows, smoothing: alone and together."""
        x, rows, row = Type(DType.F32, (9, 8)), Type(DType.I64, (9,)), Type(DType.F32, (8,))
        draw = ("normal", "small", "positive")
        options: list[dict[str, object]] = [
            {"ignore": 3},
            {"smoothing": 0.1},
            {"ignore": 5, "smoothing": 0.2, "reduction": "none"},
        ]
        samples = [Sample((x, rows), given, draw) for given in options]
        samples += [Sample((x, rows, row), given, draw) for given in ({}, *options)]
        planes = Type(DType.F16, (2, 8, 5)), Type(DType.U8, (2, 5)), Type(DType.F16, (8,))
        samples.append(Sample(planes, {"axis": 1, "ignore": 2, "smoothing": 0.1}, draw))
        return [*samples, Sample((x, x, row), {"smoothing": 0.1}, ("normal", "positive"))]


@declare
class CrossEntropy(Classes):
    """The mean of -log softmax(prediction) at the wanted class: `target` holds class numbers, or
    probabilities.

    Class numbers count from the end when negative, and are clamped into range. A row whose target
    is `ignore` has neither loss nor gradient, and the mean is over the others. `smoothing` is the
    share of the target that all classes get alike. `weights` holds a factor for each class; the
    mean of class numbers divides by those of the wanted classes together.
    """

    mnemonic = "cross_entropy"
    reduction: Reduction = "mean"
    axis: int = -1
    ignore: int | None = None
    smoothing: float = 0.0


@declare
class SoftmaxCrossEntropy(Classes):
    """-log softmax(logits) at the wanted class for each example: `cross_entropy` without a
    reduction.
    """

    mnemonic = "softmax_cross_entropy"
    operands = ("logits", "target", "weights?")
    reduction: Reduction = "none"
    axis: int = -1
    ignore: int | None = None
    smoothing: float = 0.0


@declare
class NllLoss(Classes):
    """The mean of -prediction at the wanted class, the prediction being logarithms of
    probabilities.
    """

    mnemonic = "nll_loss"
    reduction: Reduction = "mean"
    axis: int = -1
    ignore: int | None = None
    smoothing: float = 0.0

    def logs(self, x: Node, axis: int) -> Node:
        return x
