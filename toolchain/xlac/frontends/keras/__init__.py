"""Imports models of Keras, without Keras: their configuration and weights are read, nothing of the
file is executed. `load` is the entry point; `layers/` defines the layers.
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
) -> Model:
    """A model from a .keras or .h5 file. Needs the package h5py.

    `dims` fixes or narrows symbolic sizes; `params` fixes inputs to values. Raises SourceError that
    lists every layer that cannot be imported.
    """
    from xlac.frontends.keras.read import read

    return read(source, dims or {}, params or {})
