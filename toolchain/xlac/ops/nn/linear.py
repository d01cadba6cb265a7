"""Matrix products as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.leading import all_mapped
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import FLOATS, NUMBERS, check_dtype, check_one_dtype
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


@declare
class Linear(Composite):
    """x @ weight.T + bias over the last axis, with `units` rows of weight.

    Several inputs have a weight each (`weight_0`, `weight_1`, …) and their products are added: that
    is the product of their concatenation. The bias is one for all.
    """

    mnemonic = "linear"
    operands = ("*xs",)
    units: int = 0
    bias: bool = True

    def parameters(self, *types: Type) -> Mapping[str, Type]:
        if not types:
            raise ShapeError("linear needs an input")
        for number, x in enumerate(types):
            if not x.shape:
                raise ShapeError(f"linear needs a last axis to multiply, got {x}", operand=number)
        names = ["weight"] if len(types) == 1 else [f"weight_{n}" for n in range(len(types))]
        learned = {
            name: Type(x.dtype, (self.units, x.shape[-1]))
            for name, x in zip(names, types, strict=True)
        }
        return learned | ({"bias": Type(types[0].dtype, (self.units,))} if self.bias else {})

    def infer(self, *types: Type) -> Type:
        count = (len(types) - self.bias) // 2
        if count < 1 or 2 * count + self.bias != len(types):
            raise ShapeError(
                f"linear needs as many weights as inputs{' and a bias' if self.bias else ''}, got "
                f"{len(types)} operands"
            )
        if self.units < 1:
            raise ShapeError(f"linear needs at least 1 unit, got {self.units}", attribute="units")
        xs, learned = types[:count], types[count:]
        for number, x in enumerate(xs):
            check_dtype(self.mnemonic, x, FLOATS, number)
        check_one_dtype(self.mnemonic, types)
        for number, x in enumerate(xs):
            if x.shape[:-1] != xs[0].shape[:-1]:
                raise ShapeError(
                    f"linear needs inputs alike but for the last axis, got {xs[0]} and {x}",
                    operand=number,
                )
        for number, (name, wanted) in enumerate(self.parameters(*xs).items()):
            if learned[number] != wanted:
                raise ShapeError(
                    f"{name} of linear is {wanted}, got {learned[number]}", operand=count + number
                )
        return Type(xs[0].dtype, (*xs[0].shape[:-1], self.units))

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        """The inputs carry the new axis as long as weights are not mapped."""
        count = (len(inputs) - self.bias) // 2
        if any(mapped[count:]):
            return None
        xs = all_mapped(inputs[:count], mapped[:count], size)
        return [Node.of(self, *xs, *inputs[count:])]

    def expand(self, *inputs: Node) -> Node:
        count = (len(inputs) - self.bias) // 2
        dtype = inputs[0].type.dtype
        total: Node | None = None
        for x, weight in zip(inputs[:count], inputs[count:], strict=False):
            part = build.dot(x, weight, ((x.type.rank - 1,), (1,)), out_dtype=dtype.compute)
            total = part if total is None else build.add(total, part)
        assert total is not None
        if self.bias:
            total = build.add(total, build.compute(inputs[-1]))
        return build.cast(total, dtype)

    def evaluate(self, *arrays: Array) -> Array:
        count = (len(arrays) - self.bias) // 2
        wide = [numeric.widen(a) for a in arrays]
        total = sum(np.matmul(x, w.T) for x, w in zip(wide[:count], wide[count:], strict=False))
        return numeric.narrow(total + wide[-1] if self.bias else total, arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            shapes: Sequence[Ints], units: int, bias: bool = True, dtype: DType = DType.F32
        ) -> Sample:
            xs = [Type(dtype, s) for s in shapes]
            op = cls(units=units, bias=bias)
            return Sample((*xs, *op.parameters(*xs).values()), {"units": units, "bias": bias})

        samples = [
            case([(3, 5)], 7), case([(3, 5)], 7, False), case([(5,)], 3), case([(2, 3, 5)], 4),
            case([(3, 5), (3, 2)], 7), case([(0, 5)], 3), case([(3, 0)], 3), case([(1, 64)], 128),
            case([(33, 65)], 67), case([(3, 5), (3, 2), (3, 1)], 2, False), case([(2, 1, 3, 5)], 1),
        ]  # fmt: skip
        return samples + [case([(3, 9)], 5, dtype=d) for d in DType if d in FLOATS]


@declare
class Matmul(Composite):
    """The matrix product of NumPy: the last two axes multiply, axes before them broadcast, vectors
    join in.
    """

    mnemonic = "matmul"
    operands = ("x", "y")

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        """Python numbers and arrays as nodes of one dtype."""
        return tuple(build.as_node(i, build.promoted(inputs)) for i in inputs)

    def infer(self, *types: Type) -> Type:
        x, y = types
        check_dtype(self.mnemonic, x, NUMBERS)
        check_one_dtype(self.mnemonic, types)
        if not x.shape or not y.shape:
            raise ShapeError(
                f"matmul needs at least vectors, got {x} and {y}",
                hint="write * for a product with a number",
            )
        depth = y.shape[-2] if y.rank > 1 else y.shape[0]
        if x.shape[-1] != depth:
            raise ShapeError(
                f"matmul: {x} has rows of {x.shape[-1]}, {y} has columns of {depth}", operand=1
            )
        batch = build.broadcast_shapes([x.shape[:-2], y.shape[:-2]])
        return Type(x.dtype, (*batch, *x.shape[-2:-1], *(y.shape[-1:] if y.rank > 1 else ())))

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        """The new axis is one of the broadcast axes, or of rows where the other operand is
        shared.
        """
        x, y = inputs
        ranks = [i.type.rank for i in node.inputs]
        if not mapped[1] and ranks[1] <= 2:
            return [Node.of(self, x, y)]
        if not all(mapped) or min(ranks) < 2:
            return None
        most = max(ranks)
        shapes = [
            (size, *(1,) * (most - r), *i.shape[1:]) for i, r in zip(inputs, ranks, strict=True)
        ]
        return [Node.of(self, *(build.reshape(i, s) for i, s in zip(inputs, shapes, strict=True)))]

    def expand(self, *inputs: Node) -> Node:
        x, y = inputs
        result = self.infer(x.type, y.type)
        if y.type.rank <= 2:  # the batch of x becomes rows
            return build.dot(x, y, ((x.type.rank - 1,), (max(0, y.type.rank - 2),)))
        if x.type.rank == 1:
            return build.reshape(Matmul().expand(build.reshape(x, (1, *x.shape)), y), result.shape)
        batch = build.broadcast_shapes([x.shape[:-2], y.shape[:-2]])
        x = build.broadcast_to(x, (*batch, *x.shape[-2:]))
        y = build.broadcast_to(y, (*batch, *y.shape[-2:]))
        rank = len(batch)
        axes = tuple(range(rank))
        return build.dot(x, y, ((rank + 1,), (rank,)), (axes, axes))

    def evaluate(self, *arrays: Array) -> Array:
        x, y = (numeric.widen(a) for a in arrays)
        with np.errstate(all="ignore"):
            return numeric.narrow(np.matmul(x, y), arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[tuple[Ints, Ints]] = [
            ((3, 5), (5, 7)), ((5,), (5,)), ((5,), (5, 7)), ((3, 5), (5,)), ((2, 3, 5), (5, 7)),
            ((2, 3, 5), (2, 5, 7)), ((1, 3, 5), (4, 5, 7)), ((2, 1, 3, 5), (4, 5, 7)),
            ((3, 5), (2, 5, 7)), ((5,), (2, 5, 7)), ((2, 3, 5), (5,)), ((0, 5), (5, 7)),
            ((3, 0), (0, 7)), ((65, 33), (33, 67)),
        ]  # fmt: skip
        samples = [Sample((Type(DType.F32, a), Type(DType.F32, b)), {}) for a, b in shapes]
        return samples + [
            Sample((Type(d, (3, 9)), Type(d, (9, 5))), {}, ("small" if d.is_integer else "normal",))
            for d in DType
            if d in NUMBERS
        ]
