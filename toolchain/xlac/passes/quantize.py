"""Weights as 8-bit integers: those of dots and convolutions, symmetrically, with a scale for each
output channel.

    dot(x, w)  >>  dot(x, q) * scale        q = round(w / scale) in i8, scale = max |w| / 127 along
    the sum

Sums are in f32 as before; kernels convert q as they read it. This runs on the graph that is
scheduled, after every pass, so that nothing turns q back into floats. Scales are bf16, rounded up
so that |q| is at most 127.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node, map_bodies
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.leaf import Param, param
from xlac.passes.weights import Weights
from xlac_sdk.dtypes import DType

ROOM = 1 + 2.0**-8  # bf16 rounds by half of this at most


@dataclass(slots=True)
class Quantised:
    """The quantised weights: for the name of each, the names of its integers and scales, and the
    axes summed over.
    """

    weights: Weights
    names: dict[str, tuple[str, str, tuple[int, ...]]] = field(default_factory=dict)
    _made: dict[tuple[str, tuple[int, ...]], tuple[Node, Node]] = field(default_factory=dict)

    def restored(self) -> Mapping[str, Array]:
        """All weights, with the quantised ones replaced by their dequantised values."""
        arrays = dict(self.weights.items())
        for name, (integers, scales, axes) in self.names.items():
            scale = np.expand_dims(self.weights[scales].astype(np.float64), axes)
            arrays[name] = (self.weights[integers] * scale).astype(np.float32)
        return arrays

    def pair(self, weight: Node, axes: tuple[int, ...]) -> tuple[Node, Node]:
        """The integers of a weight, and the scales for the axes that remain when `axes` are
        summed.
        """
        assert isinstance(weight.op, Param)
        key = weight.op.name, axes
        if key not in self._made:
            kept = tuple(a for a in range(weight.type.rank) if a not in axes)
            most = build.reduce(build.apply1("abs", weight), "max", axes)
            # a channel of zeros may have any scale
            least = build.select(build.compare(most, "eq", 0.0), 127.0, most)
            scale = self.weights.derive(build.cast(build.mul(least, ROOM / 127), DType.BF16))
            wide = build.spread(build.cast(scale, DType.F32), weight.shape, kept)
            integers = self.weights.derive(
                build.cast(build.apply1("round", build.div(weight, wide)), DType.I8)
            )
            assert isinstance(scale.op, Param) and isinstance(integers.op, Param)
            self._made[key] = integers, scale
            self.names[weight.op.name] = integers.op.name, scale.op.name, axes
        return self._made[key]


def quantised(graph: Graph, weights: Weights) -> tuple[Graph, Quantised]:
    """The graph with the weights of its dots and convolutions in 8 bits, in bodies too, and a
    description of them.
    """
    done = Quantised(weights)

    def visit(node: Node) -> Node:
        if node.op.bodies():
            return map_bodies(node, lambda body: body.rewrite(visit))
        if not isinstance(node.op, Dot | Conv) or node.type.dtype is not DType.F32:
            return node
        for side in (1, 0):
            if _is_weight(node.inputs[side]) and (side == 1 or isinstance(node.op, Dot)):
                return _replaced(node, side, done)
        return node

    return graph.rewrite(visit), done


def _is_weight(node: Node) -> bool:
    return isinstance(node.op, Param) and node.op.kind == "weight" and node.type.dtype is DType.F32


def _replaced(node: Node, side: int, done: Quantised) -> Node:
    """A contraction with a weight as the operand `side`, rewritten as one over integers, then
    scaled.
    """
    weight = node.inputs[side]
    match node.op:
        case Dot() as op:
            batch, summed = ((op.batch_lhs, op.contract_lhs), (op.batch_rhs, op.contract_rhs))[side]
            free = op.free(node.inputs[0].type.rank, node.inputs[1].type.rank)
            own = len(free[side])
            first = len(batch) + (len(free[0]) if side else 0)
            goes = dict(zip(batch, range(len(batch)), strict=True)) | dict(
                zip(free[side], range(first, first + own), strict=True)
            )
        case Conv() as op:
            channel = op.layout[1].index("O")
            summed = tuple(a for a in range(weight.type.rank) if a != channel)
            goes = {channel: op.layout[2].index("C")}
        case _:
            raise AssertionError(node.op.mnemonic)
    integers, scale = done.pair(weight, tuple(sorted(summed)))
    inputs = (node.inputs[0], integers) if side else (integers, node.inputs[1])
    axes = [goes[a] for a in range(weight.type.rank) if a in goes]
    order = sorted(range(len(axes)), key=axes.__getitem__)
    wide = build.cast(scale, DType.F32)
    if order != list(range(len(axes))):
        wide = build.transpose(wide, order)
    wide = build.spread(wide, node.shape, sorted(axes))
    return build.mul(node.with_inputs(inputs), wide)


@dataclass(frozen=True, slots=True)
class Loss:
    """The difference between results with quantised and original weights, over random inputs: the
    largest over all elements.

    `relative` is the largest error over the largest absolute value of the same output.
    """

    absolute: float
    relative: float


def loss(
    graph: Graph,
    weights: Mapping[str, Array],
    done: Quantised,
    inputs: Sequence[Mapping[str, Array]],
) -> Loss:
    """Compares both sets of weights in float64, so that the numbers are the same on every
    machine.
    """
    restored = done.restored()
    absolute = relative = 0.0
    for given in inputs:
        exact = interpret(graph, given, weights, float64=True)
        results = interpret(graph, given, restored, float64=True)
        for name, value in exact.items():
            if not value.size or value.dtype.kind != "f":
                continue
            error = float(np.nanmax(np.abs(results[name].astype(np.float64) - value)))
            most = float(np.nanmax(np.abs(value)))
            absolute, relative = max(absolute, error), max(relative, error / most if most else 0.0)
    return Loss(absolute, relative)


def drawn(graph: Graph, count: int = 2) -> list[dict[str, Array]]:
    """Random inputs: normal numbers, small integers, states of zeros."""
    rng = np.random.default_rng(0)
    return [
        {param(n).name: _draw(n, rng) for n in graph.nodes() if _is_asked(n)} for _ in range(count)
    ]


def _is_asked(node: Node) -> bool:
    return isinstance(node.op, Param) and node.op.kind != "weight"


def _draw(node: Node, rng: np.random.Generator) -> Array:
    shape, dtype = static(node.shape), node.type.dtype
    if param(node).kind == "state":
        return np.zeros(shape, dtype.numpy)
    return (
        rng.standard_normal(shape).astype(dtype.numpy)
        if dtype.is_float
        else rng.integers(0, 2, shape).astype(dtype.numpy)
    )
