"""The C interface of a program with entries: functions besides `NAME_run`, and the state as
numbered tensors that can be read and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xlac_sdk.emit.cfunctions import TYPES
from xlac_sdk.host.capi.arguments import ArrayArgument
from xlac_sdk.host.capi.names import parameters
from xlac_sdk.programs.entries import tensors
from xlac_sdk.programs.program import Program, Slot


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """The function of an entry. `flag` is the byte of the arena that says whether the state was
    changed, `needed` the byte of the state, with its C type, of a number that must be set before.
    """

    name: str
    arrays: tuple[ArrayArgument, ...]
    flag: int | None = None
    needed: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Setter:
    """`NAME_set_lr` and similar functions: where the number is stored, as which type and with which
    factor; and its largest valid value.
    """

    name: str
    base: str
    most: str
    stores: tuple[tuple[int, str, str], ...]  # (byte of the state, C type, factor)


@dataclass(frozen=True, slots=True)
class EntryPoints:
    """The functions of a program with entries, besides those of every program."""

    points: tuple[EntryPoint, ...]
    setters: tuple[Setter, ...]
    tensors: tuple[ArrayArgument, ...]

    @property
    def functions(self) -> list[str]:
        """Their names, without the prefix."""
        named = [*(point.name for point in self.points), *(f"set_{s.name}" for s in self.setters)]
        return [*named, "get", "set", "tensor"]


def entry_points(program: Program, arrays: Mapping[Slot, ArrayArgument]) -> EntryPoints | None:
    """The entry points of a program, whose inputs and outputs are named as in `arrays`; None where
    it has no entries.
    """
    if program.entries is None:
        return None
    points = tuple(
        EntryPoint(
            entry.name,
            tuple(arrays[slot] for slot in (*entry.inputs, *entry.outputs)),
            entry.succeeded.offset if entry.succeeded else None,
            (entry.needs.offset, TYPES[entry.needs.dtype]) if entry.needs else None,
        )
        for entry in program.entries.entries
    )
    setters = tuple(
        Setter(
            setting.name,
            repr(float(setting.base)),
            repr(float(setting.most)),
            tuple((s.offset, TYPES[s.dtype], repr(float(f))) for s, f in setting.slots),
        )
        for setting in program.entries.settings
    )
    kept = tensors(program)
    plain = parameters((slot.name for slot in kept), "tensor")
    # an array `x` has the macros X and X_COUNT
    names = [f"{n}_" if n.removesuffix("_count") in set(plain) - {n} else n for n in plain]
    called = (ArrayArgument(slot, n, True) for slot, n in zip(kept, names, strict=True))
    return EntryPoints(points, setters, tuple(called))
