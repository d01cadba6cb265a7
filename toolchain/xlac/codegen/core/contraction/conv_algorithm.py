"""Settles the algorithm that computes a convolution."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.schedules.conv import ConvAlgorithm, ConvAlgorithmSchedule, algorithm_of
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.schedule import Misfit


def settled(
    name: str, decisions: Decisions, able: Sequence[ConvAlgorithm], chosen: ConvAlgorithm
) -> ConvAlgorithm:
    """The algorithm, one of those that are `able`: the only one; or that of the convolution's
    schedule, which is the one asked for, the one of the kernel asked for, or `chosen`.
    """
    if len(able) == 1:
        return able[0]

    def check(schedule: ConvAlgorithmSchedule) -> None:
        if schedule.algorithm not in able:
            raise Misfit(("algorithm",), f"algorithms that can compute it: {', '.join(able)}")

    implied = algorithm_of(decisions.wanted(name))
    if implied is not None and implied in able:
        chosen = implied
    return decisions.settle(f"{name}_algorithm", ConvAlgorithmSchedule(chosen), check).algorithm
