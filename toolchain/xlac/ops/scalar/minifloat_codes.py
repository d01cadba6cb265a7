"""From numbers to codes of a minifloat format, and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.checks import FLOATS, check_dtype
from xlac.ops.scalar import convert
from xlac.ops.scalar.formula import SHAPES, Direct
from xlac.ops.scalar.minifloat import FORMATS, ROUNDINGS, Minifloat, known
from xlac_sdk.dtypes import DType


@declare
class DecodeFloat(Composite):
    """The numbers that codes of a minifloat `format` stand for, exactly; codes of fewer than 8 bits
    are the low bits.
    """

    mnemonic = "decode_float"
    creates = frozenset()  # NaN has codes, which the operand holds then
    operands = ("code",)
    format: str = "f8e4m3fn"
    dtype: DType = DType.F32

    def infer(self, *types: Type) -> Type:
        (code,) = types
        known(self.mnemonic, self.format)
        check_dtype(self.mnemonic, code, frozenset({DType.U8}))
        if self.dtype not in FLOATS:
            raise ShapeError(f"{self.mnemonic} gives floats, not {self.dtype}", attribute="dtype")
        return code.with_dtype(self.dtype)

    def _table(self) -> Array:
        values = FORMATS[self.format].values
        return np.tile(values, 256 // values.size).astype(self.dtype.compute.numpy)

    def expand(self, *inputs: Node) -> Node:
        (code,) = inputs
        return build.cast(build.take(build.constant(self._table()), code, 0), self.dtype)

    def evaluate(self, *arrays: Array) -> Array:
        return np.asarray(self._table().astype(self.dtype.numpy)[arrays[0]])

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        codes = Type(DType.U8, (300,))
        samples = [
            Sample((codes,), {"format": f}, (d,)) for f in FORMATS for d in ("normal", "special")
        ]
        samples += [Sample((Type(DType.U8, s),), {"format": "f8e5m2"}) for s in SHAPES]
        return samples + [
            Sample((codes,), {"format": "f8e4m3fn", "dtype": d}) for d in DType if d in FLOATS
        ]


@declare
class EncodeFloat(Direct):
    """The codes of a minifloat `format` nearest to numbers, ties to the even code; the low bits
    hold a short code.

    What is too large becomes infinity, or NaN where the format has none, or the largest number
    where it has neither; with `saturate` it becomes the largest number always, infinity too. NaN
    becomes -0 in a format without NaN. f8e8m0fnu, powers of two, has neither zero nor negative
    numbers, which become NaN, as infinity does; there ties go up, and `rounding` may be "up" or
    "down" instead of "nearest".
    """

    mnemonic = "encode_float"
    result = DType.U8
    format: str = "f8e4m3fn"
    saturate: bool = False
    rounding: str = "nearest"

    def infer(self, *types: Type) -> Type:
        signed = known(self.mnemonic, self.format).signed
        if self.rounding not in (ROUNDINGS[:1] if signed else ROUNDINGS):
            raise ShapeError(
                f"{self.mnemonic} to {self.format} cannot round {self.rounding!r}",
                attribute="rounding",
            )
        return super().infer(*types)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        form = FORMATS[self.format]
        code = rounded(x, form) if form.signed else self._power(x)
        limit = form.largest if self.saturate else form.overflow
        code = build.select(
            build.compare(code, "gt", form.largest), build.constant(limit, code.type.dtype), code
        )
        code = build.cast(code, DType.U8)
        if not form.signed:
            bad = build.apply1(
                "or",
                build.apply1("not", build.compare(x, "gt", 0.0)),
                build.compare(x, "eq", np.inf),
            )
            return build.select(bad, build.constant(form.nan, DType.U8), code)
        code = build.select(build.compare(x, "ne", x), build.constant(form.nan, DType.U8), code)
        negative = build.compare(
            bits(x), "ge", build.constant(1 << (x.type.dtype.bits - 1), unsigned(x))
        )
        # their NaN has its sign already, and so has the only zero
        if form.ending in ("finite", "fnuz"):
            negative = build.apply1("and", negative, build.compare(x, "eq", x))
        if form.ending == "fnuz":
            negative = build.apply1("and", negative, build.compare(code, "ne", 0))
        return build.select(
            negative, build.apply1("or", code, build.constant(form.sign, DType.U8)), code
        )

    def _power(self, x: Node) -> Node:
        """The exponent's code of a positive number; it may be one too large."""
        if x.type.dtype is DType.F64:  # held to what has a code, or one too large
            x = build.minimum(build.maximum(x, 2.0**-127), 2.0**127 * 1.75)
        pattern = bits(x)
        dtype = pattern.type.dtype
        exponent, mantissa = widths(x.type.dtype)
        bias = (1 << (exponent - 1)) - 1

        def whole(number: int) -> Node:
            return build.constant(number, dtype)

        code = build.sub(
            build.apply1("shr", pattern, whole(mantissa)), whole(bias - FORMATS[self.format].bias)
        )
        if self.rounding == "down":
            return code
        up = self.rounding == "up"
        fraction = build.apply1("and", pattern, whole((1 << mantissa) - 1))
        least = whole(1 if up else 1 << (mantissa - 1))
        if dtype is DType.U32:
            # code 0 stands for 2^-127, subnormal in f32: half of what its fraction can hold
            subnormal = whole((1 << 22) + (1 if up else 1 << 21))
            least = build.select(build.compare(code, "eq", 0), subnormal, least)
        return build.add(code, build.cast(build.compare(fraction, "ge", least), dtype))

    def meaning(self, *arrays: Array) -> Array:
        (x,) = arrays
        form = FORMATS[self.format]
        size = np.abs(x).astype(np.float64)
        known_sizes = form.values[: form.largest + 1]
        last = known_sizes[-1]
        # and the next, if it existed
        steps = np.append(
            known_sizes, 2 * last if form.mantissa == 0 else 2 * last - known_sizes[-2]
        )
        down = np.clip(np.searchsorted(steps, size, "right") - 1, 0, form.largest)
        middle = (steps[down] + steps[down + 1]) / 2
        up = (size > middle) | (size == middle) & (not form.signed or down % 2 == 1)
        if self.rounding != "nearest":
            up = (self.rounding == "up") & (size > steps[down])
        code = down + up
        code = np.where(code > form.largest, form.largest if self.saturate else form.overflow, code)
        if not form.signed:
            return np.where((x > 0) & (x != np.inf), code, form.nan).astype(np.uint8)
        code = np.where(np.isnan(x), form.nan, code)
        negative = (
            np.signbit(x)
            & (form.ending not in ("finite", "fnuz") or ~np.isnan(x))
            & (form.ending != "fnuz" or code != 0)
        )
        return (code | np.where(negative, form.sign, 0)).astype(np.uint8)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        wide = Type(DType.F32, (300,))
        samples = [
            Sample((wide,), {"format": f, "saturate": s}, (d,))
            for f in FORMATS
            for s in (False, True)
            for d in ("normal", "special")
        ]
        samples += [
            Sample((wide,), {"format": "f8e8m0fnu", "rounding": r}, (d,))
            for r in ROUNDINGS
            for d in ("positive", "special")
        ]
        samples += [
            Sample((Type(d, (300,)),), {"format": f})
            for d in DType
            if d in FLOATS
            for f in ("f8e4m3fn", "f8e8m0fnu")
        ]
        return samples + [Sample((Type(DType.F32, s),), {"format": "f8e5m2"}) for s in SHAPES]


def unsigned(x: Node) -> DType:
    """The unsigned integers of the width of x."""
    return DType(f"u{x.type.dtype.bits}")


def bits(x: Node) -> Node:
    """The pattern of a float as an unsigned integer."""
    return Node.of(convert.Bitcast(unsigned(x)), x)


def widths(dtype: DType) -> tuple[int, int]:
    """The bits of the exponent and of the significand of f32 or f64."""
    return (8, 23) if dtype is DType.F32 else (11, 52)


def rounded(x: Node, form: Minifloat) -> Node:
    """The code of |x| in a format with sign, as an unsigned integer of x's width; what overflows is
    beyond the largest.

    The pattern of a normal number is rounded as an integer. A subnormal one is added to a number so
    large that its last place is the format's smallest number: the addition rounds, and the
    pattern's low bits are the code.
    """
    dtype, whole = x.type.dtype, unsigned(x)
    exponent, mantissa = widths(dtype)
    gone = mantissa - form.mantissa

    def constant(value: int) -> Node:
        return build.constant(value, whole)

    size = build.apply1("and", bits(x), constant((1 << (exponent + mantissa)) - 1))
    last = build.apply1("and", build.apply1("shr", size, constant(gone)), constant(1))
    near = build.add(size, build.add(last, constant((1 << (gone - 1)) - 1)))
    bias = (1 << (exponent - 1)) - 1
    normal = build.sub(
        build.apply1("shr", near, constant(gone)), constant((bias - form.bias) << form.mantissa)
    )
    anchor = 2.0 ** (gone + form.least)
    shifted = bits(build.add(Node.of(convert.Bitcast(dtype), size), anchor))
    small = build.sub(shifted, constant(int(pattern(anchor, dtype))))
    return build.select(
        build.compare(size, "lt", constant(int(pattern(2.0**form.least, dtype)))), small, normal
    )


@cache
def pattern(value: float, dtype: DType) -> int:
    """The bits of a number."""
    return int(np.asarray(value, dtype.numpy).view(f"u{dtype.nbytes}"))
