"""Cases for programs that keep state between calls."""

from __future__ import annotations

from xlac_sdk.conformance.case import ConformanceCase
from xlac_sdk.conformance.step_parts import N, affine, numbered, program_of, slot_of
from xlac_sdk.programs.program import Argument, Copy, Launch, Role


def state() -> ConformanceCase:
    """A running total kept as state between three calls."""
    x, y, s = slot_of("x", Role.INPUT), slot_of("y", Role.OUTPUT), slot_of("s", Role.STATE)
    add = affine("running", 1.0, 0.0, update=True)
    steps = (Launch(add, (Argument(x), Argument(s))), Copy(Argument(y), Argument(s), N))
    return ConformanceCase(
        "state between calls", "steps", program_of((x, y, s), steps), {"x": numbered()}, calls=3
    )


def two_states() -> ConformanceCase:
    """Two launches of one kernel, each with state of its own, between three calls."""
    x, y = slot_of("x", Role.INPUT), slot_of("y", Role.OUTPUT, size=2 * N)
    one, two = (slot_of(n, Role.STATE, offset=o) for n, o in (("one", 0), ("two", 64)))
    add = affine("running_twice", 0.5, 0.0, update=True)
    steps = (
        Launch(add, (Argument(x), Argument(one))),
        Launch(add, (Argument(one), Argument(two))),
        Copy(Argument(y), Argument(one), N),
        Copy(Argument(y, N), Argument(two), N),
    )
    slots = (x, y, one, two)
    name = "two equal kernels with state of their own"
    return ConformanceCase(name, "steps", program_of(slots, steps), {"x": numbered()}, calls=3)
