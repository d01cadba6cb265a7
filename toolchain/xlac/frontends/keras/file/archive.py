"""A model's file: a .keras archive of its configuration (JSON) and weights (HDF5), or an .h5 file
of both.
"""

from __future__ import annotations

import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

from xlac.frontends.keras.file.hdf5 import Hdf5File
from xlac.frontends.keras.file.malformed import MalformedKerasFile, UnsafeKerasFile
from xlac.frontends.keras.file.weights import FlatWeights, TreeWeights, WeightStore

CONFIG, WEIGHTS, METADATA = "config.json", "model.weights.h5", "metadata.json"
MEMBERS = 100_000  # the most members of an archive
TEXT_BYTES = 1 << 27  # the most of the configuration
EXPANSION, FREE_BYTES = 16, 1 << 26
"""A member may unpack to EXPANSION times the archive's bytes, plus FREE_BYTES."""


def opened(path: Path) -> tuple[Any, WeightStore, bool]:
    """The configuration of a model's file as JSON, its weights, and whether Keras 2 wrote it.
    Raises MalformedKerasFile.
    """
    return _archive(path) if path.suffix.lower() == ".keras" else _single(path)


def _archive(path: Path) -> tuple[Any, WeightStore, bool]:
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as held:
            members = {info.filename: info for info in held.infolist()}
            if len(held.infolist()) > MEMBERS or len(members) < len(held.infolist()):
                raise MalformedKerasFile("it has too many members, or two with the same name")
            parts = [_member(held, members, name, size) for name in (CONFIG, WEIGHTS)]
    except MalformedKerasFile:
        raise
    except Exception as error:  # malformed archives raise many kinds in zipfile, zlib and lzma
        raise MalformedKerasFile(f"it is not a zip archive that can be read: {error}") from None
    file = Hdf5File(parts[1])
    told = _asset(path, METADATA)
    metadata = {} if told is None else _json(told)
    version = metadata.get("keras_version") if isinstance(metadata, dict) else None
    store = TreeWeights(file, file.root, partial(_asset, path))
    return _json(parts[0]), store, _is_old(version)


def _is_old(version: Any) -> bool:
    return isinstance(version, str) and version.startswith(("1.", "2."))


def _asset(path: Path, name: str) -> str | None:
    """The text of another member."""
    try:
        with zipfile.ZipFile(path) as held:
            members = {info.filename: info for info in held.infolist()}
            if name not in members:
                return None
            return _member(held, members, name, path.stat().st_size).decode("utf-8")
    except MalformedKerasFile:
        raise
    except Exception as error:  # as in _archive
        raise MalformedKerasFile(f"its member '{name}' cannot be read: {error}") from None


def _member(
    held: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str, size: int
) -> bytes:
    """The contents of a member, with its checksum verified."""
    if name not in members:
        raise MalformedKerasFile(f"its member '{name}' is missing")
    wanted = members[name].file_size
    if wanted > EXPANSION * size + FREE_BYTES or (name != WEIGHTS and wanted > TEXT_BYTES):
        raise UnsafeKerasFile(
            f"its member '{name}' unpacks to {wanted} bytes, far more than the file's {size}"
        )
    return held.read(members[name])


def _single(path: Path) -> tuple[Any, WeightStore, bool]:
    file = Hdf5File(path)
    text = file.text(file.root, "model_config")
    if text is None:
        raise MalformedKerasFile(
            "it has weights alone and no configuration: save the whole model, by model.save"
        )
    version = file.text(file.root, "keras_version")
    return _json(text[:TEXT_BYTES]), FlatWeights.of(file), _is_old(version)


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedKerasFile(f"its configuration is not JSON: {error}") from None
