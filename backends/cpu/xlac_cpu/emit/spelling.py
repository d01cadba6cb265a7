"""The spelling of types and numbers in LLVM IR.

A bool is an `i8` in memory and an `i1` in registers; 16-bit floats are `i16` in both, because they
are computed in f32, and LLVM's support of `half` and `bfloat` differs between machines.
"""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import Primitive

_REGISTER = {
    DType.F64: "double", DType.F32: "float", DType.F16: "i16", DType.BF16: "i16", DType.BOOL: "i1",
    DType.I8: "i8", DType.I16: "i16", DType.I32: "i32", DType.I64: "i64",
    DType.U8: "i8", DType.U16: "i16", DType.U32: "i32", DType.U64: "i64",
}  # fmt: skip
_SUFFIX = {"double": "f64", "float": "f32", "half": "f16"}


def vector(scalar: str, lanes: int) -> str:
    """A vector type; for one lane the scalar itself."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


@cache
def register(dtype: DType, lanes: int = 1) -> str:
    """The type of a value in registers."""
    return vector(_REGISTER[dtype], lanes)


@cache
def memory(dtype: DType, lanes: int = 1) -> str:
    """The type of a value in memory."""
    return vector("i8" if dtype is DType.BOOL else _REGISTER[dtype], lanes)


def suffix(scalar: str, lanes: int = 1) -> str:
    """The type suffix of an intrinsic's name: `v16f32`."""
    name = _SUFFIX.get(scalar, scalar)
    return name if lanes == 1 else f"v{lanes}{name}"


def number(value: float | bool, dtype: DType) -> str:
    """A scalar constant. Integers wrap to their type; floats are written as their bits."""
    if dtype is DType.BOOL:
        return "true" if value else "false"
    if dtype is DType.F32 or dtype is DType.F64:
        with np.errstate(over="ignore"):
            exact = float(np.float32(value)) if dtype is DType.F32 else float(value)
        return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
    if dtype.is_half:
        with np.errstate(over="ignore"):
            return str(int(np.array(value, np.float64).astype(dtype.numpy).view(np.int16)))
    bits = dtype.bits
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def constant(text: str, scalar: str, lanes: int) -> str:
    """A splat constant."""
    return text if lanes == 1 else f"splat ({scalar} {text})"


def is_literal(text: str) -> bool:
    """Whether a text is an integer constant."""
    return text.isdigit() or (text[0] == "-" and text[1:].isdigit())


def function_name(primitive: Primitive, dtype: DType, lanes: int) -> str:
    """The name of the function that computes a primitive."""
    return f"{primitive.value}.{suffix(register(dtype), lanes)}"
