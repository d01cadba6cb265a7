"""Settles which loops of a contraction its tiles cover: rows and columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xlac.codegen.core.contraction.axes import ContractionLoop
from xlac.codegen.core.contraction.contraction import Axis
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.operands import ColumnLoopSchedule, RowLoopsSchedule
from xlac.codegen.schedules.schedule import Misfit

ROWS = 2  # the most loops that a row tile covers


def settled_rows(
    name: str,
    decisions: Decisions,
    around: Sequence[ContractionLoop],
    able: Collection[int],
    chosen: Sequence[int],
) -> list[ContractionLoop]:
    """The row loops, of the loops `around` the sum with the numbers `able`: all of these where they
    are no more than two, else those of the kernel's schedule, which is that asked for or `chosen`.
    """
    if len(able) <= ROWS:
        return [around[number] for number in sorted(able)]

    def check(schedule: RowLoopsSchedule) -> None:
        for at, number in enumerate(schedule.rows):
            if number not in able:
                raise Misfit(("rows", at), f"rows can be loops {', '.join(map(str, sorted(able)))}")
        if list(schedule.rows) != sorted(set(schedule.rows)):
            raise Misfit(("rows",), "rows must be in ascending order")

    first, second = sorted(chosen)
    schedule = decisions.settle(f"{name}_rows", RowLoopsSchedule((first, second)), check)
    return [around[number] for number in schedule.rows]


def settled_columns(
    name: str, decisions: Decisions, across: Sequence[ContractionLoop]
) -> tuple[ContractionLoop, list[ContractionLoop]]:
    """The column loop, of the loops `across` the right operand's own axes, and the others: the only
    one, else that of the kernel's schedule, which is that asked for or the innermost.
    """
    if not across:
        return ContractionLoop(Axis(1), ()), []
    number = len(across) - 1
    if number:

        def check(schedule: ColumnLoopSchedule) -> None:
            if schedule.columns >= len(across):
                raise Misfit(("columns",), f"columns can be loops 0 to {len(across) - 1}")

        chosen = ColumnLoopSchedule(number)
        number = decisions.settle(f"{name}_columns", chosen, check).columns
    return across[number], [*across[:number], *across[number + 1 :]]


def of_windows(around: Sequence[ContractionLoop]) -> list[int]:
    """The numbers of the loops that are best rows of a convolution: the last two; or the longest
    and the last, if tiles of the last two would have few rows and every step of the longest would
    read the whole right operand again (weight gradients, whose rows and columns are taps).
    """
    numbers = range(len(around))
    others, last = numbers[:-ROWS], numbers[-ROWS:]
    if not others:
        return list(last)
    usual = [run.loop.usual for run in around]
    longest = max(others, key=usual.__getitem__)
    return [longest, last[-1]] if usual[longest] > usual[last[0]] * usual[last[1]] else list(last)
