"""Slots and constants of a program as the cache stores them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac_sdk.dims import Symbol
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.programs.dimdata import data_of, dim_of
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.support.mapping import file_bytes

if TYPE_CHECKING:
    from pathlib import Path

ALIGN = 64  # alignment of each constant in the file, in bytes


def slot_to_json(slot: Slot) -> dict[str, Any]:
    """A slot as JSON."""
    return {
        "name": slot.name,
        "symbol": slot.symbol,
        "dtype": slot.dtype.value,
        "shape": [data_of(n) for n in slot.shape],
        "role": slot.role.value,
        "offset": slot.offset,
        "align": slot.align,
    }


def slot_from_json(record: Mapping[str, Any], symbols: Sequence[Symbol]) -> Slot:
    """The slot of a JSON record. Raises KeyError, TypeError or ValueError for an invalid one."""
    named = {symbol.name: symbol for symbol in symbols}
    shape = tuple(dim_of(extent, named) for extent in record["shape"])
    return Slot(
        record["name"],
        record["symbol"],
        DType(record["dtype"]),
        shape,
        Role(record["role"]),
        record["offset"],
        record["align"],
    )


def write_constants(file: Path, program: Program, slots: Sequence[Slot]) -> None:
    """Writes the constants of a program one after the other, each aligned. Raises OSError."""
    with file.open("wb") as out:
        for slot in slots:
            out.write(
                np.ascontiguousarray(program.constants[slot.symbol]).reshape(-1).view(np.uint8).data
            )
            out.write(bytes(-slot.nbytes % ALIGN))


def constants_of(file: str, slots: Sequence[Slot], copy: bool) -> dict[str, Array]:
    """The constants by symbol, mapped or copied. Raises OSError, and ValueError for a file that is
    too short.
    """
    mapped = not copy and os.stat(file).st_size  # an empty file cannot be mapped
    block = np.frombuffer(file_bytes(file), np.uint8) if mapped else np.fromfile(file, np.uint8)
    constants: dict[str, Array] = {}
    at = 0
    for slot in slots:
        if slot.role is Role.CONSTANT:
            if at + slot.nbytes > block.nbytes:
                raise ValueError("the constants are cut off")
            constants[slot.symbol] = (
                np.asarray(block[at : at + slot.nbytes])
                .view(slot.dtype.numpy)
                .reshape(slot.extents({}))
            )
            at += slot.nbytes + -slot.nbytes % ALIGN
    return constants
