"""Conversions between element types in C-family text."""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect


class Conversions:
    """The text of conversions of one value."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def cast(self, value: str, source: DType, dtype: DType) -> str:
        """Converts a value from one type to another."""
        if source is dtype:
            return value
        if source.is_half:
            return self.cast(f"f32_of_{source.value}({value})", DType.F32, dtype)
        if dtype is DType.BOOL:
            return f"({value} != 0)"
        if dtype.is_half:
            narrow = (
                f"odd_of_f64({value})"
                if source is DType.F64
                else self.cast(value, source, DType.F32)
            )
            return f"{dtype.value}_of_f32({narrow})"
        if source.is_float and dtype.is_integer:
            return f"cast_{source.value}_{dtype.value}({value})"
        return (
            f"({self.dialect.types[dtype]})({value})"
            if not value.startswith("(")
            else f"({self.dialect.types[dtype]}){value}"
        )

    def bitcast(self, value: str, source: DType, dtype: DType) -> str:
        """Reinterprets the bits of a value as another type of the same width."""
        held = {DType.F16: DType.U16, DType.BF16: DType.U16}
        source, dtype = held.get(source, source), held.get(dtype, dtype)
        if source is dtype:
            return value
        if source.is_integer and dtype.is_integer:
            return f"({self.dialect.types[dtype]})({value})"
        return self.dialect.bitcast.format(
            value, s=source.value, d=dtype.value, t=self.dialect.types[dtype]
        )
