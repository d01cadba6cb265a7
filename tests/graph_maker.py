"""Grows a random graph step by step, from leaves; steps are in the `graph_` files beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

FLOATS = (DType.F32, DType.F32, DType.F32, DType.F32, DType.F64, DType.F16, DType.BF16)
INTEGERS = (DType.I32, DType.I64, DType.I8, DType.U8, DType.U32)
LARGEST = 1500  # elements of a value
BOUND = 60.0  # of the values of floats


@dataclass(frozen=True, eq=False)
class Case:
    """A graph and everything needed to run it."""

    graph: Graph
    inputs: Mapping[str, Array]
    weights: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Value:
    """A node, the largest absolute value of its elements, and whether they are free of rounding."""

    node: Node
    bound: float
    exact: bool = False

    @property
    def dtype(self) -> DType:
        return self.node.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(s for s in self.node.shape if isinstance(s, int))

    def __str__(self) -> str:
        return str(self.node.type)


class Maker:
    """Grows a graph step by step from values that it has."""

    def __init__(self, random: Random, steps: Sequence[Step]) -> None:
        self.random = random
        self.steps = steps
        self.values: list[Value] = []
        self.inputs: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}
        self.params: list[Node] = []

    def case(self, steps: int) -> Case:
        for _ in range(self.random.randint(1, 3)):
            self.values.append(self.param(self.shape(), self.random.choice(FLOATS)))
        grown = 0
        for _ in range(steps * 3):
            found = self.random.choice(self.steps)(self)
            if found is None or (found.node.type.size == 0 and self.random.random() < 0.8):
                continue
            if math.prod(found.shape) > LARGEST or found.bound > BOUND:
                continue
            self.values.append(found)
            grown += 1
            if grown == steps:
                break
        chosen = [
            self.values[-1],
            *self.random.sample(self.values, self.random.randint(0, min(2, len(self.values)))),
        ]
        outputs = {f"y{n}": node for n, node in enumerate(dict.fromkeys(v.node for v in chosen))}
        return Case(Graph("random", tuple(self.params), outputs), self.inputs, self.weights)

    def size(self) -> int:
        return self.random.choice(
            (1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 0 if self.random.random() < 0.1 else 6)
        )

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.random.choice((0, 1, 2, 2, 3, 3, 4)) if rank is None else rank
        sizes = [self.size() for _ in range(rank)]
        while math.prod(sizes) > LARGEST // 4:
            sizes[sizes.index(max(sizes))] = 2
        return tuple(sizes)

    def param(self, shape: tuple[int, ...], dtype: DType, kind: str = "input") -> Value:
        numbers = np.random.default_rng(self.random.randint(0, 2**31))
        if dtype is DType.BOOL:
            array = numbers.random(shape) < 0.5
        elif dtype.is_integer:
            array = numbers.integers(0 if not dtype.is_signed else -7, 8, shape).astype(dtype.numpy)
        else:
            array = numbers.uniform(-1.5, 1.5, shape).astype(np.float32).astype(dtype.numpy)
        name = f"{'w' if kind == 'weight' else 'x'}{len(self.inputs) + len(self.weights)}"
        (self.weights if kind == "weight" else self.inputs)[name] = np.asarray(array)
        node = build.param(name, dtype, shape, kind)
        if kind != "weight":
            self.params.append(node)
        return Value(node, 7.0 if dtype.is_integer else 1.5, True)

    def fresh(self, shape: tuple[int, ...], dtype: DType) -> Value:
        """An operand: an input, a weight, or a constant."""
        if self.random.random() < 0.25:
            numbers = np.random.default_rng(self.random.randint(0, 2**31))
            low = 0 if dtype.is_integer and not dtype.is_signed else -2
            array = (
                numbers.integers(low, 3, shape)
                if dtype.is_integer
                else numbers.uniform(-1.5, 1.5, shape)
            )
            return Value(build.constant(array, dtype), 2.0, True)
        return self.param(shape, dtype, self.random.choice(("input", "weight", "weight")))

    def some(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        found = [v for v in self.values[-6:] if accept(v)] or [v for v in self.values if accept(v)]
        return self.random.choice(found) if found else None

    def number(self) -> Value | None:
        return self.some(lambda v: v.dtype.is_float)

    def partner(self, x: Value) -> Value:
        """An operand of the same type as x, sometimes one that is broadcast."""
        alike = [v for v in self.values if v.node.type == x.node.type]
        if alike and self.random.random() < 0.6:
            return self.random.choice(alike)
        if not x.shape or self.random.random() < 0.3:
            return self.fresh(x.shape, x.dtype)
        axes = tuple(a for a in range(len(x.shape)) if self.random.random() < 0.5)
        small = self.fresh(tuple(x.shape[a] for a in axes), x.dtype)
        return Value(
            build.spread(small.node, x.shape, axes)
            if axes != tuple(range(len(x.shape)))
            else small.node,
            small.bound,
            True,
        )


Step = Callable[[Maker], Value | None]
"""Grows a graph by a value, or finds that it does not fit."""
