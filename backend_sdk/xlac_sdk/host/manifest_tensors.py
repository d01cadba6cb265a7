"""The inputs and outputs in a manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xlac_sdk.dims import Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.programs.dimdata import data_of, dim_of
from xlac_sdk.programs.program import Role, Slot
from xlac_sdk.support import schema

TERMS, EXTENT = 64, 4096  # terms of an open size, and characters of its text


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """An input or output: the user's name, the C identifier, type, size, and required alignment.

    An extent is a number, or the form of an open size by `xlac_sdk.programs.dimdata`; `bytes` is an
    upper bound.
    """

    name: str
    symbol: str
    dtype: DType
    shape: tuple[Any, ...]
    bytes: int
    align: int

    @staticmethod
    def of(slot: Slot) -> TensorFacts:
        """From a program's slot."""
        return TensorFacts(
            name=slot.name,
            symbol=slot.symbol,
            dtype=slot.dtype,
            shape=tuple(map(data_of, slot.shape)),
            bytes=slot.nbytes,
            align=slot.dtype.nbytes,
        )

    def slot(self, role: Role, symbols: Mapping[str, Symbol]) -> Slot:
        """The slot for a call of the program."""
        shape = tuple(dim_of(extent, symbols) for extent in self.shape)
        return Slot(self.name, self.symbol, self.dtype, shape, role, align=self.align)


def extent(value: Any, place: str) -> Any:
    """A number, or the form of an open size; whether its names are sizes of the model is checked
    when it is converted.
    """
    if not isinstance(value, list):
        return schema.count()(value, place)
    schema.anything(value, place)
    if len(value) > TERMS or len(json.dumps(value)) > EXTENT:
        raise schema.wrong(
            place, f"a sum of at most {TERMS} terms, {EXTENT} characters in all", value
        )
    return value


TENSOR = schema.record(
    TensorFacts,
    {
        "name": schema.text(r"(?s).+"),
        "symbol": schema.text(r"[A-Za-z_][A-Za-z0-9_]*"),
        "dtype": schema.member(DType),
        "shape": schema.many(extent, 64),
        "bytes": schema.count(),
        "align": schema.count(1, 4096),
    },
)
