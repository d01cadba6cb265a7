"""The point between choosing and writing: what was chosen for a group is recorded, and what was
asked for takes its place.

A lowering calls `Decisions.settle` with what its chooser chose and a check of what may be; it
writes the kernel from the schedule that it gets back. Parts of a group (an operand that is packed,
an epilogue apart) are told apart by how their kernels' names go on from the group's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from xlac.codegen.schedules.schedule import Misfit, Schedule

S = TypeVar("S", bound=Schedule)

MAIN = "main"


class PartMisfit(Exception):
    """A Misfit of the schedule that was asked for a part of a group."""

    def __init__(self, part: str, misfit: Misfit) -> None:
        super().__init__(misfit.problem)
        self.part, self.misfit = part, misfit


@dataclass(frozen=True, slots=True)
class Decisions:
    """The schedules of one group by part: what is asked for, and what is then written."""

    name: str  # that kernels' names begin with
    asked: Mapping[str, Schedule] = field(default_factory=dict)
    made: dict[str, Schedule] = field(default_factory=dict)

    def part(self, name: str) -> str:
        """The part of the group that a kernel of this name computes."""
        return name.removeprefix(self.name).strip("_") or MAIN

    def wanted(self, name: str) -> Schedule | None:
        """What is asked for the kernel of this name; None where nothing is."""
        return self.asked.get(self.part(name))

    def settle(
        self,
        name: str,
        chosen: S,
        check: Callable[[S], None],
        others: tuple[type[Schedule], ...] = (),
    ) -> S:
        """The schedule to write the kernel of this name from: what was asked for, where it was,
        else what was `chosen`. Templates that could stand in its place are `others`, and `check`
        raises Misfit for a schedule that cannot be written.

        Raises PartMisfit for what was asked for and cannot be.
        """
        part, asked = self.part(name), self.wanted(name)
        if asked is not None:
            try:
                able: tuple[type[Schedule], ...] = (type(chosen), *others)
                if not isinstance(asked, able):
                    words = ", ".join(dict.fromkeys(each.template for each in able))
                    raise Misfit(
                        ("template",), f"{asked.template} cannot compute this", f"able are {words}"
                    )
                check(asked)  # type: ignore[arg-type]
            except Misfit as misfit:
                raise PartMisfit(part, misfit) from None
            chosen = asked  # type: ignore[assignment]
        self.made[part] = chosen
        return chosen
