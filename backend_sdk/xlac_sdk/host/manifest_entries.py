"""A program's entries in its manifest: their functions, the state tensors, and numbers that callers
set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xlac_sdk.dims import Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.host.manifest_tensors import TENSOR, TensorFacts
from xlac_sdk.programs.entries import Entries, Entry, Setting, tensors
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.support import schema


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """An entry; `needs` is a state tensor that must be nonzero."""

    name: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    needs: str = ""


@dataclass(frozen=True, slots=True)
class StateFacts:
    """A state tensor, and its offset in the state block in bytes."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A destination of a number that is set, with its factor:
    `xlac_sdk.programs.entries.Setting`.
    """

    tensor: str
    factor: float


@dataclass(frozen=True, slots=True)
class SettingFacts:
    """A number that callers set, such as `lr`."""

    name: str
    stores: tuple[StoreFacts, ...]


@dataclass(frozen=True, slots=True)
class EntriesFacts:
    """The entries, state and settings of a program."""

    functions: tuple[EntryFacts, ...]
    state: tuple[StateFacts, ...]
    settings: tuple[SettingFacts, ...]

    @staticmethod
    def of(program: Program) -> EntriesFacts | None:
        """The facts of a program; None for one without entries."""
        if program.entries is None:
            return None
        return EntriesFacts(
            tuple(
                EntryFacts(
                    entry.name,
                    tuple(map(TensorFacts.of, entry.inputs)),
                    tuple(map(TensorFacts.of, entry.outputs)),
                    entry.needs.name if entry.needs else "",
                )
                for entry in program.entries.entries
            ),
            tuple(
                StateFacts(slot.name, slot.dtype, slot.extents({}), slot.offset, slot.nbytes)
                for slot in tensors(program)
            ),
            tuple(
                SettingFacts(
                    setting.name,
                    tuple(StoreFacts(slot.name, factor) for slot, factor in setting.slots),
                )
                for setting in program.entries.settings
            ),
        )

    def slots(self) -> dict[str, Slot]:
        """The state tensors as slots, by name."""
        return {
            one.name: Slot(one.name, f"state{n}", one.dtype, one.shape, Role.STATE, one.offset)
            for n, one in enumerate(self.state)
        }

    def entries(self, state: Mapping[str, Slot], symbols: Mapping[str, Symbol]) -> Entries:
        """The entries as programs have them, without steps."""
        return Entries(
            tuple(
                Entry(
                    one.name,
                    tuple(t.slot(Role.INPUT, symbols) for t in one.inputs),
                    tuple(t.slot(Role.OUTPUT, symbols) for t in one.outputs),
                    (),
                    needs=state[one.needs] if one.needs else None,
                )
                for one in self.functions
            ),
            settings=tuple(
                Setting(one.name, tuple((state[s.tensor], s.factor) for s in one.stores))
                for one in self.settings
            ),
        )

    def check(self, state_bytes: int, symbols: Mapping[str, Symbol]) -> None:
        """Raises ValueError where facts are inconsistent with each other, or with the size of the
        state block.
        """
        for kind, names in (
            ("entry", [one.name for one in self.functions]),
            ("tensor of the state", [one.name for one in self.state]),
            ("setting", [one.name for one in self.settings]),
        ):
            if len(set(names)) < len(names):
                raise ValueError(f"entries: two of one name, {kind}")
        known = self.slots()
        for one in self.state:
            if known[one.name].nbytes != one.bytes:
                raise ValueError(f"entries: '{one.name}' has other bytes than its shape says")
            if one.offset % one.dtype.nbytes or one.offset + one.bytes > state_bytes:
                raise ValueError(f"entries: '{one.name}' is not a place of the state")
        scalars = {one.name for one in self.state if one.dtype.is_float and not one.shape}
        needed = [one.needs for one in self.functions if one.needs]
        for name in (*needed, *(s.tensor for one in self.settings for s in one.stores)):
            if name not in scalars:
                raise ValueError(f"entries: '{name}' is not a number of the state")
        for function in self.functions:
            names = [t.name for t in (*function.inputs, *function.outputs)]
            if len(set(names)) < len(names):
                raise ValueError(f"entries: '{function.name}' has two arrays of one name")
            for tensor in (*function.inputs, *function.outputs):
                if tensor.slot(Role.INPUT, symbols).nbytes != tensor.bytes:
                    raise ValueError(
                        f"entries: '{tensor.name}' has other bytes than its shape says"
                    )


def _number(value: Any, place: str) -> float:
    if type(value) is not float or not math.isfinite(value):
        raise schema.wrong(place, "a finite number with a point", value)
    return value


_NAME, _COUNT = schema.text(r"(?s).+"), schema.count()
_FUNCTION = schema.record(
    EntryFacts,
    {
        "name": schema.text(r"[A-Za-z_][A-Za-z0-9_]*"),
        "inputs": schema.many(TENSOR),
        "outputs": schema.many(TENSOR, least=1),
        "needs": schema.text(),
    },
)
_STATE = schema.record(
    StateFacts,
    {
        "name": _NAME,
        "dtype": schema.member(DType),
        "shape": schema.many(_COUNT, 64),
        "offset": _COUNT,
        "bytes": _COUNT,
    },
)
_STORE = schema.record(StoreFacts, {"tensor": _NAME, "factor": _number})
_SETTING = schema.record(
    SettingFacts,
    {"name": schema.text(r"[A-Za-z_][A-Za-z0-9_]*"), "stores": schema.many(_STORE, least=1)},
)
ENTRIES = schema.record(
    EntriesFacts,
    {
        "functions": schema.many(_FUNCTION, least=1),
        "state": schema.many(_STATE),
        "settings": schema.many(_SETTING),
    },
)
