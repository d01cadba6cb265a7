"""The general convolution, of any layout, dilation and number of groups (StableHLO's)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node, apply, zeros
from xlac.ir.op import Array, Op, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops.checks import check_lengths
from xlac.ops.reduction import conv_batching
from xlac.ops.reduction.contraction import Ints, alike, check_operands, rounded, working
from xlac.ops.reduction.conv_transposed import transposed_in_kernel, transposed_in_x
from xlac.ops.reduction.reduction import moves
from xlac_sdk.dtypes import DType


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

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",), ("kernel",))

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        assert not all(linear), "a product of two changes is not linear"
        back = (
            transposed_in_x(self, node, ct) if linear[0] else transposed_in_kernel(self, node, ct)
        )
        wanted = node.inputs[0 if linear[0] else 1].type
        if 0 in wanted.shape or 0 in ct.shape:
            back = zeros(wanted)
        elif back.type.dtype is not wanted.dtype:
            back = apply("cast", back, dtype=wanted.dtype)
        return [back, None] if linear[0] else [None, back]

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node]:
        return conv_batching.batched(self, node, inputs, mapped, size)

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
        """x (batch, channels, spatial) spread by its dilation, and padded with zeros or cropped."""
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
        samples = [
            case((1, 3, 7, 7), (5, 3, 3, 3), low=(1, 1), high=(1, 1)),
            case((2, 3, 9, 8), (4, 3, 3, 3), low=(1, 0), high=(1, 2), strides=(2, 2)),
            case((1, 4, 7, 7), (6, 2, 3, 3), feature_groups=2),
            case((1, 5, 7, 7), (5, 1, 3, 3), feature_groups=5, low=(1, 1), high=(1, 1)),
            case((1, 3, 9, 9), (4, 3, 3, 3), rhs_dilation=(2, 3)),
            case((1, 3, 5, 5), (4, 3, 3, 3), lhs_dilation=(2, 2), low=(2, 2), high=(2, 2)),
            case((4, 3, 5, 5), (6, 3, 3, 3), batch_groups=2),
            case((1, 8, 6, 6), (7, 8, 1, 1)),
            case((1, 7, 7, 3), (3, 3, 3, 5), ("NHWC", "HWIO", "NHWC"), low=(1, 1), high=(1, 1)),
            case((2, 3, 11), (4, 3, 3), line),
            case((2, 3), (4, 3), ("NC", "OI", "NC")),
            case((1, 2, 4, 5, 6), (3, 2, 2, 3, 2), ("NCDHW", "OIDHW", "NCDHW")),
            case((0, 3, 5, 5), (4, 3, 3, 3)),
            case((1, 0, 5, 5), (4, 0, 3, 3)),
            case((1, 3, 2, 2), (4, 3, 3, 3)),
            case((1, 3, 6, 6), (4, 3, 3, 3), low=(-1, 0), high=(0, -1)),
            case((1, 16, 17, 17), (19, 16, 3, 3), ("NCHW", "OIHW", "NCHW"), DType.F32, **same),
            case((1, 2, 5), (3, 2, 3), line, DType.F16, out_dtype=DType.F32),
            case((1, 2, 5), (3, 2, 3), line, DType.I8, out_dtype=DType.I32),
        ]
        return samples + [case((1, 3, 9), (4, 3, 3), line, d) for d in DType if d is not DType.BOOL]
