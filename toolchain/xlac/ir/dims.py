"""Sizes of tensors, in graphs as in programs: the SDK's, under the name that the toolchain knows
them by.
"""

from xlac_sdk.programs.dims import (
    UNBOUNDED,
    Dim,
    OpenSize,
    Quotient,
    Shape,
    Sym,
    Symbol,
    at_opt,
    bounds,
    ceil_div,
    divisor,
    evaluate,
    most,
    static,
    substitute,
    symbol,
    symbols,
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
    "at_opt",
    "bounds",
    "ceil_div",
    "divisor",
    "evaluate",
    "most",
    "static",
    "substitute",
    "symbol",
    "symbols",
    "volume",
    "whole",
]
