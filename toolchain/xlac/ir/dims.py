"""Sizes of tensors, in graphs as in programs: the SDK's, under the name that the toolchain knows
them by.
"""

from xlac_sdk.dims import (
    UNBOUNDED,
    Dim,
    OpenSize,
    Quotient,
    Shape,
    Sym,
    Symbol,
    bounds,
    ceil_div,
    divisor,
    evaluate,
    size_hint,
    static,
    substitute,
    symbol,
    symbols,
    upper_bound,
    volume,
    whole,
)

__all__ = [
    "UNBOUNDED",
    "Dim",
    "OpenSize",
    "Quotient",
    "Shape",
    "Sym",
    "Symbol",
    "bounds",
    "ceil_div",
    "divisor",
    "evaluate",
    "size_hint",
    "static",
    "substitute",
    "symbol",
    "symbols",
    "upper_bound",
    "volume",
    "whole",
]
