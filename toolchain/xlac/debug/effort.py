"""How long work takes at least, whatever a compiler makes of it: what is absurd is said before it
begins.
"""

from __future__ import annotations

from xlac_sdk.source import Diagnostic, LimitError

FLOPS = 250e9  # operations a second that no core exceeds; its rate in practice is a third of that
BYTES = 500e9  # bytes a second that no machine's memory exceeds
INTERPRETED = 1e9  # operations a second of the reference target
LONG, ABSURD = 60.0, 3600.0  # seconds from which on it is said, and refused
TARGETS = ("cpu", "c", "reference")  # others may be as fast as they like


def seconds(flops: int, nbytes: int, target: str, threads: int) -> float:
    """What a call takes at least; 0 for a target of which that is not known."""
    if target not in TARGETS:
        return 0.0
    return max(
        flops / (INTERPRETED if target == "reference" else FLOPS * max(1, threads)), nbytes / BYTES
    )


def warning(flops: int, nbytes: int, target: str, threads: int) -> str:
    """A sentence about it where it is long, else nothing."""
    least = seconds(flops, nbytes, target, threads)
    if least < LONG:
        return ""
    return (
        f"a call takes at least {duration(least)}: {flops:,} operations and {nbytes:,} bytes on "
        f"{threads} thread(s) of target '{target}'"
    )


def check(flops: int, nbytes: int, target: str, threads: int) -> None:
    """Raises LimitError where the work is absurd."""
    if seconds(flops, nbytes, target, threads) >= ABSURD:
        hint = "--allow-long runs it nevertheless; --timeout SECONDS ends it"
        raise LimitError(Diagnostic("XL4043", warning(flops, nbytes, target, threads), hint=hint))


def duration(seconds: float) -> str:
    """A time as people say it."""
    for size, unit in (
        (365.25 * 86400, "years"),
        (86400, "days"),
        (3600, "hours"),
        (60, "minutes"),
    ):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} seconds"
