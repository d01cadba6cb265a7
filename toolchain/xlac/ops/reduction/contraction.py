"""Sums of products: the general dot product and the general convolution."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, volume
from xlac.ir.op import Array, Op, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.checks import check_axes, check_lengths
from xlac.ops.reduction.reduction import moves
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


def check_operands(mnemonic: str, lhs: Type, rhs: Type, out: DType | None) -> DType:
    """The element type of a contraction: that of its operands, or a wider one of the same class.

    One operand may be i8 where the other is of floats: quantised weights, converted as they are
    read.
    """
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
    """Both operands in one type: quantised weights in that of what they are multiplied with."""
    if lhs.dtype == rhs.dtype:
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
    found: Array = total.astype(dtype)
    return found


@declare
class Dot(Op):
    """Multiplies and sums over the `contract` axes, separately for each position of the `batch`
    axes.

    The result has the batch axes, then the free axes of lhs, then those of rhs. Halves accumulate
    in f32, integers wrap in the result's type. `out_dtype` may be wider than the operands. One
    operand may be i8 where the other is of floats: it is converted as it is read.
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
                        f"dot: axis {a} of {lhs} has {lhs.shape[a]} elements, axis {b} of {rhs} has {rhs.shape[b]}",
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
        found = [
            case((3, 5), (5, 7), plain), case((1, 5), (5, 7), plain), case((5,), (5,), ((0,), (0,))),
            case((3,), (5,), ((), ())), case((3, 5), (7, 5), ((1,), (1,))), case((5, 3), (5, 7), ((0,), (0,))),
            case((0, 5), (5, 7), plain), case((3, 0), (0, 7), plain), case((3, 5), (5, 0), plain), case((37, 41), (41, 43), plain),
            case((130, 67), (67, 129), plain), case((2, 3, 5), (2, 5, 7), ((2,), (1,)), ((0,), (0,))),
            case((2, 3, 5, 7), (2, 3, 7, 4), ((3,), (2,)), ((0, 1), (0, 1))), case((2, 3, 4), (4, 3, 5), ((1, 2), (1, 0))),
            case((3, 5), (5, 7), plain, dtype=DType.F16, out=DType.F32), case((3, 5), (5, 7), plain, dtype=DType.I8, out=DType.I32),
        ]  # fmt: skip
        found += [case((9, 33), (33, 17), plain, dtype=d) for d in DType if d is not DType.BOOL]
        given = {"contract_lhs": (1,), "contract_rhs": (0,)}
        mixed = (
            (Type(DType.F32, (5, 33)), Type(DType.I8, (33, 17))),
            (Type(DType.I8, (3, 7)), Type(DType.F16, (7, 19))),
        )
        return found + [
            Sample(
                types,
                given,
                ("normal", "small") if types[1].dtype is DType.I8 else ("small", "normal"),
            )
            for types in mixed
        ]


@declare
class Conv(Op):
    """The general convolution (cross-correlation: the kernel is not flipped).

    `layout` names the axes of x, kernel and result: N batch, C channels; O output and I input
    channels of the kernel; every other letter a spatial axis, alike in the three. x is first spread
    by `lhs_dilation` and padded by `low` and `high`; the kernel is spread by `rhs_dilation`.
    Spatial attributes go by the order of spatial letters in x. With `feature_groups`, groups of
    channels are convolved apart; with `batch_groups`, groups of the batch.
    """

    mnemonic = "conv"
    operands = ("x", "kernel")
    layout: tuple[str, str, str] = ("NCHW", "OIHW", "NCHW")
    strides: tuple[int, ...] = ()
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    lhs_dilation: tuple[int, ...] = ()
    rhs_dilation: tuple[int, ...] = ()
    feature_groups: int = 1
    batch_groups: int = 1
    out_dtype: DType | None = None

    @property
    def spatial(self) -> str:
        """The letters of the spatial axes, in the order that spatial attributes follow."""
        return "".join(letter for letter in self.layout[0] if letter not in "NC")

    def _check_layout(self, x: Type, kernel: Type) -> None:
        wanted = (
            set("NC") | set(self.spatial),
            set("OI") | set(self.spatial),
            set("NC") | set(self.spatial),
        )
        for text, letters in zip(self.layout, wanted, strict=True):
            if set(text) != letters or len(text) != len(letters):
                raise ShapeError(
                    f"layout {text!r} needs each of {''.join(sorted(letters))} once",
                    attribute="layout",
                )
        for number, (operand, text) in enumerate(((x, self.layout[0]), (kernel, self.layout[1]))):
            if operand.rank != len(text):
                raise ShapeError(
                    f"conv with layout {text} needs rank {len(text)}, got {operand}", operand=number
                )
        check_lengths(
            self.mnemonic,
            len(self.spatial),
            strides=self.strides,
            low=self.low,
            high=self.high,
            lhs_dilation=self.lhs_dilation,
            rhs_dilation=self.rhs_dilation,
        )

    def infer(self, *types: Type) -> Type:
        x, kernel = types
        dtype = check_operands(self.mnemonic, x, kernel, self.out_dtype)
        self._check_layout(x, kernel)
        size = dict(zip(self.layout[0], x.shape, strict=True))
        tap = dict(zip(self.layout[1], kernel.shape, strict=True))
        groups, batches = self.feature_groups, self.batch_groups
        if groups < 1 or batches < 1 or (groups > 1 and batches > 1):
            raise ShapeError(
                "feature_groups and batch_groups are at least 1, and one of them is 1",
                attribute="feature_groups",
            )
        if size["C"] != tap["I"] * groups:
            raise ShapeError(
                f"conv: {x} has {size['C']} channels, kernel {kernel} takes {tap['I'] * groups}"
                + (f" in {groups} groups" if groups > 1 else ""),
                operand=1,
            )
        if isinstance(tap["O"], int) and tap["O"] % (groups * batches):
            raise ShapeError(
                f"conv: {tap['O']} output channels do not divide into {groups * batches} groups",
                operand=1,
            )
        if isinstance(size["N"], int) and size["N"] % batches:
            raise ShapeError(
                f"conv: a batch of {size['N']} does not divide into {batches} groups", operand=0
            )
        result: dict[str, Dim] = {"N": size["N"] // batches, "C": tap["O"]}
        for axis, letter in enumerate(self.spatial):
            window = tap[letter]
            if not isinstance(window, int):
                raise ShapeError(f"the kernel's size {window} must be a number", operand=1)
            result[letter] = moves(
                size[letter],
                window,
                self.strides[axis],
                self.low[axis],
                self.high[axis],
                self.lhs_dilation[axis],
                self.rhs_dilation[axis],
            )
        return Type(dtype, tuple(result[letter] for letter in self.layout[2]))

    def evaluate(self, *arrays: Array) -> Array:
        spatial, arrays = self.spatial, alike(*arrays)
        x = working(arrays[0], self.out_dtype).transpose(
            [self.layout[0].index(c) for c in "NC" + spatial]
        )
        kernel = working(arrays[1], self.out_dtype).transpose(
            [self.layout[1].index(c) for c in "OI" + spatial]
        )
        groups, batches = self.feature_groups, self.batch_groups
        padded = self._padded(x)
        n, c, o, i = x.shape[0] // batches, x.shape[1], kernel.shape[0], kernel.shape[1]
        moved = tuple(
            int(
                str(
                    moves(
                        x.shape[2 + a],
                        kernel.shape[2 + a],
                        self.strides[a],
                        self.low[a],
                        self.high[a],
                        self.lhs_dilation[a],
                        self.rhs_dilation[a],
                    )
                )
            )
            for a in range(len(spatial))
        )
        both = groups * batches
        every: Any = slice(None)
        total = np.zeros((both, n, o // both, prod(moved)), x.dtype)
        for position in product(*(range(w) for w in kernel.shape[2:])) if prod(moved) else ():
            first = [p * d for p, d in zip(position, self.rhs_dilation, strict=True)]
            cut = tuple(
                slice(f, f + (m - 1) * s + 1, s)
                for f, m, s in zip(first, moved, self.strides, strict=True)
            )
            seen = padded[(every, every, *cut)].reshape(
                batches, n, groups, c // groups, prod(moved)
            )
            seen = seen.transpose(0, 2, 1, 3, 4).reshape(both, n, i, prod(moved))
            taps = kernel[(every, every, *position)].reshape(both, 1, o // both, i)
            with np.errstate(all="ignore"):
                total = total + np.matmul(taps, seen)
        result = total.transpose(1, 0, 2, 3).reshape(n, o, *moved)
        result = result.transpose([("NC" + spatial).index(letter) for letter in self.layout[2]])
        return np.ascontiguousarray(rounded(result, arrays[0], self.out_dtype))

    def _padded(self, x: Array) -> Array:
        """x (batch, channels, spatial) spread by its dilation and padded, or cropped, with zeros."""
        for axis, (low, high, gap) in enumerate(
            zip(self.low, self.high, self.lhs_dilation, strict=True), 2
        ):
            size = x.shape[axis] + max(0, x.shape[axis] - 1) * (gap - 1)
            spread = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)
            spread[tuple([slice(None)] * axis + [slice(None, None, gap)])] = x
            around = [(0, 0)] * x.ndim
            around[axis] = (max(0, low), max(0, high))
            kept = [slice(None)] * axis + [slice(max(0, -low), max(0, size - max(0, -high)))]
            x = np.pad(spread[tuple(kept)], around)
        return x

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            x: Ints,
            kernel: Ints,
            layout: Sequence[str] = ("NCHW", "OIHW", "NCHW"),
            dtype: DType = DType.F32,
            /,
            **given: object,
        ) -> Sample:
            ones, zeros = (1,) * (len(x) - 2), (0,) * (len(x) - 2)
            known = {
                "strides": ones,
                "low": zeros,
                "high": zeros,
                "lhs_dilation": ones,
                "rhs_dilation": ones,
            }
            draw = ("small" if dtype.is_integer else "normal",)
            return Sample(
                (Type(dtype, x), Type(dtype, kernel)),
                {"layout": tuple(layout)} | known | given,
                draw,
            )

        line = ("NCW", "OIW", "NCW")
        same = {"low": (1, 1), "high": (1, 1)}
        found = [
            case((1, 3, 7, 7), (5, 3, 3, 3), low=(1, 1), high=(1, 1)), case((2, 3, 9, 8), (4, 3, 3, 3), low=(1, 0), high=(1, 2), strides=(2, 2)),
            case((1, 4, 7, 7), (6, 2, 3, 3), feature_groups=2), case((1, 5, 7, 7), (5, 1, 3, 3), feature_groups=5, low=(1, 1), high=(1, 1)),
            case((1, 3, 9, 9), (4, 3, 3, 3), rhs_dilation=(2, 3)), case((1, 3, 5, 5), (4, 3, 3, 3), lhs_dilation=(2, 2), low=(2, 2), high=(2, 2)),
            case((4, 3, 5, 5), (6, 3, 3, 3), batch_groups=2), case((1, 8, 6, 6), (7, 8, 1, 1)),
            case((1, 7, 7, 3), (3, 3, 3, 5), ("NHWC", "HWIO", "NHWC"), low=(1, 1), high=(1, 1)), case((2, 3, 11), (4, 3, 3), line),
            case((2, 3), (4, 3), ("NC", "OI", "NC")), case((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), ("NCDHW", "OIDHW", "NCDHW")),
            case((0, 3, 5, 5), (4, 3, 3, 3)), case((1, 0, 5, 5), (4, 0, 3, 3)), case((1, 3, 2, 2), (4, 3, 3, 3)),
            case((1, 3, 6, 6), (4, 3, 3, 3), low=(-1, 0), high=(0, -1)), case((1, 16, 17, 17), (19, 16, 3, 3), ("NCHW", "OIHW", "NCHW"), DType.F32, **same),
            case((1, 2, 5), (3, 2, 3), line, DType.F16, out_dtype=DType.F32), case((1, 2, 5), (3, 2, 3), line, DType.I8, out_dtype=DType.I32),
        ]  # fmt: skip
        return found + [case((1, 3, 9), (4, 3, 3), line, d) for d in DType if d is not DType.BOOL]
