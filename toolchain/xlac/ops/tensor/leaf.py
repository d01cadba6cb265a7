"""Where values come from: parameters, constants, counters and random bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from xlac.ir.dims import Dim, Shape, static
from xlac.ir.faults import DeclaredFault, SizeOverflow
from xlac.ir.graph import Graph, Node
from xlac.ir.leading import one_by_one
from xlac.ir.op import (
    Array,
    Elementwise,
    Index,
    Op,
    Operand,
    Sample,
    ShapeError,
    declare,
    frozen_array,
)
from xlac.ir.types import Type, Types
from xlac.ops import numeric, random
from xlac.ops.checks import NUMBERS
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const as KernelConst
from xlac_sdk.kernel_ir.kernel import Expr


@declare
class Param(Op):
    """A tensor from outside: an input, a learned weight, or state that calls update."""

    mnemonic = "param"
    operands = ()
    name: str = ""
    type: Type = Type(DType.F32)
    kind: str = "input"

    def infer(self, *types: Type) -> Type:
        () = types
        if self.kind not in ("input", "weight", "state"):
            raise ShapeError(
                f"a parameter is an input, weight or state, not {self.kind!r}", attribute="kind"
            )
        return self.type

    def evaluate(self, *arrays: Array) -> Array:
        raise LookupError(f"the value of parameter {self.name!r} was not given")


def param(node: Node) -> Param:
    """The operation of a node that is known to be a parameter."""
    assert isinstance(node.op, Param)
    return node.op


def asked(graph: Graph) -> tuple[Node, ...]:
    """What the caller supplies: the inputs of a graph that are not state."""
    return tuple(n for n in graph.inputs if param(n).kind == "input")


@declare
class Const(Elementwise):
    """An array known when the model is compiled."""

    mnemonic = "const"
    operands = ()
    value: Array = field(default_factory=lambda: frozen_array(0.0, np.dtype(np.float32)))

    def __post_init__(self) -> None:
        if self.value.flags.writeable:
            object.__setattr__(self, "value", frozen_array(self.value))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const):
            return NotImplemented
        a, b = self.value, other.value
        return a is b or (a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())

    def __hash__(self) -> int:
        return hash((self.value.dtype.name, self.value.shape, self.value.ravel()[:16].tobytes()))

    def infer(self, *types: Type) -> Type:
        () = types
        return Type(DType.of(self.value.dtype), self.value.shape)

    def evaluate(self, *arrays: Array) -> Array:
        return self.value

    @property
    def uniform(self) -> int | float | bool | None:
        """The number that every element is, bit for bit; None: they differ, or there are none."""
        if self.value.size == 0:
            return None
        bits = self.value.reshape(-1).view(f"u{self.value.dtype.itemsize}")
        if bits.size > 1 and (bits != bits[0]).any():
            return None
        first = self.value.reshape(-1)[0]
        return float(first) if numeric.is_float(self.value) else first.item()

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        value = self.uniform
        assert value is not None, "an array of different numbers is read from memory"
        return KernelConst(value, result.dtype.compute)


@declare
class Iota(Elementwise):
    """Counts from 0 along `axis`; every other axis repeats it."""

    mnemonic = "iota"
    operands = ()
    shape: Shape = (1,)
    axis: int = 0
    dtype: DType = DType.I64

    def infer(self, *types: Type) -> Type:
        () = types
        if not 0 <= self.axis < len(self.shape):
            raise ShapeError(
                f"axis {self.axis} is out of range for rank {len(self.shape)}", attribute="axis"
            )
        if self.dtype is DType.BOOL:
            raise ShapeError("iota counts in numbers, not bool", attribute="dtype")
        return Type(self.dtype, self.shape)

    def evaluate(self, *arrays: Array) -> Array:
        shape = static(self.shape)
        count = numeric.convert(np.arange(shape[self.axis], dtype=np.int64), self.dtype)
        along = count.reshape([-1 if a == self.axis else 1 for a in range(len(shape))])
        return np.broadcast_to(along, shape)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        return convert_element(at[self.axis], self.dtype)

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        last = self.shape[self.axis] - 1
        return (SizeOverflow(last, self.dtype, "the last number of a count"),)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        numbers = [
            Sample((), {"shape": (5,), "axis": 0, "dtype": d}) for d in DType if d in NUMBERS
        ]
        shapes: list[tuple[tuple[int, ...], int]] = [
            ((3, 4), 1),
            ((2, 3, 5), 0),
            ((0, 3), 1),
            ((1, 7, 2, 3), 1),
            ((4999,), 0),
        ]
        return numbers + [
            Sample((), {"shape": s, "axis": a, "dtype": DType.I32}) for s, a in shapes
        ]


@declare
class RngBits(Op):
    """Uniform random bits from a counter: the new state, and `shape` unsigned integers of `dtype`.

    The state is u64[2] (key, counter) for threefry (2x32, 20 rounds) and u64[3] (key, counter low,
    high) for philox (4x32, 10 rounds). Block i encrypts counter + i and gives 2 or 4 words of 32
    bits, of which narrow types take the low bits, and two of which make a u64, the low one first.
    The counter advances by the number of blocks. The elements of a block are neighbours as
    `random.layout` says: bit for bit what XLA's rng_bit_generator gives.
    """

    mnemonic = "rng_bits"
    operands = ("state",)
    algorithm: str = "threefry"
    shape: Shape = ()
    dtype: DType = DType.U32

    def infer(self, *types: Type) -> Types:
        (state,) = types
        if self.algorithm not in random.ALGORITHMS:
            raise ShapeError(
                f"unknown generator {self.algorithm!r}; there are threefry and philox",
                attribute="algorithm",
            )
        if not self.dtype.is_integer or self.dtype.is_signed:
            raise ShapeError(
                f"random bits are unsigned integers, not {self.dtype}", attribute="dtype"
            )
        wanted = Type(DType.U64, (random.ALGORITHMS[self.algorithm].state,))
        if state != wanted:
            raise ShapeError(f"the state of {self.algorithm} is {wanted}, got {state}", operand=0)
        return state, Type(self.dtype, self.shape)

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        """Each state draws bits of its own; of one state all have the same."""
        return one_by_one(node, inputs, mapped, size)

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        (state,) = arrays
        shape = static(self.shape)
        layout = random.layout(self.algorithm, shape, self.dtype)
        outer, steps, inner, count = static(
            (layout.outer, layout.steps, layout.inner, layout.count)
        )
        new, stream = random.words(self.algorithm, state, outer * steps * inner)
        if self.dtype is DType.U64:
            stream = stream[:, 0::2].astype(np.uint64) | stream[:, 1::2].astype(
                np.uint64
            ) << np.uint64(32)
        places = stream.reshape(outer, steps, inner, layout.each).swapaxes(2, 3)
        bits = places.reshape(outer, steps * layout.each, inner)[:, :count]
        return new, bits.astype(self.dtype.numpy).reshape(shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = []
        for algorithm, known in random.ALGORITHMS.items():
            state = (Type(DType.U64, (known.state,)),)
            for dtype in (DType.U8, DType.U16, DType.U32, DType.U64):
                samples.append(
                    Sample(state, {"algorithm": algorithm, "shape": (3, 5), "dtype": dtype})
                )
            for shape in ((), (0, 3), (4, 3), (3, 2, 5), (5, 3, 1), (4999,)):
                samples.append(
                    Sample(state, {"algorithm": algorithm, "shape": shape, "dtype": DType.U32})
                )
        return samples


def convert_element(value: Expr, dtype: DType) -> Expr:
    """A kernel value converted to `dtype`; a half comes back in f32, rounded, and is reached
    through f32.
    """
    if dtype.is_half:
        return build.cast(build.cast(build.cast(value, DType.F32), dtype), DType.F32)
    if dtype is DType.BOOL and value.dtype is not DType.BOOL:
        return build.apply(
            build.P.NE, value, KernelConst(0.0 if value.dtype.is_float else 0, value.dtype)
        )
    return build.cast(value, dtype)
