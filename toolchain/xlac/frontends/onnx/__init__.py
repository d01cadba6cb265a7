"""Imports ONNX models. `load` is the entry point; `ops/` defines the operators."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.model import Model


def load(
    source: Path | Any,
    *,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    training: bool = False,
) -> Model:
    """A model from an .onnx file or a ModelProto.

    `dims` fixes or narrows symbolic dims; `params` fixes inputs to values, which is required for
    inputs that decide a size. Raises SourceError that lists every node that cannot be imported.
    """
    from xlac.frontends.onnx.read import read

    return read(source, dims or {}, params or {}, allow_outside)
