"""Arrays on the command line: files, random numbers, zeros, or written out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from xlac.ir.dims import substitute, symbols
from xlac.ir.types import Type
from xlac_sdk.backend import Array
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError

LITERAL = re.compile(r"(?:(?P<shape>\d+(?:x\d+)*)x)?(?P<dtype>[a-z]+\d*)=(?P<values>.*)", re.DOTALL)


def read(text: str, name: str, type: Type | None = None) -> Array:
    """`@file.npy`, or `2x64xf32=1,2,…` (one number fills the shape). Raises SourceError naming the input."""
    if text.startswith("@"):
        return load_npy(Path(text[1:]), name)
    match = LITERAL.fullmatch(text)
    if match is None or match["dtype"] not in {d.value for d in DType}:
        hint = "write @file.npy, random, zeros, ones, or a literal such as 2x64xf32=0.5"
        raise SourceError(Diagnostic("XL6005", f"cannot read '{text}' as the array for '{name}'", hint=hint))
    dtype = DType(match["dtype"]).numpy
    shape = tuple(map(int, match["shape"].split("x"))) if match["shape"] else ()
    try:
        values = [_number(v) for v in re.split(r"[,\s]+", match["values"].strip("[] \n")) if v]
        array = np.array(values).astype(dtype)
        return np.ascontiguousarray(np.broadcast_to(array.reshape(() if array.size == 1 else shape), shape))
    except ValueError as error:
        raise SourceError(Diagnostic("XL6005", f"array for '{name}': {error}")) from None


def _number(text: str) -> float | int:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


def load_npy(file: Path, name: str) -> Array:
    """An array from a .npy file; pickles are refused."""
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (ValueError, EOFError) as error:
        raise SourceError(Diagnostic("XL6005", f"array for '{name}': {file}: {error}")) from None


def make(kind: str, type: Type, sizes: Mapping[str, int], generator: np.random.Generator) -> Array:
    """Random, zeros or ones of a type whose open sizes are `sizes`, or their `opt`."""
    shape = []
    for dim in type.shape:
        value = substitute(dim, {s.name: sizes.get(s.name, s.opt) for s in symbols(dim)})
        assert isinstance(value, int)
        shape.append(value)
    dtype = type.dtype
    if kind == "zeros":
        return np.zeros(shape, dtype.numpy)
    if kind == "ones":
        return np.ones(shape, dtype.numpy)
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    if dtype is DType.BOOL:
        return generator.integers(0, 2, shape).astype(bool)
    return generator.integers(0, 8, shape).astype(dtype.numpy)


KINDS = ("random", "zeros", "ones")
