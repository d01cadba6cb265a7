"""Imports StableHLO: text, and portable bytecode if jaxlib is installed. `load` is the entry point;
`ops/` defines the operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.model import Model

__all__ = ["CUSTOM_CALLS", "load"]


def load(
    source: Path | str | bytes,
    *,
    dims: Mapping[str, Any] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    training: bool = False,
) -> Model:
    """A model from an .mlir or .mlirbc file, from text, or from the bytes of portable bytecode.

    The function `main` is the model; its arguments keep their names, and its results are called
    out0, out1, …, or named as `xlac export` wrote them. A complex tensor is passed as real numbers
    with a last axis of 2, as its bytes are; a minifloat as its code in u8, an integer of 2 or 4
    bits in 8, a quantised tensor as its integers. `dims` fixes or bounds sizes that the text leaves
    dynamic (`arg0_0` is the first of %arg0); `params` fixes inputs to values. Raises SourceError.
    """
    from xlac.frontends.stablehlo.module import load as read

    return read(source, dims or {}, params or {})
