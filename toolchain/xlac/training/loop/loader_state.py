"""The state of somebody else's loader in a checkpoint: what its `state_dict` gives, as JSON and arrays.
Reading it makes nothing but numbers, texts, arrays and what holds these.
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

DEEPEST = 64  # of what holds others


class Unkeepable(TypeError):
    """A state that holds something else; the text names it."""


@dataclass(frozen=True, slots=True)
class LoaderState:
    """A state: its text, and the arrays that the text has numbers for."""

    text: str
    arrays: list[Array] = field(default_factory=list)

    @staticmethod
    def of(state: Any) -> LoaderState:
        """What a loader's `state_dict` gave. Raises Unkeepable."""
        arrays: list[Array] = []
        return LoaderState(json.dumps(_told(state, arrays, 0)), arrays)

    def value(self) -> Any:
        """What `load_state_dict` is given. Raises ValueError for a text that is none."""
        try:
            return _value(json.loads(self.text), self.arrays)
        except (LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"the state of the loader is not one: {error}") from None


class LoaderPlace:
    """A loader that says where it is, in a run."""

    def __init__(self, data: BatchData) -> None:
        self._data: BatchData | None = data

    @staticmethod
    def of(data: TrainingData) -> LoaderPlace | None:
        """That of data which have one."""
        return LoaderPlace(data) if isinstance(data, BatchData) and data.keeps_place else None

    def state(self, say: Callable[[str], object]) -> LoaderState | None:
        """Where it is; None where that cannot be kept, which is said once."""
        if self._data is None:
            return None
        try:
            return LoaderState.of(self._data.place())
        except Unkeepable as error:
            what = f"the loader's state holds {error}, which a checkpoint cannot"
            say(f"note: {what}: a run that goes on makes the batches before again")
            self._data = None
            return None

    def go_on(self, state: LoaderState) -> None:
        """It goes on from a state."""
        if self._data is not None:
            self._data.go_on(state.value())


def _told(value: Any, arrays: list[Array], depth: int) -> Any:
    """A value as JSON. What JSON has not is an object of one key, which says what it is."""
    if depth > DEEPEST:
        raise Unkeepable(f"what is nested more than {DEEPEST} deep")

    def all_of(values: Sequence[Any]) -> list[Any]:
        return [_told(one, arrays, depth + 1) for one in values]

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
        raise Unkeepable(f"a {type(value).__module__}.{type(value).__qualname__}")
    array = value.detach().cpu().numpy() if tensor else np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise Unkeepable(f"an array of {array.dtype}")
    arrays.append(np.array(array))
    return {kind: len(arrays) - 1}


def _value(told: Any, arrays: Sequence[Array]) -> Any:
    if not isinstance(told, dict):
        return told
    ((kind, content),) = told.items()

    def all_of(values: Sequence[Any]) -> list[Any]:
        return [_value(one, arrays) for one in values]

    made: dict[str, Callable[[], Any]] = {
        "bytes": lambda: bytes.fromhex(content),
        "map": lambda: dict(map(all_of, content)),
        "list": lambda: all_of(content),
        "tuple": lambda: tuple(all_of(content)),
        "array": lambda: np.array(arrays[content]),
        "number": lambda: arrays[content][()],
        "tensor": lambda: _tensor(arrays[content]),
    }
    return made[kind]()


def _tensor(array: Array) -> Any:
    import torch  # which the loader that gave it has imported

    return torch.from_numpy(np.array(array))
