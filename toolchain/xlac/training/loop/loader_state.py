"""The `state_dict` of a user's data loader in a checkpoint, as JSON and arrays. Unlike a pickle,
reading it can make only numbers, strings, arrays, and containers of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlac.training.data.batches import TrainingData
from xlac.training.data.stream import BatchData
from xlac_sdk.dtypes import Array

DEEPEST = 64  # nesting of containers


class NotSerializable(TypeError):
    """The state holds another kind of value; the message names it."""


@dataclass(frozen=True, slots=True)
class LoaderState:
    """A loader's state as JSON text, and the arrays that the text refers to by index."""

    text: str
    arrays: list[Array] = field(default_factory=list)

    @staticmethod
    def of(state: Any) -> LoaderState:
        """Encodes what a loader's `state_dict` returned. Raises NotSerializable."""
        arrays: list[Array] = []
        return LoaderState(json.dumps(_encoded(state, arrays, 0)), arrays)

    def value(self) -> Any:
        """The decoded state, for `load_state_dict`. Raises ValueError for malformed text."""
        try:
            return _decoded(json.loads(self.text), self.arrays)
        except (LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"the state of the loader is not one: {error}") from None


class LoaderPosition:
    """Saves and restores the position of a data loader that has `state_dict`."""

    def __init__(self, data: BatchData) -> None:
        self._data: BatchData | None = data

    @staticmethod
    def of(data: TrainingData) -> LoaderPosition | None:
        """The position of such data, None of any other."""
        return LoaderPosition(data) if isinstance(data, BatchData) and data.resumable else None

    def state(self, say: Callable[[str], object]) -> LoaderState | None:
        """The loader's state; None where it is not serializable, which `say` reports once."""
        if self._data is None:
            return None
        try:
            return LoaderState.of(self._data.loader_state())
        except NotSerializable as error:
            what = f"the loader's state holds {error}, which a checkpoint cannot"
            say(f"note: {what}: a run that goes on makes the batches before again")
            self._data = None
            return None

    def restore(self, state: LoaderState) -> None:
        """Puts the loader into a saved state."""
        if self._data is not None:
            self._data.restore_loader(state.value())


def _encoded(value: Any, arrays: list[Array], depth: int) -> Any:
    """A value as JSON. Types that JSON lacks become an object whose one key names the type."""
    if depth > DEEPEST:
        raise NotSerializable(f"what is nested more than {DEEPEST} deep")

    def all_of(values: Sequence[Any]) -> list[Any]:
        return [_encoded(one, arrays, depth + 1) for one in values]

    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, bytes | bytearray):
        return {"bytes": bytes(value).hex()}
    if isinstance(value, Mapping):
        return {"map": [all_of(pair) for pair in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: all_of(value)}
    tensor = type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "numpy")
    kind = "tensor" if tensor else "number" if isinstance(value, np.generic) else "array"
    if not tensor and not isinstance(value, np.ndarray | np.generic):
        raise NotSerializable(f"a {type(value).__module__}.{type(value).__qualname__}")
    array = value.detach().cpu().numpy() if tensor else np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise NotSerializable(f"an array of {array.dtype}")
    arrays.append(np.array(array))
    return {kind: len(arrays) - 1}


def _decoded(encoded: Any, arrays: Sequence[Array]) -> Any:
    if not isinstance(encoded, dict):
        return encoded
    ((kind, content),) = encoded.items()

    def all_of(values: Sequence[Any]) -> list[Any]:
        return [_decoded(one, arrays) for one in values]

    decoders: dict[str, Callable[[], Any]] = {
        "bytes": lambda: bytes.fromhex(content),
        "map": lambda: dict(map(all_of, content)),
        "list": lambda: all_of(content),
        "tuple": lambda: tuple(all_of(content)),
        "array": lambda: np.array(arrays[content]),
        "number": lambda: arrays[content][()],
        "tensor": lambda: _tensor(arrays[content]),
    }
    return decoders[kind]()


def _tensor(array: Array) -> Any:
    import torch  # imported already by the loader whose state this is

    return torch.from_numpy(np.array(array))
