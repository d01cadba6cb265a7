"""The repr of a callable: its inputs and outputs with their types, on one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xlac_sdk.dims import UNBOUNDED, Shape, Sym, Symbol, symbols
from xlac_sdk.dtypes import DType

Named = Mapping[str, str]
"""Inputs or outputs by name, each with its type; "" where that is unknown."""


def shown(kind: str, name: str, inputs: Named, outputs: Named, *details: str) -> str:
    """`<Compiled digits(image: f32[8, 64]) -> probs: f32[8, 10]; cpu>`; `details` is the text after
    the semicolon.
    """
    given = ", ".join(_one(n, text) for n, text in inputs.items())
    results = ", ".join(_one(n, text) for n, text in outputs.items())
    return f"<{'; '.join([f'{kind} {name}({given}) -> {results}', *filter(None, details)])}>"


def _one(name: str, text: str) -> str:
    return ": ".join(filter(None, (name, text)))


def text_of(dtype: DType, shape: Shape, most: Iterable[int] = ()) -> str:
    """A type as specs write it; sizes of the axes `most` are upper bounds that depend on data."""
    decided = set(most)
    extents = (f"<={n}" if axis in decided else str(n) for axis, n in enumerate(shape))
    return f"{dtype}[{', '.join(extents)}]"


def sizes_of(shapes: Iterable[Shape]) -> str:
    """The open sizes of shapes with their bounds: `batch 1..512`."""
    open_sizes = dict.fromkeys(
        s
        for shape in shapes
        for dim in shape
        if isinstance(dim, Sym)
        for s in sorted(symbols(dim), key=lambda s: s.name)
    )
    return ", ".join(map(_bounds, open_sizes))


def _bounds(symbol: Symbol) -> str:
    most = "" if symbol.max >= UNBOUNDED else str(symbol.max)
    by = f" by {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
    return f"{symbol.name} {symbol.min}..{most}{by}"
