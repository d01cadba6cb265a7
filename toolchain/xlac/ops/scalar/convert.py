"""Operations that change the element type: by value, and by bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.faults import INFINITY
from xlac.ir.graph import Node, apply
from xlac.ir.op import Array, Elementwise, Index, Operand, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import numeric
from xlac.ops.checks import NUMBERS, names
from xlac.ops.tensor.leaf import convert_element
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive


@declare
class Cast(Elementwise):
    """Converts to another element type.

    Floats to integers truncate, saturate and turn NaN into 0; integers wrap; to bool is `x != 0`;
    narrower floats round to nearest even. A half is converted to and from every other type through
    f32.
    """

    mnemonic = "cast"
    creates = frozenset({INFINITY})
    leading = {}
    dtype: DType = DType.F32

    def infer(self, *types: Type) -> Type:
        (x,) = types
        return x.with_dtype(self.dtype)

    def linear(self) -> Sequence[Sequence[str]]:
        return (("x",),)

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None]:
        (ct,) = cotangents
        assert ct is not None
        return [apply("cast", ct, dtype=node.inputs[0].type.dtype)]

    def evaluate(self, *arrays: Array) -> Array:
        return numeric.convert(arrays[0], self.dtype)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        (x,) = inputs
        if x.type.dtype is self.dtype:
            return x.read(at)
        return convert_element(x.read(at), self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        through = [(a, b) for a in DType for b in DType if (a is DType.F32) != (b is DType.F32)]
        others = (
            "f64>i64 f64>u64 f64>f16 f64>bf16 i64>f64 i64>f16 u64>f64 u64>i32 f16>bf16 "
            "bf16>i64 i8>u64 bool>f16"
        )
        pairs = through + [
            (DType(a), DType(b)) for a, b in (pair.split(">") for pair in others.split())
        ]
        shapes: list[tuple[int, ...]] = [(), (0,), (2, 3, 5), (4999,)]
        return [Sample((Type(a, (17,)),), {"dtype": b}, ("special",)) for a, b in pairs] + [
            Sample((Type(DType.F32, s),), {"dtype": DType.I32}) for s in shapes
        ]


@declare
class Bitcast(Elementwise):
    """The same bits as another element type.

    A narrower type adds a last axis, a wider one takes it away; the first of its elements holds the
    lowest bits.
    """

    mnemonic = "bitcast"
    leading = {}
    dtype: DType = DType.I32

    def infer(self, *types: Type) -> Type:
        (x,) = types
        if DType.BOOL in (x.dtype, self.dtype):
            raise ShapeError(
                f"bitcast takes {names(NUMBERS)}, got {x} to {self.dtype}",
                hint="cast a bool instead",
            )
        if self.dtype.bits < x.dtype.bits:
            return Type(self.dtype, (*x.shape, x.dtype.bits // self.dtype.bits))
        if self.dtype.bits > x.dtype.bits:
            parts = self.dtype.bits // x.dtype.bits
            if not x.shape or x.shape[-1] != parts:
                raise ShapeError(
                    f"bitcast to {self.dtype} needs a last axis of {parts}, got {x}", operand=0
                )
            return Type(self.dtype, x.shape[:-1])
        return x.with_dtype(self.dtype)

    def evaluate(self, *arrays: Array) -> Array:
        x, new = np.ascontiguousarray(arrays[0]), self.dtype.numpy
        shape = arrays[0].shape
        if new.itemsize < x.dtype.itemsize:
            shape = (*shape, x.dtype.itemsize // new.itemsize)
        elif new.itemsize > x.dtype.itemsize:
            shape = shape[:-1]
        return np.frombuffer(x.tobytes(), new).reshape(shape)

    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        (x,) = inputs
        old, new = x.type.dtype, self.dtype
        if new.bits < old.bits:
            shift = build.cast(build.mul(at[-1], new.bits), unsigned(old))
            raw = _bits(x.read(at[:-1]), old)
            return _from_bits(
                build.cast(build.apply(Primitive.SHR, raw, shift), unsigned(new)), new
            )
        if new.bits == old.bits:
            return _from_bits(_bits(x.read(at), old), new)
        wide, whole = unsigned(new), None
        for part in range(new.bits // old.bits):
            raw = build.cast(_bits(x.read((*at, build.index(part))), old), wide)
            raw = build.apply(Primitive.SHL, raw, Const(part * old.bits, wide)) if part else raw
            whole = raw if whole is None else build.apply(Primitive.OR, whole, raw)
        assert whole is not None
        return _from_bits(whole, new)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        same = [
            Sample((Type(DType(a), (3, 7)),), {"dtype": DType(b)}, ("special",))
            for a, b in (
                ("f32", "i32"),
                ("i32", "f32"),
                ("f64", "u64"),
                ("u64", "f64"),
                ("f16", "u16"),
                ("i16", "f16"),
                ("bf16", "u16"),
                ("u16", "bf16"),
                ("i8", "u8"),
                ("u8", "i8"),
            )
        ]
        split = [
            Sample((Type(DType.F32, s),), {"dtype": DType.U8}) for s in ((), (0, 3), (5,), (1250,))
        ]
        joined = [
            Sample((Type(DType.U8, s),), {"dtype": DType.F32}) for s in ((4,), (0, 4), (3, 5, 4))
        ]
        return [*same, *split, *joined]


def unsigned(dtype: DType) -> DType:
    """The unsigned integer of the same width."""
    return DType(f"u{dtype.bits}")


def _bits(value: Expr, dtype: DType) -> Expr:
    """What an element of `dtype`, held in its compute type, looks like in memory."""
    stored = build.cast(value, dtype)
    return (
        stored
        if dtype is unsigned(dtype)
        else build.apply(Primitive.BITCAST, stored, dtype=unsigned(dtype))
    )


def _from_bits(value: Expr, dtype: DType) -> Expr:
    stored = (
        value if dtype is unsigned(dtype) else build.apply(Primitive.BITCAST, value, dtype=dtype)
    )
    return build.cast(stored, dtype.compute)
