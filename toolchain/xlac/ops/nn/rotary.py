"""Rotary position embedding: pairs of elements turned by an angle for each position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, INTEGERS, check_dtype, check_table, dims
from xlac_sdk.dtypes import DType


@declare
class RotaryEmbedding(Composite):
    """Rotates pairs of elements of the last axis by angles that grow with the position (along the
    axis before it).

    Pair i of `width` elements turns by position * base ** (-2 i / width). Pairs are element i and i
    + width / 2, or neighbours when `interleaved`. `width` may be less than the axis: the rest
    stays. Positions are integers of shape (time) or (batch, time); without them they count from 0.
    """

    mnemonic = "rotary_embedding"
    operands = ("x", "positions?")
    base: float = 10000.0
    interleaved: bool = False
    width: int = 0

    def turned(self, x: Type) -> int:
        """The number of rotated elements of each vector. Raises ShapeError."""
        if x.rank < 2 or not isinstance(x.shape[-1], int):
            raise ShapeError(
                f"{self.mnemonic} needs time and a known width as last axes, got {x}", operand=0
            )
        width = self.width or x.shape[-1]
        if width % 2 or not 0 < width <= x.shape[-1]:
            raise ShapeError(
                f"{self.mnemonic} cannot turn {width} of {x.shape[-1]} elements in pairs",
                attribute="width",
            )
        check_table(self.mnemonic, width // 2, x)
        return width

    def infer(self, *types: Type) -> Type:
        x, *positions = types
        check_dtype(self.mnemonic, x, FLOATS)
        self.turned(x)
        for given in positions:
            check_dtype(self.mnemonic, given, INTEGERS, 1)
            wanted = (x.shape[-2],) if given.rank < 2 else (x.shape[0], x.shape[-2])
            if given.shape != wanted or given.rank + 1 > x.rank:
                raise ShapeError(
                    f"positions {given} do not fit {x}: give {dims(wanted)}", operand=1
                )
        return x

    def expand(self, *inputs: Node) -> Node:
        x, *positions = inputs
        width, dtype = self.turned(x.type), x.type.dtype.compute
        half = width // 2
        where = positions[0] if positions else build.iota((x.shape[-2],), 0)
        rates = build.constant(np.power(self.base, -2.0 * np.arange(half) / width), dtype)
        angle = build.mul(build.reshape(build.cast(where, dtype), (*where.shape, 1)), rates)
        if where.type.rank == 2:  # (batch, time, half): unit axes for those in between
            angle = build.reshape(angle, (x.shape[0], *[1] * (x.type.rank - 3), *angle.shape[1:]))
        cosine, sine = build.apply1("cos", angle), build.apply1("sin", angle)
        wide = build.compute(x)
        last = x.type.rank - 1
        head = build.cut(wide, last, 0, width)
        if self.interleaved:
            pairs = build.reshape(head, (*x.shape[:-1], half, 2))
            a, b = (
                build.reshape(build.cut(pairs, last + 1, n, n + 1), (*x.shape[:-1], half))
                for n in (0, 1)
            )
        else:
            a, b = build.cut(head, last, 0, half), build.cut(head, last, half, width)
        new_a = build.sub(build.mul(a, cosine), build.mul(b, sine))
        new_b = build.add(build.mul(b, cosine), build.mul(a, sine))
        if self.interleaved:
            ends = [build.reshape(n, (*n.shape, 1)) for n in (new_a, new_b)]
            head = build.reshape(build.concat(ends, last + 1), (*x.shape[:-1], width))
        else:
            head = build.concat((new_a, new_b), last)
        whole = x.shape[-1]
        if width != whole:
            head = build.concat((head, build.cut(wide, last, width, whole)), last)
        return build.cast(head, x.type.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        samples = [
            Sample((Type(DType.F32, (2, 3, 5, 8)),), {}),
            Sample((Type(DType.F32, (2, 3, 5, 8)),), {"interleaved": True}),
            Sample((Type(DType.F32, (5, 8)), Type(DType.I64, (5,))), {}, ("normal", "small")),
            Sample((Type(DType.F32, (0, 5, 8)),), {}),
            Sample(
                (Type(DType.F32, (2, 3, 5, 8)), Type(DType.I32, (2, 5))),
                {"width": 4, "base": 100.0},
                ("normal", "small"),
            ),
        ]
        return samples + [Sample((Type(d, (2, 5, 6)),), {}) for d in DType if d in FLOATS]
