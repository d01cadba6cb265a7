"""StableHLO: text, and portable bytecode where jaxlib is installed. `load` is the door; `ops/` says
what operations mean.
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
    out0, out1, …. A complex tensor is one of real numbers with a last axis of 2, as its bytes are.
    A minifloat is its code in u8, an integer of 2 or 4 bits one of 8, a quantised tensor its
    integers. `dims` fixes or bounds sizes that the text leaves open (`arg0_0` is the first of
    %arg0); `params` fixes inputs to values. Raises SourceError.
    """
    from xlac.frontends.stablehlo.module import load as read

    return read(source, dims or {}, params or {})
