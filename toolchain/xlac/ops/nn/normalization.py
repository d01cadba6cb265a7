"""Normalizations. Half precision is computed in f32 and rounded once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, check_dtype, check_one_dtype, undivided
from xlac.ops.reduction import statistics
from xlac.ops.scalar import native
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


def rsqrt(x: Node) -> Node:
    """1 over the square root of x."""
    return Node.of(native.Rsqrt(), x)


class Normalization(Composite):
    """A normalization of x, whose further operands are learned tensors."""

    fewest: ClassVar[int] = 1  # the minimal rank of x
    # parameters that are running statistics, not trained
    statistics: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def learned(self, x: Type) -> Mapping[str, Shape]:
        """The shapes of the learned tensors."""

    def parameters(self, *types: Type) -> Mapping[str, Type]:
        (x,) = types
        self.check_input(x)
        return {name: Type(x.dtype, shape) for name, shape in self.learned(x).items()}

    def check_input(self, x: Type) -> None:
        """Raises ShapeError for an unsupported dtype or rank."""
        check_dtype(self.mnemonic, x, FLOATS)
        if x.rank < self.fewest:
            raise ShapeError(
                f"{self.mnemonic} needs a tensor of rank {self.fewest} or more, got {x}", operand=0
            )

    def infer(self, *types: Type) -> Type:
        x, *given = types
        wanted = self.parameters(x)
        if len(given) != len(wanted):
            raise ShapeError(
                f"{self.mnemonic} needs {', '.join(wanted) or 'nothing'} after its input, got "
                f"{len(given)} more operands"
            )
        check_one_dtype(self.mnemonic, types)
        for number, (name, type) in enumerate(wanted.items()):
            if given[number] != type:
                raise ShapeError(
                    f"{name} of {self.mnemonic} is {type}, got {given[number]}", operand=number + 1
                )
        return x

    def expand(self, *inputs: Node) -> Node:
        x, *given = inputs
        names = self.learned(x.type)
        wide = dict(zip(names, map(build.compute, given), strict=True))
        return build.cast(self.wide(build.compute(x), wide), x.type.dtype)

    @abstractmethod
    def wide(self, x: Node, learned: Mapping[str, Node]) -> Node:
        """The result in the compute type."""

    @classmethod
    def cases(cls, shapes: Sequence[Ints], *given: dict[str, object]) -> list[Sample]:
        """Samples for the shapes, for the attributes on the first shape, and for every element
        type.
        """
        chosen: list[tuple[Ints, dict[str, object]]] = [(s, {}) for s in shapes] + [
            (shapes[0], g) for g in given
        ]
        pairs: list[tuple[Type, dict[str, object]]] = [
            (Type(DType.F32, s), dict(g)) for s, g in chosen
        ]
        pairs += [(Type(d, shapes[0]), {}) for d in DType if d in FLOATS]
        base = cls.base()
        return [
            Sample((x, *cls(**(base | g)).parameters(x).values()), base | g, cls.drawn())
            for x, g in pairs
        ]

    @classmethod
    def base(cls) -> dict[str, object]:
        """Attributes that all samples need besides."""
        return {}

    @classmethod
    def drawn(cls) -> tuple[str, ...]:
        """The draws of samples' operands, the last one for all further operands."""
        return ("normal",)


def shifted(x: Node, axes: Sequence[int]) -> tuple[Node, Node]:
    """x minus its mean over axes, and its variance there; the variance keeps the axes with extent
    1.
    """
    gap = build.sub(x, statistics.mean(x, tuple(axes), True))
    return gap, statistics.mean(build.mul(gap, gap), tuple(axes), True)


def scaled(x: Node, learned: Mapping[str, Node], axes: Sequence[int]) -> Node:
    """x times weight plus bias, where these are given, along axes."""
    for name, combine in (("weight", build.mul), ("bias", build.add)):
        if name in learned:
            x = combine(x, build.spread(learned[name], x.shape, axes))
    return x


class Trailing(Normalization):
    """Normalizes over `axis` and every axis after it."""

    axis: int

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        if any(mapped[1:]):
            return None
        axis = {"axis": normal_axis(self.axis, node.inputs[0].type.rank) + 1}
        return [Node.of(replace(self, **axis), *inputs)]

    def axes(self, rank: int) -> Ints:
        """The axes that are normalised over: from `axis` to the last."""
        return tuple(range(normal_axis(self.axis, rank), rank))


@declare
class LayerNorm(Trailing):
    """Less the mean, over the deviation, of the axes from `axis` on, times weight plus bias."""

    mnemonic = "layer_norm"
    axis: int = -1
    epsilon: float = 1e-5
    affine: bool = True
    bias: bool = True

    def learned(self, x: Type) -> Mapping[str, Shape]:
        shape = tuple(x.shape[a] for a in self.axes(x.rank))
        names = (
            ["weight", "bias"] if self.affine and self.bias else ["weight"] if self.affine else []
        )
        return dict.fromkeys(names, shape)

    def wide(self, x: Node, learned: Mapping[str, Node]) -> Node:
        axes = self.axes(x.type.rank)
        gap, variance = shifted(x, axes)
        return scaled(build.mul(gap, rsqrt(build.add(variance, self.epsilon))), learned, axes)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return cls.cases(
            [(3, 17), (17,), (2, 3, 5), (0, 5), (2, 1, 3, 768)],
            {"axis": 0},
            {"affine": False},
            {"bias": False},
            {"epsilon": 1e-12},
        )


@declare
class RmsNorm(Trailing):
    """Over the root of the mean square of the axes from `axis` on, times `offset` + weight."""

    mnemonic = "rms_norm"
    axis: int = -1
    epsilon: float = 1e-6
    affine: bool = True
    offset: float = 0.0

    def learned(self, x: Type) -> Mapping[str, Shape]:
        return {"weight": tuple(x.shape[a] for a in self.axes(x.rank))} if self.affine else {}

    def wide(self, x: Node, learned: Mapping[str, Node]) -> Node:
        axes = self.axes(x.type.rank)
        square = statistics.mean(build.mul(x, x), axes, True)
        if self.offset and learned:
            learned = {"weight": build.add(learned["weight"], self.offset)}
        return scaled(build.mul(x, rsqrt(build.add(square, self.epsilon))), learned, axes)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return cls.cases(
            [(3, 17), (17,), (2, 3, 5), (0, 5)], {"axis": 0}, {"affine": False}, {"offset": 1.0}
        )


@declare
class GroupNorm(Normalization):
    """Less the mean, over the deviation, of each of `groups` groups of channels (axis 1), times
    weight plus bias.
    """

    mnemonic, fewest = "group_norm", 2
    groups: int = 1
    epsilon: float = 1e-5
    affine: bool = True

    def learned(self, x: Type) -> Mapping[str, Shape]:
        channels = x.shape[1]
        if not isinstance(channels, int) or self.groups < 1 or channels % self.groups:
            raise ShapeError(
                undivided(channels, "channels", f"{self.groups} groups"), attribute="groups"
            )
        return dict.fromkeys(("weight", "bias"), (channels,)) if self.affine else {}

    def wide(self, x: Node, learned: Mapping[str, Node]) -> Node:
        batch, channels, *inner = x.shape
        apart = build.reshape(x, (batch, self.groups, channels // self.groups, *inner))
        gap, variance = shifted(apart, range(2, apart.type.rank))
        return scaled(
            build.reshape(build.mul(gap, rsqrt(build.add(variance, self.epsilon))), x.shape),
            learned,
            (1,),
        )

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return cls.cases(
            [(2, 6, 5, 7), (2, 6), (3, 4, 9), (0, 4, 5)], {"affine": False}, {"groups": 6}
        )

    @classmethod
    def base(cls) -> dict[str, object]:
        return {"groups": 2}


@declare
class InstanceNorm(Normalization):
    """Less the mean, over the deviation, of each example's channels, times weight plus bias."""

    mnemonic, fewest = "instance_norm", 3
    epsilon: float = 1e-5
    affine: bool = True

    def learned(self, x: Type) -> Mapping[str, Shape]:
        return dict.fromkeys(("weight", "bias"), (x.shape[1],)) if self.affine else {}

    def wide(self, x: Node, learned: Mapping[str, Node]) -> Node:
        gap, variance = shifted(x, range(2, x.type.rank))
        return scaled(build.mul(gap, rsqrt(build.add(variance, self.epsilon))), learned, (1,))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return cls.cases([(2, 3, 5, 7), (3, 4, 9), (0, 4, 5)], {"affine": False})
