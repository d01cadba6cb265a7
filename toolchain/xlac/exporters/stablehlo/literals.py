"""Types and constants in MLIR's syntax, exact to the bit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xlac.exporters.unsaid import Unsaid
from xlac.ir.dims import Dim, Sym
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType

SHORT = 16  # elements up to which a constant is written as numbers


def element_text(dtype: DType) -> str:
    """An element type: `i1` for bool, `ui8` for an unsigned integer."""
    if dtype is DType.BOOL:
        return "i1"
    return str(dtype) if dtype.is_signed else f"ui{dtype.bits}"


def type_text(type: Type) -> str:
    """A type such as `tensor<2x3xf32>`; an open size is `?`."""
    sizes = "".join(f"{n if isinstance(n, int) else '?'}x" for n in type.shape)
    return f"tensor<{sizes}{element_text(type.dtype)}>"


def constant_text(array: Array) -> str:
    """A constant with its type; a long one as the bytes of its elements."""
    dtype = DType.of(array.dtype)
    type = type_text(Type(dtype, array.shape))
    if array.size == 0:
        return f"dense<> : {type}"
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"u{array.dtype.itemsize}")
    if (bits == bits[0]).all():
        return f"dense<{number_text(flat[0], dtype)}> : {type}"
    if array.size <= SHORT or dtype is DType.BOOL:  # versions of MLIR differ in the bytes of bools
        return f"dense<{_nested([number_text(v, dtype) for v in flat], array.shape)}> : {type}"
    data = flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()
    return f'dense<"0x{data.hex().upper()}"> : {type}'


def number_text(value: object, dtype: DType) -> str:
    """One element: a decimal number where that is exact, else its bits."""
    array = np.asarray(value)
    if dtype is DType.BOOL:
        return "true" if array else "false"
    if dtype.is_integer:
        return str(int(array))
    if np.isfinite(wide := array.astype(np.float64)):
        for text in (str(array), repr(float(wide))):
            if np.float64(text).astype(array.dtype).tobytes() == array.tobytes():
                mantissa, mark, exponent = text.partition("e")
                return (mantissa if "." in mantissa else f"{mantissa}.0") + mark + exponent
    return f"0x{int(array.reshape(1).view(f'u{dtype.nbytes}')[0]):0{2 * dtype.nbytes}X}"


def _nested(items: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return items[0]
    step = len(items) // shape[0]
    rows = (_nested(items[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0]))
    return f"[{', '.join(rows)}]"


def ints(values: Iterable[Dim]) -> str:
    """A list of 64-bit integers as an attribute. Raises Unsaid for an open size."""
    listed = ", ".join(map(str, map(known, values)))
    return f"array<i64: {listed}>" if listed else "array<i64>"


def known(size: Dim) -> int:
    """The number that a size is. Raises Unsaid for an open one."""
    if isinstance(size, Sym):
        raise Unsaid(f"{size} is an attribute of it, which must be a number")
    return size


def pairs(low: Iterable[Dim], high: Iterable[Dim]) -> str:
    """Padding as an attribute: a matrix of two columns. Raises Unsaid for an open size."""
    rows = [f"[{known(a)}, {known(b)}]" for a, b in zip(low, high, strict=True)]
    return (
        f"dense<[{', '.join(rows)}]> : tensor<{len(rows)}x2xi64>"
        if rows
        else "dense<> : tensor<0x2xi64>"
    )
