"""Imports models of TensorFlow Lite, without TensorFlow. `load` is the entry point; `ops/` defines
the operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from xlac.model import Model


def load(
    source: Path,
    *,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    training: bool = False,
    signature: str = "",
) -> Model:
    """A model from a .tflite file.

    `dims` fixes or narrows symbolic sizes; `params` fixes inputs to values; `signature` names one
    of the file's, by default `serving_default`. Raises SourceError that lists every operator that
    cannot be imported.
    """
    from xlac.frontends.tflite.read import read

    return read(source, dims or {}, params or {}, signature)
