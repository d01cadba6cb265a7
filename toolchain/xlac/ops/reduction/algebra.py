"""Linear algebra and transforms, from loops and products: they are rare, and are written to be
short.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare, normal_axis
from xlac.ir.types import Type, Types
from xlac.ops import build
from xlac.ops.checks import FLOATS, check_dtype, check_one_dtype, check_table
from xlac.ops.control.control import Scan
from xlac.ops.scalar import arithmetic, convert
from xlac.ops.scalar.formula import Direct
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
WIDE = frozenset({DType.F32, DType.F64})


def check_square(mnemonic: str, a: Type) -> int:
    """The size of square matrices."""
    check_dtype(mnemonic, a, WIDE)
    if a.rank < 2 or a.shape[-1] != a.shape[-2] or not isinstance(a.shape[-1], int):
        raise ShapeError(f"{mnemonic} needs square matrices of known size, got {a}", operand=0)
    return a.shape[-1]


def entry(x: Node, axis: int, number: Node) -> Node:
    """The slice of x at one position of an axis, which it loses."""
    return build.take(x, number, axis)


def placed(x: Node, axis: int, number: Node, value: Node) -> Node:
    """x with the slice at one position of an axis replaced."""
    here = build.compare(build.iota(x.shape, axis), "eq", build.broadcast_to(number, x.shape))
    return build.select(here, build.back(value, x.shape, (axis,)), x)


@declare
class TriangularSolve(Composite):
    """The X for which a X = b, or X a = b when `left` is false, for triangular matrices a.

    Only the `lower` (or upper) triangle of a is read; `unit` takes its diagonal as 1; `transpose`
    solves with the transposed matrix. a is (…, n, n), b (…, n, m), or (…, m, n) when `left` is
    false.
    """

    mnemonic = "triangular_solve"
    operands = ("a", "b")
    left: bool = True
    lower: bool = True
    unit: bool = False
    transpose: bool = False

    def infer(self, *types: Type) -> Type:
        a, b = types
        size = check_square(self.mnemonic, a)
        check_one_dtype(self.mnemonic, types)
        if (
            b.rank != a.rank
            or b.shape[:-2] != a.shape[:-2]
            or b.shape[-2 if self.left else -1] != size
        ):
            raise ShapeError(f"{self.mnemonic}: {b} does not fit {a}", operand=1)
        return b

    def expand(self, *inputs: Node) -> Node:
        a, b = inputs
        rank = a.type.rank
        swap = [*range(rank - 2), rank - 1, rank - 2]
        if not self.left:  # X a = b is a' X' = b'
            turned = TriangularSolve(True, self.lower, self.unit, not self.transpose)
            return build.transpose(turned.expand(a, build.transpose(b, swap)), swap)
        lower = self.lower
        if self.transpose:
            a, lower = build.transpose(a, swap), not lower
        size = check_square(self.mnemonic, a.type)
        batch = tuple(range(rank - 2))

        def step(x: Node, number: Node, a: Node, b: Node) -> Node:
            row = entry(a, rank - 2, number)  # (…, n)
            line = build.iota((size,), 0)
            known = build.compare(
                line, "lt" if lower else "gt", build.broadcast_to(number, (size,))
            )
            used = build.select(build.broadcast_to(known, row.shape), row, 0.0)
            rest = build.sub(
                entry(b, rank - 2, number),
                build.dot(used, x, ((rank - 2,), (rank - 2,)), (batch, batch)),
            )
            if not self.unit:
                pivot = build.reshape(entry(row, rank - 2, number), (*row.shape[:-1], 1))
                rest = build.div(rest, pivot)
            return placed(x, rank - 2, number, rest)

        return over(size, not lower, step, build.like(0.0, b), (a, b))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(a: Ints, b: Ints, dtype: DType = DType.F32, /, **given: bool) -> Sample:
            return Sample((Type(dtype, a), Type(dtype, b)), given, ("positive", "normal"))

        flags = [
            {"left": n & 1 > 0, "lower": n & 2 > 0, "unit": n & 4 > 0, "transpose": n & 8 > 0}
            for n in (0, 1, 2, 3, 9, 11, 3 + 8)
        ]
        found = [case((3, 3), (3, 2) if g["left"] else (2, 3), **g) for g in flags]
        return [
            *found,
            case((2, 3, 3), (2, 3, 1)),
            case((1, 1), (1, 4)),
            case((0, 2, 2), (0, 2, 3)),
            case((3, 3), (3, 2), DType.F64),
        ]


def over(size: int, reverse: bool, step: object, first: Node, given: tuple[Node, ...]) -> Node:
    """`step(carry, number, *given)` for each number below `size`, from `first` on."""
    types = [first.type, Type(DType.I64), *(g.type for g in given)]
    body = build.graph("step", types, step)  # type: ignore[arg-type]
    return Node.of(Scan(body, size, 1, 1, reverse), first, build.iota((size,), 0), *given)


@declare
class Cholesky(Composite):
    """The lower triangular L with L L' = a, or with `lower: false` the upper U with U' U = a, for
    positive definite a.

    Only that triangle of a is read. Where a is not positive definite there are NaNs.
    """

    mnemonic = "cholesky"
    operands = ("a",)
    lower: bool = True

    def infer(self, *types: Type) -> Type:
        (a,) = types
        check_square(self.mnemonic, a)
        return a

    def expand(self, *inputs: Node) -> Node:
        (a,) = inputs
        rank, size = a.type.rank, check_square(self.mnemonic, a.type)
        swap = [*range(rank - 2), rank - 1, rank - 2]
        if not self.lower:
            return build.transpose(Cholesky().expand(build.transpose(a, swap)), swap)
        batch = tuple(range(rank - 2))

        def step(low: Node, number: Node, a: Node) -> Node:
            row = entry(low, rank - 2, number)
            column = build.sub(
                entry(a, rank - 1, number),
                build.dot(low, row, ((rank - 1,), (rank - 2,)), (batch, batch)),
            )
            pivot = build.sqrt(
                build.reshape(entry(column, rank - 2, number), (*column.shape[:-1], 1))
            )
            line = build.iota((size,), 0)
            below = build.compare(line, "ge", build.broadcast_to(number, (size,)))
            kept = build.select(
                build.broadcast_to(below, column.shape), build.div(column, pivot), 0.0
            )
            return placed(low, rank - 1, number, kept)

        return over(size, False, step, build.like(0.0, a), (a,))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        found = [
            Sample((Type(DType.F32, s),), {}, ("positive",)) for s in ((1, 1), (0, 2, 2), (3, 1, 1))
        ]
        return [*found, Sample((Type(DType.F64, (1, 1)),), {"lower": False}, ("positive",))]


LONGEST = 1 << 14  # of an axis, whose transform is a product with a matrix of its square


@declare
class Fft(Composite):
    """The discrete Fourier transform along `axis` of complex numbers given as (real, imaginary): as
    many again.

    `inverse` turns it round and divides by the number of elements. It is a product with the matrix
    of the transform: meant to be right for any size, not fast for large ones.
    """

    mnemonic = "fft"
    operands = ("real", "imaginary")
    axis: int = -1
    inverse: bool = False

    def infer(self, *types: Type) -> Types:
        real, imaginary = types
        check_dtype(self.mnemonic, real, WIDE)
        if real != imaginary:
            raise ShapeError(
                f"fft needs two tensors of one type, got {real} and {imaginary}", operand=1
            )
        size: Dim = real.shape[normal_axis(self.axis, real.rank)]
        if not isinstance(size, int):
            raise ShapeError(f"fft needs to know the size of its axis, got {real}", operand=0)
        check_table(self.mnemonic, size * size, real, LONGEST**2)
        return real, real

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        real, imaginary = inputs
        axis, rank, dtype = normal_axis(self.axis, real.type.rank), real.type.rank, real.type.dtype
        size = real.shape[axis]
        assert isinstance(size, int)
        turn = (
            np.outer(np.arange(size), np.arange(size)) % max(1, size) * (2 * np.pi / max(1, size))
        )
        share = 1 / size if self.inverse and size else 1.0
        c = build.constant(np.cos(turn) * share, dtype)
        s = build.constant(np.sin(turn) * (share if self.inverse else -share), dtype)
        perm = [*range(axis), rank - 1, *range(axis, rank - 1)]

        def product(x: Node, matrix: Node) -> Node:
            return build.transpose(build.dot(x, matrix, ((axis,), (0,))), perm)

        return build.sub(product(real, c), product(imaginary, s)), build.add(
            product(real, s), product(imaginary, c)
        )

    def evaluate(self, *arrays: Array) -> tuple[Array, ...]:
        if 0 in arrays[0].shape:
            return arrays
        found = (np.fft.ifft if self.inverse else np.fft.fft)(
            arrays[0] + 1j * arrays[1], axis=self.axis
        )
        return found.real.astype(arrays[0].dtype), found.imag.astype(arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[Ints, int, bool]] = [
            ((8,), 0, False),
            ((7,), 0, True),
            ((3, 5), -1, False),
            ((5, 3), 0, True),
            ((0, 4), 1, False),
            ((3, 1), 1, True),
        ]
        found = [Sample((Type(DType.F32, s),) * 2, {"axis": a, "inverse": i}) for s, a, i in cases]
        return [*found, Sample((Type(DType.F64, (6,)),) * 2, {})]


@declare
class RoundHalfAway(Direct):
    """Rounds to the nearest integer, ties away from zero."""

    mnemonic = "round_half_away"

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        size = build.apply1("abs", x)
        down = Node.of(arithmetic.Floor(), size)
        up = build.select(
            build.compare(build.sub(size, down), "ge", 0.5), build.add(down, 1.0), down
        )
        return build.select(
            build.compare(x, "lt", 0.0),
            build.mul(up, -1.0),
            build.select(build.compare(x, "eq", 0.0), x, up),
        )

    def meaning(self, *arrays: Array) -> Array:
        (x,) = arrays
        whole = np.trunc(x)
        return np.copysign(
            np.where(np.abs(x - whole) >= 0.5, np.abs(whole) + 1, np.abs(whole)), x
        ).astype(x.dtype)


@declare
class ReducePrecision(Composite):
    """x rounded to nearest even as if it had `exponent_bits` and `mantissa_bits`; it keeps its
    element type.

    What is too large becomes infinite, what is too small a zero of its sign: subnormal results are
    flushed where there are fewer bits of exponent than the type has. NaN stays NaN, however few
    bits of mantissa are left.
    """

    mnemonic = "reduce_precision"
    exponent_bits: int = 8
    mantissa_bits: int = 7

    def infer(self, *types: Type) -> Type:
        (x,) = types
        check_dtype(self.mnemonic, x, FLOATS)
        if self.exponent_bits < 1 or self.mantissa_bits < 0:
            raise ShapeError(
                "reduce_precision keeps at least 1 bit of exponent", attribute="exponent_bits"
            )
        return x

    def expand(self, *inputs: Node) -> Node:
        (x,) = inputs
        dtype = x.type.dtype
        mantissa = {DType.F16: 10, DType.BF16: 7, DType.F32: 23, DType.F64: 52}[dtype]
        exponent = dtype.bits - 1 - mantissa
        whole = DType(f"u{dtype.bits}")
        bits = Node.of(convert.Bitcast(whole), x)

        def both(a: Node, b: int | Node) -> Node:
            return build.apply1("and", a, b if isinstance(b, Node) else build.constant(b, whole))

        gone = mantissa - self.mantissa_bits
        if gone > 0:
            last = both(build.apply1("shr", bits, build.constant(gone, whole)), 1)
            bits = build.add(bits, build.add(last, build.constant((1 << (gone - 1)) - 1, whole)))
            bits = both(bits, ((1 << (exponent + mantissa + 1)) - 1) & ~((1 << gone) - 1))
        if self.exponent_bits < exponent:
            reach = (1 << (self.exponent_bits - 1)) - 1
            bias = (1 << (exponent - 1)) - 1
            field = both(bits, ((1 << exponent) - 1) << mantissa)
            sign = both(bits, 1 << (exponent + mantissa))
            infinite = build.apply1(
                "or", sign, build.constant(((1 << exponent) - 1) << mantissa, whole)
            )
            bits = build.select(
                build.compare(field, "gt", build.constant((bias + reach) << mantissa, whole)),
                infinite,
                bits,
            )
            # a reach of 0 leaves one exponent, and it belongs to zero
            bits = build.select(
                build.compare(field, "le", build.constant((bias - reach) << mantissa, whole)),
                sign,
                bits,
            )
        found = Node.of(convert.Bitcast(dtype), bits)
        return build.select(build.compare(x, "ne", x), x, found)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        given = [(8, 7), (5, 10), (4, 3), (8, 23), (11, 52), (2, 0)]
        found = [
            Sample((Type(DType.F32, (3, 17)),), {"exponent_bits": e, "mantissa_bits": m}, (d,))
            for e, m in given
            for d in ("normal", "special")
        ]
        return found + [
            Sample((Type(d, (17,)),), {"exponent_bits": 5, "mantissa_bits": 2})
            for d in DType
            if d in FLOATS
        ]
