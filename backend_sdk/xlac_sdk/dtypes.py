"""Element types, shared by specs, graphs, kernels and artefacts."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class DType(Enum):
    """An element type; its value is the name used everywhere in text.

    Half precision (`f16`, `bf16`) is a storage type: kernels load it, compute in f32 and round
    every operation's result to nearest even. Integers wrap. A `bool` occupies one byte, 0 or 1.
    """

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    BOOL = "bool"

    __hash__ = object.__hash__  # Enum's own methods are slow Python, and kernels use these often

    def __repr__(self) -> str:
        return self.value

    def __str__(self) -> str:
        return str(self._value_)

    def __format__(self, form: str) -> str:
        return format(self._value_, form)

    @property
    def bits(self) -> int:
        """Width in memory; a bool takes 8."""
        return _BITS[self]

    @property
    def nbytes(self) -> int:
        """Bytes of one element in memory."""
        return _BITS[self] // 8

    @property
    def is_float(self) -> bool:
        """True for the four types of floating point."""
        return self in _FLOATS

    @property
    def is_half(self) -> bool:
        """True for f16 and bf16."""
        return self is DType.F16 or self is DType.BF16

    @property
    def is_signed(self) -> bool:
        """True for signed integers and floats."""
        return self in _SIGNED

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self in _INTEGERS

    @property
    def compute(self) -> DType:
        """The type in which scalar arithmetic on this type is done."""
        return DType.F32 if self.is_half else self

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype; bf16's is from the package ml_dtypes."""
        known = _MADE.get(self)
        if known is None:
            if self is DType.BF16:
                import ml_dtypes

                known = np.dtype(ml_dtypes.bfloat16)
            else:
                known = np.dtype(_NUMPY[self])
            _MADE[self] = known
        return known

    @staticmethod
    def of(dtype: Any) -> DType:
        """The element type of a NumPy dtype. Raises KeyError if xlac has none."""
        numpy_type = np.dtype(dtype)
        known = _KNOWN.get(numpy_type)
        if known is None:  # looking up a dtype's name is slow
            known = _KNOWN[numpy_type] = _BY_NUMPY[numpy_type.name]
        return known


_BITS = {
    d: 8 if d is DType.BOOL else int("".join(c for c in d.value if c.isdigit())) for d in DType
}
_FLOATS = frozenset({DType.F64, DType.F32, DType.F16, DType.BF16})
_INTEGERS = frozenset(d for d in DType if d.value[0] in "iu")
_SIGNED = _FLOATS | {d for d in DType if d.value[0] == "i"}
_NUMPY = {
    DType.F64: "float64", DType.F32: "float32", DType.F16: "float16",
    DType.I8: "int8", DType.I16: "int16", DType.I32: "int32", DType.I64: "int64",
    DType.U8: "uint8", DType.U16: "uint16", DType.U32: "uint32", DType.U64: "uint64",
    DType.BOOL: "bool",
}  # fmt: skip
_MADE: dict[DType, np.dtype[Any]] = {}
_BY_NUMPY = {name: dtype for dtype, name in _NUMPY.items()} | {"bfloat16": DType.BF16}
_KNOWN: dict[np.dtype[Any], DType] = {}
