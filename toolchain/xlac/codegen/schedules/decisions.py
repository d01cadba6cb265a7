"""The interface between choosing a schedule and writing a kernel: the chosen schedule of a group is
recorded, and one that was asked for replaces it.

A lowering calls `Decisions.settle` with its choice and a check; it writes the kernel from the
schedule that is returned. Parts of a group (a packed operand, a separate epilogue) are identified
by the suffix that their kernels' names have after the group's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xlac.codegen.schedules.schedule import Misfit, Schedule

S = TypeVar("S", bound=Schedule)

MAIN = "main"

Offers = Callable[[], Iterable[Schedule]]
"""Gives schedules of other templates, from which a search may start."""


class PartMisfit(Exception):
    """A Misfit of the schedule that was asked for a part of a group."""

    def __init__(self, part: str, misfit: Misfit) -> None:
        super().__init__(misfit.problem)
        self.part, self.misfit = part, misfit


@dataclass(frozen=True, slots=True)
class Decisions:
    """The schedules of one group by part: those asked for, and those used; and, where they are
    wanted, those of other templates that could be used.
    """

    name: str  # prefix of the kernels' names
    asked: Mapping[str, Schedule] = field(default_factory=dict)
    settled: dict[str, Schedule] = field(default_factory=dict)
    offered: dict[str, list[Schedule]] | None = None

    def part(self, name: str) -> str:
        """The part of the group that a kernel of this name computes."""
        return name.removeprefix(self.name).strip("_") or MAIN

    def wanted(self, name: str) -> Schedule | None:
        """The schedule asked for the kernel of this name; None if there is none."""
        return self.asked.get(self.part(name))

    def settle(
        self,
        name: str,
        chosen: S,
        check: Callable[[S], None],
        others: tuple[type[Schedule], ...] = (),
        offers: Offers | None = None,
    ) -> S:
        """The schedule for the kernel of this name: the one that was asked for, else `chosen`.
        `others` are templates that may replace the chosen one, `offers` gives schedules of them,
        and `check` raises Misfit for a schedule that cannot be used.

        Raises PartMisfit if the schedule that was asked for cannot be used.
        """
        part, asked = self.part(name), self.wanted(name)
        if asked is not None:
            try:
                able: tuple[type[Schedule], ...] = (type(chosen), *others)
                if not isinstance(asked, able):
                    words = ", ".join(dict.fromkeys(each.template for each in able))
                    raise Misfit(
                        ("template",),
                        f"{asked.template} cannot compute this kernel",
                        f"templates that can: {words}",
                    )
                check(asked)  # type: ignore[arg-type]
            except Misfit as misfit:
                raise PartMisfit(part, misfit) from None
            chosen = asked  # type: ignore[assignment]
        self.settled[part] = chosen
        if offers is not None:
            self.offer(name, offers, check, type(chosen))
        return chosen

    def offer(
        self,
        name: str,
        offers: Offers,
        check: Callable[[Any], None] = lambda schedule: None,
        but: type[Schedule] = Schedule,
    ) -> None:
        """Adds the schedules that `offers` gives, and that pass the check, to those offered for the
        kernel of this name, if these are wanted; not those of template `but`.
        """
        if self.offered is None:
            return
        for schedule in offers():
            with suppress(Misfit):
                check(schedule)
                if type(schedule) is not but:
                    self.offered.setdefault(self.part(name), []).append(schedule)
