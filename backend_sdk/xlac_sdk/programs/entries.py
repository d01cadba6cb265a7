"""Entries: further functions of a program that share its memory, such as a training step and an
evaluation beside the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xlac_sdk.dtypes import DType
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.programs.steps import Step, touched
from xlac_sdk.source import VerifyError

LARGEST = 2.0**128 - 2.0**104
"""The largest number of f32."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A function of the program besides its main one: it shares state, arena, constants and sizes;
    its inputs and outputs are its own, all among the program's slots.

    `succeeded` is a bool in the arena that says after the steps whether they changed the state, if
    they may leave it unchanged. `needs` is a number of the state that must not be 0.
    """

    name: str
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    steps: tuple[Step, ...]
    succeeded: Slot | None = None
    needs: Slot | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """A number that callers set between calls: each of `slots`, scalars of the state, becomes
    `value * factor / base`, computed in float64; `base` is the first factor, or 1 if that is 0.
    """

    name: str
    slots: tuple[tuple[Slot, float], ...]

    @property
    def base(self) -> float:
        """The reference for factors."""
        return self.slots[0][1] or 1.0

    @property
    def most(self) -> float:
        """The largest number that can be set."""
        return largest([factor for _, factor in self.slots])


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The entries of a program, and the steps `first` that turn a zeroed state into the initial
    one.
    """

    entries: tuple[Entry, ...]
    first: tuple[Step, ...] = ()
    settings: tuple[Setting, ...] = ()


def largest(factors: Sequence[float]) -> float:
    """The largest number of which all shares, by `factors` over the first of them, are in f32."""
    base = factors[0] or 1.0
    return min([LARGEST, *(LARGEST * (base / factor) for factor in factors if factor > 0)])


def tensors(program: Program) -> tuple[Slot, ...]:
    """The named tensors of the state, in the order of the program."""
    return tuple(slot for slot in program.slots if slot.role is Role.STATE and slot.name)


def of_entry(program: Program, entry: Entry) -> Program:
    """An entry as a program without entries."""
    return replace(
        program, inputs=entry.inputs, outputs=entry.outputs, steps=entry.steps, entries=None
    )


def parts(program: Program) -> Iterator[Program]:
    """Each entry, and the initialization of the state, as programs without entries."""
    if program.entries is not None:
        for entry in program.entries.entries:
            yield of_entry(program, entry)
        yield replace(program, inputs=(), outputs=(), steps=program.entries.first, entries=None)


def check(program: Program) -> None:
    """Raises VerifyError for an invalid entry or setting."""
    if program.entries is None:
        return
    names = [entry.name for entry in program.entries.entries]
    names += [f"set_{setting.name}" for setting in program.entries.settings]
    for name in names:
        if not (name.isascii() and name.isidentifier()) or names.count(name) > 1:
            raise VerifyError(f"an entry cannot be called '{name}'")
    known = set(program.slots)
    for entry in program.entries.entries:
        flag, needs = entry.succeeded, entry.needs
        if flag is not None and (
            flag not in known
            or (flag.role, flag.dtype, flag.size) != (Role.TEMPORARY, DType.BOOL, 1)
            or flag not in touched(entry.steps)
        ):
            raise VerifyError(f"{flag.label} does not say whether '{entry.name}' succeeded")
        if needs is not None and not _scalar_state(needs, known):
            raise VerifyError(
                f"'{entry.name}' needs {needs.label}, which is not a scalar of the state"
            )
    for setting in program.entries.settings:
        for slot, _ in setting.slots:
            if not _scalar_state(slot, known):
                raise VerifyError(f"{slot.label} is not a scalar of the state, and cannot be set")


def _scalar_state(slot: Slot, known: set[Slot]) -> bool:
    return slot in known and slot.role is Role.STATE and slot.dtype.is_float and slot.size == 1
