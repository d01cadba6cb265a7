"""Normalizations without learned tensors: across neighbouring channels, and of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.nn.normalization import Normalization
from xlac.ops.reduction import statistics
from xlac.ops.reduction.window import Window


@declare
class LocalResponseNorm(Normalization):
    """x over (`bias` + `alpha` / `size` * the sum of squares of `size` neighbouring channels) to
    the power `beta`.
    """

    mnemonic, fewest = "local_response_norm", 3
    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    bias: float = 1.0

    def learned(self, x: Type) -> Mapping[str, Shape]:
        if self.size < 1:
            raise ShapeError(f"size must be at least 1, got {self.size}", attribute="size")
        return {}

    def wide(self, x: Node, learned: Mapping[str, Node]) -> Node:
        rank = x.type.rank
        one, none = (1,) * rank, [0] * rank
        low, high, window = [*none], [*none], [1] * rank
        low[1], high[1], window[1] = (self.size - 1) // 2, self.size // 2, self.size
        total = Node.of(
            Window("add", None, tuple(window), one, tuple(low), tuple(high), one, one),
            build.mul(x, x),
        )
        base = build.add(build.mul(total, self.alpha / self.size), self.bias)
        return build.div(x, build.apply1("pow", base, self.beta))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return cls.cases(
            [(2, 7, 5, 3), (2, 3, 5), (0, 3, 5)],
            {"size": 2},
            {"size": 3, "alpha": 0.5, "beta": 0.5, "bias": 2.0},
        )


@declare
class Normalize(Normalization):
    """x over its length along `axis`, at least `epsilon`; `ord` is 1, 2 or inf as for `norm`."""

    mnemonic = "normalize"
    axis: int = -1
    ord: float = 2.0
    epsilon: float = 1e-12

    def learned(self, x: Type) -> Mapping[str, Shape]:
        statistics.Norm(normal_axis(self.axis, x.rank), True, self.ord).infer(x)
        return {}

    def wide(self, x: Node, learned: Mapping[str, Node]) -> Node:
        length = Node.of(statistics.Norm(self.axis, True, self.ord), x)  # has a derivative at 0
        return build.div(x, build.maximum(length, self.epsilon))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return cls.cases([(3, 17), (17,), (2, 3, 5), (0, 5)], {"axis": 0}, {"ord": 1.0})
