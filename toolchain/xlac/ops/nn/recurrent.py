"""Recurrent cells: one step each. A sequence is a `scan` of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.checks import FLOATS, check_dtype, check_one_dtype
from xlac.ops.scalar.activation import sigmoid, tanh
from xlac_sdk.dtypes import DType


class Cell(Composite):
    """x (…, inputs) and states (…, units), then `weight` (gates * units, inputs), `recurrent`
    (gates * units, units) and biases.
    """

    gates: ClassVar[int]
    states: ClassVar[int]
    bias: bool

    def parameters(self, *types: Type) -> Mapping[str, Type]:
        x, *states = types
        check_dtype(self.mnemonic, x, FLOATS)
        check_one_dtype(self.mnemonic, types)
        if not x.shape or not states[0].shape:
            raise ShapeError(
                f"{self.mnemonic} needs a last axis to multiply, got {x} and {states[0]}"
            )
        for number, state in enumerate(states, 1):
            if state.shape[:-1] != x.shape[:-1] or state.shape != states[0].shape:
                raise ShapeError(f"{self.mnemonic}: state {state} does not fit {x}", operand=number)
        units = states[0].shape[-1]
        rows = units * self.gates
        learned = {
            "weight": Type(x.dtype, (rows, x.shape[-1])),
            "recurrent": Type(x.dtype, (rows, units)),
        }
        return learned | (
            {"bias": Type(x.dtype, (rows,)), "recurrent_bias": Type(x.dtype, (rows,))}
            if self.bias
            else {}
        )

    def check(self, types: Sequence[Type]) -> Type:
        """The type of the state, once operands are checked. Raises ShapeError."""
        given, learned = types[: 1 + self.states], types[1 + self.states :]
        wanted = self.parameters(*given)
        if len(learned) != len(wanted):
            raise ShapeError(
                f"{self.mnemonic} needs {', '.join(wanted)} after its states, got {len(learned)} "
                "more operands"
            )
        for number, (name, type) in enumerate(wanted.items()):
            if learned[number] != type:
                raise ShapeError(
                    f"{name} of {self.mnemonic} is {type}, got {learned[number]}",
                    operand=1 + self.states + number,
                )
        return types[1]

    def products(self, x: Node, h: Node, learned: Sequence[Node]) -> tuple[list[Node], list[Node]]:
        """The products of x and of the state for each gate, in the compute type."""
        products = []
        for number, value in enumerate((x, h)):
            total = build.dot(
                value,
                learned[number],
                ((value.type.rank - 1,), (1,)),
                out_dtype=x.type.dtype.compute,
            )
            if self.bias:
                total = build.add(total, build.compute(learned[2 + number]))
            last, units = total.type.rank - 1, h.shape[-1]
            products.append(
                [build.cut(total, last, units * g, units * (g + 1)) for g in range(self.gates)]
            )
        return products[0], products[1]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(x: tuple[int, ...], units: int, dtype: DType = DType.F32, **given: bool) -> Sample:
            state = Type(dtype, (*x[:-1], units))
            types = (Type(dtype, x), *[state] * cls.states)
            op = cls(**given)
            return Sample((*types, *op.parameters(*types).values()), given)

        samples = [
            case((3, 5), 7),
            case((5,), 4),
            case((3, 5), 7, bias=False),
            case((0, 5), 3),
            case((1, 60), 60),
            case((2, 3, 4), 1),
        ]
        return samples + [case((3, 5), 4, d) for d in DType if d in FLOATS]


@declare
class LstmCell(Cell):
    """One step of an LSTM: (h, c) from x, h and c. Gates are in the order input, forget, cell,
    output, as in PyTorch.
    """

    mnemonic, gates, states = "lstm_cell", 4, 2
    operands = ("x", "h", "c")
    bias: bool = True

    def infer(self, *types: Type) -> Types:
        h = self.check(types)
        return h, h

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        x, h, c, *learned = inputs
        i, f, g, o = (build.add(a, b) for a, b in zip(*self.products(x, h, learned), strict=True))
        kept = build.mul(sigmoid(f), build.compute(c))
        new = build.add(kept, build.mul(sigmoid(i), tanh(g)))
        return build.cast(build.mul(sigmoid(o), tanh(new)), h.type.dtype), build.cast(
            new, h.type.dtype
        )


@declare
class GruCell(Cell):
    """One step of a GRU: h from x and h. Gates in PyTorch's order: reset, update, new."""

    mnemonic, gates, states = "gru_cell", 3, 1
    operands = ("x", "h")
    bias: bool = True

    def infer(self, *types: Type) -> Type:
        return self.check(types)

    def expand(self, *inputs: Node) -> Node:
        x, h, *learned = inputs
        (xr, xz, xn), (hr, hz, hn) = self.products(x, h, learned)
        reset, update = sigmoid(build.add(xr, hr)), sigmoid(build.add(xz, hz))
        new = tanh(build.add(xn, build.mul(reset, hn)))
        wide = build.compute(h)
        return build.cast(build.add(new, build.mul(update, build.sub(wide, new))), h.type.dtype)


@declare
class RnnCell(Cell):
    """One step of a plain recurrent network: tanh(W x + R h + biases)."""

    mnemonic, gates, states = "rnn_cell", 1, 1
    operands = ("x", "h")
    bias: bool = True

    def infer(self, *types: Type) -> Type:
        return self.check(types)

    def expand(self, *inputs: Node) -> Node:
        x, h, *learned = inputs
        (a,), (b,) = self.products(x, h, learned)
        return build.cast(tanh(build.add(a, b)), h.type.dtype)
