"""Linear algebra and transforms, from loops and products: they are rare, and are written to be
short.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import check_dtype, check_one_dtype
from xlac.ops.control.control import Scan
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
