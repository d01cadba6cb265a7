"""The error bounds of docs/SPEC.md as data: its tables are generated from here, tests hold kernels
to these numbers, and `xlac verify` judges by them.

`python -m xlac.ops.error_bounds docs/SPEC.md` writes the tables into the document.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class FunctionBound:
    """The error of one scalar function in ulp: units in the last place of the exact value, rounded.

    Half precision is computed in f32 and rounded once, so its bound is that of f32 plus half an
    ulp.
    """

    single: float  # of f32
    double: float  # of f64

    def of(self, dtype: DType) -> float:
        """Ulp of a result of a float type, in that type."""
        if dtype is DType.F64:
            return self.double
        if dtype.is_half:
            return 0.5 + self.single * 2.0 ** (FRACTION[dtype] - FRACTION[DType.F32])
        return self.single


@dataclass(frozen=True, slots=True)
class SumBound:
    """The error of a sum of any length, as a multiple of u times the sum of the magnitudes.

    u is the unit roundoff of the accumulator: 2^-24 for f32 and half precision, 2^-53 for f64.
    """

    what: str
    cpu: float
    gpu: float
    terms: str  # terms of a block, as the document states it
    tensor_cores: float = 0.0  # the multiple on tensor cores, where it differs

    def of(self, device: str, tensor_cores: bool = False) -> float:
        """The multiple on a device, "cpu" or "gpu"."""
        if device == "cpu":
            return self.cpu
        return self.tensor_cores if tensor_cores and self.tensor_cores else self.gpu


@dataclass(frozen=True, slots=True)
class ResidualBound:
    """The residual of a decomposition, or of a solution: `factor` times eps, the distance from 1 to
    the next number, and what `limit` says. In the Frobenius norm, or element by element.
    """

    factor: float
    what: str
    limit: str
    elements: bool = False


FRACTION = {DType.F64: 52, DType.F32: 23, DType.F16: 10, DType.BF16: 7}
"""Bits of the fraction of a float type."""

ROUNDED = FunctionBound(0.5, 0.5)

FUNCTIONS: Mapping[str, FunctionBound] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "cast"), ROUNDED),
    "sqrt": FunctionBound(0.51, 0.51),
    "log": FunctionBound(0.9, 0.9),
    "exp": FunctionBound(1.1, 1.1),
    "expm1": FunctionBound(1.2, 1.2),
    "exp2": FunctionBound(1.3, 1.3),
    "log1p": FunctionBound(1.5, 1.5),
    "rsqrt": FunctionBound(1.5, 1.5),
    "erf": FunctionBound(1.5, 4.0),
    "tanh": FunctionBound(1.6, 1.6),
    "sin": FunctionBound(1.7, 1.6),
    "cos": FunctionBound(1.7, 1.6),
    "sigmoid": FunctionBound(2.0, 2.0),
    "log2": FunctionBound(2.0, 2.0),
    "pow": FunctionBound(2.0, 2.0),
    "atan2": FunctionBound(2.0, 2.0),
    "gelu_exact": FunctionBound(2.1, 3.0),
}
"""By the operation's mnemonic. Scalar operations that are not here are exact."""

FAST_FUNCTION = 4.0
"""Ulp of f32 with `precision: fast`, in the ranges where fast variants hold."""

SUMS: Mapping[str, SumBound] = {
    "reduce": SumBound(
        "`reduce` add over any axes, and so means, variances, norms, softmax's and losses' sums, "
        "bias gradients; `window` add",
        40,
        40,
        "16 terms",
    ),
    "cumulative": SumBound("`cumulative` add, each of its results", 16, 32, "8 terms; on GPUs 4"),
    "scatter": SumBound("`scatter` add, at each place", 40, 40, "16 updates"),
    "dot": SumBound(
        "`dot`, `conv` and their gradients",
        408,
        4200,
        "128 products, or the taps of a few of a window's axes up to 384; then up to 16 blocks. On "
        "GPUs 4,096 products (128 where an operand has few rows)",
        65600,
    ),
}
"""By the operation that adds: `window` is as `reduce`, `conv` as `dot`."""

SUM_OF = {
    "reduce": "reduce",
    "window": "reduce",
    "cumulative": "cumulative",
    "scatter": "scatter",
    "dot": "dot",
    "conv": "dot",
}
"""Which sum an operation makes, by mnemonic."""

RESIDUALS: Mapping[str, Sequence[ResidualBound]] = {
    "cholesky": (ResidualBound(2, "L L' - a", "n eps abs(L) abs(L')", True),),
    "triangular_solve": (ResidualBound(2, "a X - b", "n eps abs(a) abs(X)", True),),
    "lu": (ResidualBound(2, "L U - P a", "n eps abs(L) abs(U)", True),),
    "solve": (ResidualBound(6, "a X - b", "n eps abs(L) abs(U) abs(X)", True),),
    "qr": (ResidualBound(6, "Q R - a", "m n eps norm(a)"), ResidualBound(6, "Q' Q - I", "m n eps")),
    "eigh": (
        ResidualBound(30, "a V - V w", "n eps norm(a)"),
        ResidualBound(30, "V' V - I", "n eps"),
    ),
    "svd": (
        ResidualBound(30, "U S V' - a", "k eps norm(a)"),
        ResidualBound(30, "U' U - I, V' V - I", "k eps"),
    ),
    "eig": (ResidualBound(30, "a V - V w", "n eps norm(a)"),),
    "schur": (
        ResidualBound(30, "Z T Z' - a", "n eps norm(a)"),
        ResidualBound(30, "Z' Z - I", "n eps"),
    ),
    "hessenberg": (
        ResidualBound(6, "Q H Q' - a", "n n eps norm(a)"),
        ResidualBound(6, "Q' Q - I", "n n eps"),
    ),
    "tridiagonal": (
        ResidualBound(6, "Q T Q' - a", "n n eps norm(a)"),
        ResidualBound(6, "Q' Q - I", "n n eps"),
    ),
}
"""By mnemonic, of matrices with m rows and n columns, of which the smaller number is k."""

COMPLEX = 4.0
"""How many times as large the bounds of complex numbers are."""

WINOGRAD = 128.0
WINOGRAD_CHANNELS = 12
"""With C channels a convolution by Winograd's algorithm is off by at most
WINOGRAD (C + WINOGRAD_CHANNELS) M W u: M the largest pixel of a window, W the weights' magnitudes.
"""

WINOGRAD_GRADIENT = 16.0
"""The gradient for weights by Winograd's algorithm is off by at most WINOGRAD_GRADIENT
(n + WINOGRAD_CHANNELS) M W u: n the roundings of a dot product's sum, M the largest pixel of the
input channel, W the magnitudes of the output channel's cotangents.
"""

LEAST_WEIGHT = 2.0**-100
"""Weights and cotangents of smaller magnitude count as this in W."""

FAST_WINOGRAD = 2.0**-22
"""Of M W, M over the 36 pixels of a tile: with `precision: fast`, on normally distributed data."""


def unit_roundoff(dtype: DType) -> float:
    """The unit roundoff u of the accumulator for sums of a float type."""
    return 2.0 ** -(FRACTION[dtype.compute] + 1)


# ---- tables of docs/SPEC.md ------------------------------------------------------------------

MARKS = (
    "<!-- {} bounds: written by python -m xlac.ops.error_bounds -->",
    "<!-- end of {} bounds -->",
)


def function_table() -> str:
    """Bounds of scalar functions as a Markdown table; functions with equal bounds share a row."""
    shared: dict[FunctionBound, list[str]] = {}
    for name, bound in FUNCTIONS.items():
        shared.setdefault(bound, []).append(f"`{name}`")
    rows = [f"| {', '.join(n)} | {b.single:g} | {b.double:g} |" for b, n in shared.items()]
    return "\n".join(("| function | f32 | f64 |", "|---|---|---|", *rows)) + "\n"


def sum_table() -> str:
    """Bounds of sums as a Markdown table."""
    lines = ["| sum | CPUs | GPUs | terms of a block |", "|---|---|---|---|"]
    for bound in SUMS.values():
        gpu = f"{bound.gpu:,g}"
        if bound.tensor_cores:
            gpu += f"; tensor cores {bound.tensor_cores:,g}"
        lines.append(f"| {bound.what} | {bound.cpu:,g} | {gpu} | {bound.terms} |")
    return "\n".join(lines) + "\n"


def residual_table() -> str:
    """Bounds of linear algebra as a Markdown table."""
    lines = ["| operation | residual | at most | |", "|---|---|---|---|"]
    for name, bounds in RESIDUALS.items():
        for bound in bounds:
            how = "each element" if bound.elements else "Frobenius norm"
            lines.append(f"| `{name}` | {bound.what} | {bound.factor:g} {bound.limit} | {how} |")
    return "\n".join(lines) + "\n"


def written(text: str) -> str:
    """The document with its tables regenerated. Raises ValueError where a marker is missing."""
    for name, table in TABLES.items():
        begin, end = (mark.format(name) for mark in MARKS)
        if begin not in text or end not in text:
            raise ValueError(f"the chapter has no place for {name} bounds: {begin} … {end}")
        pattern = f"{re.escape(begin)}.*?{re.escape(end)}"
        chapter = f"{begin}\n{table()}{end}"
        text = re.sub(pattern, lambda _, chapter=chapter: chapter, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


TABLES = {"function": function_table, "sum": sum_table, "residual": residual_table}


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")
