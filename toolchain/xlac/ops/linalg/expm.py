"""Exponentials of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.complex.linalg import systems
from xlac.ops.complex.linalg.numbers import (
    Numbers,
    add,
    adjoint,
    concat,
    each,
    magnitude,
    part,
    product,
    rank,
    real,
    scaled,
    select,
    sub,
)
from xlac.ops.control.control import While
from xlac.ops.linalg.matrices import check_square, identity
from xlac.ops.linalg.matrix_operation import MatrixOperation
from xlac_sdk.dtypes import DType

PADE = {
    DType.F32: (3.925724783138660, (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1)),
    DType.F64: (
        5.371920351148152,
        (
            64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800,
            129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800,
            960960, 16380, 182, 1,
        ),
    ),
}  # fmt: skip
"""Diagonal Padé approximants of exp: the largest 1-norm for which one is exact to rounding, and the
coefficients of its numerator (Higham, The scaling and squaring method for the matrix exponential
revisited, 2005, table 2.3 and (2.3)).
"""
SHAPES = ((3, 3), (1, 1), (2, 2, 2), (0, 2, 2), (0, 0))


@declare
class Expm(MatrixOperation):
    """The exponential of square matrices (…, n, n): the sum of their powers aᵏ / k!.

    By a Padé approximant of a / 2^k, squared k times; the error grows with the norm of a. With
    `complex`, a and the result have a last axis of 2.
    """

    mnemonic = "expm"
    operands = ("a",)

    def infer(self, *types: Type) -> Type:
        check_square(self.mnemonic, self.part(types[0]))
        return types[0]

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        (change,) = tangents
        if change is None:
            return [None]
        return [Node.of(ExpmDerivative(complex=self.complex), node.inputs[0], change)]

    def expand(self, *inputs: Node) -> Node:
        (a,) = inputs
        return self.node(_exponential(self.numbers(a))) if a.type.size != 0 else a

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        single = [Sample((Type(DType.F32, s),), {}) for s in SHAPES]
        pairs = Sample((Type(DType.F32, (2, 2, 2)),), {"complex": True})
        return [*single, Sample((Type(DType.F64, (4, 4)),), {}), pairs]


@declare
class ExpmDerivative(MatrixOperation):
    """How the exponential of matrices a changes with a, for a change of a: both are (…, n, n).

    It is the upper right block of the exponential of [[a, change], [0, a]] (Al-Mohy and Higham,
    Computing the Fréchet derivative of the matrix exponential, 2009, (1.3)), and linear in
    `change`. With `complex`, all have a last axis of 2.
    """

    mnemonic = "expm_derivative"
    operands = ("a", "change")

    def infer(self, *types: Type) -> Type:
        check_square(self.mnemonic, self.part(types[0]))
        if types[1] != types[0]:
            raise ShapeError(f"{self.mnemonic}: {types[1]} is not of type {types[0]}", operand=1)
        return types[0]

    def linear(self) -> Sequence[Sequence[str]]:
        return (("change",),)

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None]:
        """By a, the upper right block of the same function of matrices of twice the size."""
        a, change = node.inputs
        by_a, total = tangents
        total = None if total is None else Node.of(self, a, total)
        if by_a is not None and a.type.size != 0:
            wide = _blocks(self.numbers(a), self.numbers(change))
            moved = self.numbers(by_a)
            both = _blocks(moved, real(0.0, moved), moved)
            whole = self.numbers(Node.of(self, self.node(wide), self.node(both)))
            found = self.node(_upper_right(whole))
            total = found if total is None else build.add(total, found)
        return [total]

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (cotangent,) = cotangents
        assert cotangent is not None
        turned = self.node(adjoint(self.numbers(node.inputs[0])))
        return [None, Node.of(self, turned, cotangent)]

    def expand(self, *inputs: Node) -> Node:
        if inputs[0].type.size == 0:
            return inputs[1]
        a, change = map(self.numbers, inputs)
        # of the size of a, as a change of any size would take more squarings
        axes = (rank(a) - 2, rank(a) - 1)
        sizes = [build.reduce(magnitude(x), "max", axes, keepdims=True) for x in (a, change)]
        sizes = [build.select(build.compare(s, "eq", 0.0), 1.0, s) for s in sizes]
        ratio = build.div(sizes[1], sizes[0])
        usual = build.apply1("isfinite", ratio)
        ratio = build.select(
            build.apply1("and", usual, build.compare(ratio, "gt", 0.0)), ratio, 1.0
        )
        small = each(lambda x: build.div(x, ratio), change)
        return self.node(scaled(_upper_right(_exponential(_blocks(a, small))), ratio))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        single = [Sample((Type(DType.F32, s),) * 2, {}) for s in SHAPES]
        pairs = Sample((Type(DType.F32, (2, 2, 2)),) * 2, {"complex": True})
        return [*single, Sample((Type(DType.F64, (3, 3)),) * 2, {}), pairs]


def _blocks(a: Numbers, b: Numbers, d: Numbers | None = None) -> Numbers:
    """[[a, b], [0, d]], with d = a unless given."""
    last = rank(a) - 1
    below = concat([real(0.0, a), a if d is None else d], last)
    return concat([concat([a, b], last), below], last - 1)


def _upper_right(x: Numbers) -> Numbers:
    """The upper right quarter of matrices."""
    size = x[0].shape[-1]
    assert isinstance(size, int)
    return part(x, (0, size // 2), (size // 2, size))


def _exponential(a: Numbers) -> Numbers:
    """A Padé approximant of exp(a / 2^k), squared k times."""
    bound, coefficients = PADE[a[0].type.dtype]
    norm = build.reduce(magnitude(a), "add", rank(a) - 2)
    norm = build.reduce(norm, "max", norm.type.rank - 1)
    count = build.apply1("ceil", build.apply1("log2", build.div(norm, bound)))
    # beyond every finite norm; NaN and infinite matrices are not squared
    usual = build.apply1("and", build.compare(count, "gt", 0.0), build.compare(count, "lt", 1100.0))
    times = build.cast(build.select(usual, count, 0.0), DType.I32)
    scale = build.apply1("exp2", build.apply1("neg", build.cast(times, a[0].type.dtype)))
    a = scaled(a, build.reshape(scale, (*scale.shape, 1, 1)))
    return _squared(_pade(a, coefficients), times)


def _pade(a: Numbers, coefficients: tuple[int, ...]) -> Numbers:
    """The approximant (V - U)⁻¹ (V + U) of exp(a), with odd powers in U and even ones in V; as
    I + 2 (V - U)⁻¹ U, which rounds only what is not I where a is small.
    """
    square = product(a, a)
    powers = [real(identity(a[0].type), a), square]
    for _ in range(len(coefficients) // 2 - 2):
        powers.append(product(powers[-1], square))

    def total(first: int) -> Numbers:
        terms = [
            each(lambda x, c=c: build.mul(x, float(c)), p)  # type: ignore[misc]
            for p, c in zip(powers, coefficients[first::2], strict=True)
        ]
        held = terms[-1]  # the smallest terms first
        for term in reversed(terms[:-1]):
            held = add(held, term)
        return held

    odd, even = product(a, total(1)), total(0)
    rest = _solved(sub(even, odd), odd)
    return add(powers[0], each(lambda x: build.mul(x, 2.0), rest))


def _solved(a: Numbers, b: Numbers) -> Numbers:
    """The X for which a X = b."""
    if len(a) == 1:
        return (build.apply1("solve", a[0], b[0]),)
    packed, _, order = systems.lu(a)
    return systems.solved(packed, order, b)


def _squared(x: Numbers, times: Node) -> Numbers:
    """Each matrix squared `times` times; one loop for all."""
    most = build.reduce(times, "max", list(range(times.type.rank))) if times.shape else times
    step = build.constant(0, DType.I32)
    types = (step.type, most.type, times.type, *(p.type for p in x))

    def going(at: Node, end: Node, count: Node, *held: Node) -> list[Node]:
        return [build.compare(at, "lt", end)]

    def turn(at: Node, end: Node, count: Node, *held: Node) -> list[Node]:
        more = build.compare(count, "gt", build.broadcast_to(at, count.shape))
        more = build.broadcast_to(build.reshape(more, (*more.shape, 1, 1)), held[0].shape)
        return [build.add(at, 1), end, count, *select(more, product(held, held), held)]

    loop = While(build.graph("going", types, going), build.graph("turn", types, turn))
    return tuple(build.results(Node.of(loop, step, most, times, *x))[3:])
