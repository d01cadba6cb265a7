"""Sums of products: the general dot product and the general convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, volume
from xlac.ir.graph import Node, apply
from xlac.ir.op import Array, Op, Sample, ShapeError, declare
from xlac.ir.permutations import inverse
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.checks import check_axes
from xlac.ops.scalar.convert import Cast
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]
BYTES = {DType.I8, DType.U8}
SHORT = (DType.I16, DType.I8)  # differences of bytes, and weights


def check_operands(mnemonic: str, lhs: Type, rhs: Type, out: DType | None) -> DType:
    """The element type of a contraction: that of its operands, or a wider one of the same class.

    One operand may be i8 where the other is of floats: quantised weights. Bytes of either sign may
    be multiplied where the result is wider, and so may i16 with i8.
    """
    if {lhs.dtype, rhs.dtype} == BYTES or (lhs.dtype, rhs.dtype) == SHORT:
        if out is None or not out.is_integer or out.bits < 32:
            raise ShapeError(f"{mnemonic} of {lhs} and {rhs} gives i32", attribute="out_dtype")
        return out
    dtype = rhs.dtype if lhs.dtype is DType.I8 and rhs.dtype.is_float else lhs.dtype
    if rhs.dtype is not dtype and not (rhs.dtype is DType.I8 and dtype.is_float):
        raise ShapeError(
            f"{mnemonic} needs one element type, got {lhs} and {rhs}",
            operand=1,
            hint="cast one of them",
        )
    if dtype is DType.BOOL:
        raise ShapeError(f"{mnemonic} takes numbers, got {lhs}", operand=0, hint="cast it first")
    if out is None:
        return dtype
    if out.is_float is not dtype.is_float or out.bits < dtype.bits or out is DType.BOOL:
        raise ShapeError(
            f"{mnemonic} of {dtype} cannot give {out}: it must be as wide and of its class",
            attribute="out_dtype",
        )
    return out


def alike(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    """Both operands in one type, that of floats if one is quantised; bytes stay as they are."""
    if lhs.dtype == rhs.dtype or lhs.dtype.itemsize == rhs.dtype.itemsize == 1:
        return lhs, rhs
    return (lhs.astype(rhs.dtype), rhs) if lhs.dtype == np.int8 else (lhs, rhs.astype(lhs.dtype))


def working(x: Array, out: DType | None) -> Array:
    """An operand in the type that sums are made in: the result's, f32 for halves, float64 if it is
    that already.
    """
    wide = numeric.widen(x)
    if out is None or wide.dtype.itemsize >= out.compute.nbytes:
        return wide
    return wide.astype(out.compute.numpy)


def rounded(result: Array, x: Array, out: DType | None) -> Array:
    """A sum in the result's type. Operands in float64 where the types say less keep the result in
    float64.
    """
    dtype = x.dtype if out is None or x.dtype == np.float64 else out.numpy
    return numeric.narrow(result, dtype)


LONG = 4096  # products that a library of linear algebra is trusted to add


def _product(left: Array, right: Array) -> Array:
    """Batched matrices multiplied; what parts of a long sum come to is added in more digits."""
    depth, dtype = left.shape[-1], np.result_type(left, right)
    if depth <= LONG or dtype.kind != "f":
        return np.asarray(np.matmul(left, right))
    total = np.zeros((*left.shape[:-1], right.shape[-1]), numeric.wider(dtype))
    for first in range(0, depth, LONG):
        total += np.matmul(left[..., first : first + LONG], right[..., first : first + LONG, :])
    product: Array = total.astype(dtype)
    return product


def _paired(axes: Ints, others: Ints) -> Ints:
    """Axes that are summed, in the order of their partners in the other operand."""
    return tuple(axes[others.index(other)] for other in sorted(others))


def narrowed(x: Node, dtype: DType) -> Node:
    """What a value was made of by a cast from a half `dtype`, which a product reads as well as the
    wider value; else the value itself.
    """
    inner = x.inputs[0] if isinstance(x.op, Cast) else x
    return inner if inner.type.dtype is dtype and dtype.is_half else x


SIDES = ("batch_lhs", "contract_lhs", "batch_rhs", "contract_rhs")


@declare
class Dot(Op):
    """Multiplies and sums over the `contract` axes, separately for each position of the `batch`
    axes.

    The result has the batch axes, then the free axes of lhs, then those of rhs. Halves accumulate
    in f32, integers wrap in the result's type. `out_dtype` may be wider than the operands. One
    operand may be i8 where the other is of floats: it is converted as it is read. Of i8 and u8 each
    operand may be either.
    """

    mnemonic = "dot"
    operands = ("lhs", "rhs")
    batch_lhs: tuple[int, ...] = ()
    batch_rhs: tuple[int, ...] = ()
    contract_lhs: tuple[int, ...] = ()
    contract_rhs: tuple[int, ...] = ()
    out_dtype: DType | None = None

    def infer(self, *types: Type) -> Type:
        lhs, rhs = types
        dtype = check_operands(self.mnemonic, lhs, rhs, self.out_dtype)
        for name in ("batch", "contract"):
            left, right = getattr(self, f"{name}_lhs"), getattr(self, f"{name}_rhs")
            if len(left) != len(right):
                raise ShapeError(
                    f"{name} axes must pair up, got {list(left)} and {list(right)}",
                    attribute=f"{name}_lhs",
                )
            for a, b in zip(left, right, strict=True):
                if 0 <= a < lhs.rank and 0 <= b < rhs.rank and lhs.shape[a] != rhs.shape[b]:
                    raise ShapeError(
                        f"dot: axis {a} of {lhs} has {lhs.shape[a]} elements, axis {b} of {rhs} "
                        f"has {rhs.shape[b]}",
                        operand=1,
                    )
        check_axes((*self.batch_lhs, *self.contract_lhs), lhs.rank, "contract_lhs")
        check_axes((*self.batch_rhs, *self.contract_rhs), rhs.rank, "contract_rhs")
        free_lhs, free_rhs = self.free(lhs.rank, rhs.rank)
        batch = tuple(lhs.shape[a] for a in self.batch_lhs)
        free = tuple(lhs.shape[a] for a in free_lhs) + tuple(rhs.shape[a] for a in free_rhs)
        return Type(dtype, batch + free)

    def free(self, rank_lhs: int, rank_rhs: int) -> tuple[Ints, Ints]:
        """The axes of each operand that are neither batch nor contracted."""
        used_lhs, used_rhs = (
            {*self.batch_lhs, *self.contract_lhs},
            {*self.batch_rhs, *self.contract_rhs},
        )
        lhs = tuple(a for a in range(rank_lhs) if a not in used_lhs)
        return lhs, tuple(a for a in range(rank_rhs) if a not in used_rhs)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("lhs",), ("rhs",))

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        assert not all(linear), "a product of two changes is not linear"
        lhs, rhs = node.inputs
        free_lhs, free_rhs = self.free(lhs.type.rank, rhs.type.rank)
        batch = tuple(range(len(self.batch_lhs)))
        first = len(batch)
        rows = tuple(range(first, first + len(free_lhs)))
        columns = tuple(range(first + len(free_lhs), ct.type.rank))
        if linear[0]:  # [batch, rows, columns] · rhs: the batch, rows, and what was summed
            other, free, own, theirs = rhs, rows, columns, free_rhs
            place, against = self.batch_rhs, self.contract_rhs
            layout = (*self.batch_lhs, *free_lhs, *_paired(self.contract_lhs, self.contract_rhs))
        else:
            other, free, own, theirs = lhs, columns, rows, free_lhs
            place, against = self.batch_lhs, self.contract_lhs
            layout = (*self.batch_rhs, *free_rhs, *_paired(self.contract_rhs, self.contract_lhs))
        assert len(free) + len(against) + first == len(layout)
        wanted = node.inputs[0 if linear[0] else 1].type
        wide = ct.type.dtype
        ct = narrowed(ct, other.type.dtype)
        if other.type.dtype not in (ct.type.dtype, DType.I8):
            other = apply("cast", other, dtype=wide)
        back = apply(
            "dot",
            ct,
            other,
            batch_lhs=batch,
            batch_rhs=place,
            contract_lhs=own,
            contract_rhs=theirs,
            out_dtype=None if ct.type.dtype is wide else wide,
        )
        if (perm := inverse(layout)) != tuple(range(len(layout))):
            back = apply("transpose", back, perm=perm)
        if wide is not wanted.dtype:
            back = apply("cast", back, dtype=wanted.dtype)
        return [back, None] if linear[0] else [None, back]

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        """An axis of both operands is one more of the batch, of one alone one more of its free
        axes.
        """
        lhs, rhs = inputs
        after: dict[str, Any] = {
            name: tuple(axis + on for axis in getattr(self, name))
            for name, on in zip(SIDES, (mapped[0], mapped[0], mapped[1], mapped[1]), strict=True)
        }
        if all(mapped):
            after |= {name: (0, *after[name]) for name in ("batch_lhs", "batch_rhs")}
        batched = Node.of(replace(self, **after), lhs, rhs)
        place = len(self.batch_lhs)
        if mapped[1] and not mapped[0]:
            place += len(self.free(lhs.type.rank, rhs.type.rank - 1)[0])
        if all(mapped) or place == 0:
            return [batched]
        others = (axis for axis in range(batched.type.rank) if axis != place)
        return [apply("transpose", batched, perm=(place, *others))]

    def rows(self, lhs: Type, rhs: Type) -> Dim:
        """How many rows of the left operand each position of the batch multiplies."""
        return volume(tuple(lhs.shape[axis] for axis in self.free(lhs.rank, rhs.rank)[0]))

    def evaluate(self, *arrays: Array) -> Array:
        arrays = alike(*arrays)
        lhs, rhs = (working(a, self.out_dtype) for a in arrays)
        free_lhs, free_rhs = self.free(lhs.ndim, rhs.ndim)
        batch = tuple(lhs.shape[a] for a in self.batch_lhs)
        rows, columns = tuple(lhs.shape[a] for a in free_lhs), tuple(rhs.shape[a] for a in free_rhs)
        depth = prod(lhs.shape[a] for a in self.contract_lhs)
        left = lhs.transpose(*self.batch_lhs, *free_lhs, *self.contract_lhs).reshape(
            prod(batch), prod(rows), depth
        )
        right = rhs.transpose(*self.batch_rhs, *self.contract_rhs, *free_rhs).reshape(
            prod(batch), depth, prod(columns)
        )
        with np.errstate(all="ignore"):
            result = _product(left, right)
        return rounded(result.reshape((*batch, *rows, *columns)), arrays[0], self.out_dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            lhs: Ints,
            rhs: Ints,
            contract: tuple[Ints, Ints],
            batch: tuple[Ints, Ints] = ((), ()),
            dtype: DType = DType.F32,
            out: DType | None = None,
        ) -> Sample:
            given = {
                "batch_lhs": batch[0],
                "batch_rhs": batch[1],
                "contract_lhs": contract[0],
                "contract_rhs": contract[1],
            }
            return Sample(
                (Type(dtype, lhs), Type(dtype, rhs)),
                given | {"out_dtype": out},
                ("small" if dtype.is_integer else "normal",),
            )

        plain = ((1,), (0,))
        samples = [
            case((3, 5), (5, 7), plain), case((1, 5), (5, 7), plain),
            case((5,), (5,), ((0,), (0,))), case((3,), (5,), ((), ())),
            case((3, 5), (7, 5), ((1,), (1,))), case((5, 3), (5, 7), ((0,), (0,))),
            case((0, 5), (5, 7), plain), case((3, 0), (0, 7), plain), case((3, 5), (5, 0), plain),
            case((37, 41), (41, 43), plain), case((130, 67), (67, 129), plain),
            case((2, 3, 5), (2, 5, 7), ((2,), (1,)), ((0,), (0,))),
            case((2, 3, 5, 7), (2, 3, 7, 4), ((3,), (2,)), ((0, 1), (0, 1))),
            case((2, 3, 4), (4, 3, 5), ((1, 2), (1, 0))),
            case((3, 5), (5, 7), plain, dtype=DType.F16, out=DType.F32),
            case((3, 5), (5, 7), plain, dtype=DType.I8, out=DType.I32),
        ]  # fmt: skip
        samples += [case((9, 33), (33, 17), plain, dtype=d) for d in DType if d is not DType.BOOL]
        given = {"contract_lhs": (1,), "contract_rhs": (0,)}
        mixed = (
            (Type(DType.F32, (5, 33)), Type(DType.I8, (33, 17))),
            (Type(DType.I8, (3, 7)), Type(DType.F16, (7, 19))),
        )
        return samples + [
            Sample(
                types,
                given,
                ("normal", "small") if types[1].dtype is DType.I8 else ("small", "normal"),
            )
            for types in mixed
        ]
