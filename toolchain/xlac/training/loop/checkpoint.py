"""Checkpoints: the state of a run as a safetensors file whose integrity is checked when it is read.

The metadata: `format` and `version`; `position` and `identity`, in JSON; `digest`, BLAKE2b of these
and of every tensor's name, dtype, shape and bytes, in the order of names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, Field, TypeAdapter

from xlac.ir.types import Type
from xlac.spec.weights.safetensors import SafetensorsFile, TensorSource, write_tensors
from xlac.spec.weights.tensor_files import BadFile
from xlac.support.digest import BYTES
from xlac.training.loop.files import replacing
from xlac.training.loop.loader_state import LoaderState
from xlac.training.loop.options import MOST
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.hashing import blake2b

FORMAT, VERSION = "xlac training checkpoint", "1"
LOADER = "loader/"  # prefix of the names of a data loader's arrays
Counted = Annotated[int, Field(ge=0, le=MOST)]
NAME = re.compile(r"checkpoint-(\d{10})\.safetensors")


def _pairs(numbers: tuple[float, ...]) -> tuple[float, ...]:
    if not numbers or len(numbers) % 2:
        raise ValueError("a sum and a count, or several such pairs")
    return numbers


Pairs = Annotated[tuple[float, ...], AfterValidator(_pairs)]


@dataclass(slots=True)
class RunPosition:
    """How far a run has come: whole epochs, batches of the next one and the sums of their metrics,
    seconds of training; the best value of the metric that selects the best checkpoint, its step,
    and the number of epochs since (`waited`).
    """

    step: Counted = 0
    epoch: Counted = 0
    batches: Counted = 0
    sums: dict[str, Pairs] = field(default_factory=dict)
    seconds: float = 0.0
    best: float | None = None
    best_step: Annotated[int, Field(ge=-1, le=MOST)] = -1
    waited: Counted = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The content of a checkpoint: the options that decide a run's results, its position, the
    training state, and the state of a data loader that has one.
    """

    identity: dict[str, Any]
    position: RunPosition
    state: dict[str, Array]
    loader: LoaderState | None = None


class BadCheckpoint(ValueError):
    """The file is no checkpoint, or it is damaged."""


def path_of(folder: Path, step: int) -> Path:
    """The path of the checkpoint of a step."""
    return folder / f"checkpoint-{step:010d}.safetensors"


def listed(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the newest first."""
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if NAME.fullmatch(p.name)), reverse=True)


def write(path: Path, checkpoint: Checkpoint, kept: str) -> None:
    """Writes a checkpoint, whole or not at all. Raises LimitError, with the hint `kept`, where the
    disk is full, and OSError.
    """
    texts = {
        "position": json.dumps(asdict(checkpoint.position)),
        "identity": json.dumps(checkpoint.identity),
    }
    metadata = {"format": FORMAT, "version": VERSION, **texts}
    held = dict(checkpoint.state)
    if checkpoint.loader is not None:
        metadata["loader"] = checkpoint.loader.text
        held |= {f"{LOADER}{n}": array for n, array in enumerate(checkpoint.loader.arrays)}
    metadata["digest"] = _digest(metadata, held)
    tensors = {
        name: TensorSource(Type(DType.of(array.dtype), array.shape), lambda array=array: array)  # type: ignore[misc]
        for name, array in held.items()
    }
    with replacing(path, f"the checkpoint of step {checkpoint.position.step}", kept) as temporary:
        write_tensors(temporary, tensors, metadata=metadata)


def read(path: Path) -> Checkpoint:
    """A checkpoint whose digest is right. Raises BadCheckpoint, OSError, and SourceError for
    another version of the format.
    """
    try:
        file = SafetensorsFile(path)
        metadata = file.metadata
        if metadata.get("format") != FORMAT:
            raise BadCheckpoint("it is not a checkpoint of xlac")
        if metadata.get("version") != VERSION:
            version = metadata.get("version")
            problem = f"{path} is a checkpoint of version {version!r}, and {VERSION} is read"
            raise SourceError(
                Diagnostic("XL6334", problem, hint="go on with the xlac that wrote it")
            )
        state = {name: np.array(file[name]) for name in file}
        if metadata.pop("digest", None) != _digest(metadata, state):
            raise BadCheckpoint("its content is not what was written")
        loader = None
        if "loader" in metadata:
            arrays = [state.pop(name) for name in _loaders(state)]
            loader = LoaderState(metadata["loader"], arrays)
            loader.value()  # raises ValueError for a malformed state
        position = TypeAdapter(RunPosition).validate_json(metadata["position"], strict=True)
        chosen = TypeAdapter(dict[str, Any]).validate_json(metadata["identity"])
        return Checkpoint(chosen, position, state, loader)
    except (BadFile, KeyError, TypeError, ValueError, RecursionError) as error:
        raise BadCheckpoint(str(error)) from None


def _loaders(state: Mapping[str, Array]) -> list[str]:
    """The arrays of a loader's state, in order."""
    names = [name for name in state if name.startswith(LOADER)]
    return sorted(names, key=lambda name: int(name.removeprefix(LOADER)))


def state_digest(state: Mapping[str, Array]) -> str:
    """A hash of all tensors of a state."""
    return _digest({}, state)


def _digest(metadata: Mapping[str, str], state: Mapping[str, Array]) -> str:
    hasher = blake2b(digest_size=BYTES)
    for name, text in sorted(metadata.items()):
        hasher.update(f"{name} {len(text)} {text}\n".encode())
    for name, array in sorted(state.items()):
        hasher.update(f"{name} {array.dtype.name} {array.shape}\n".encode())
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()
