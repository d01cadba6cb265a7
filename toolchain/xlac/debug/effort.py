"""How long work takes at least, whatever a compiler makes of it: what is absurd is said before it
begins.
"""

from __future__ import annotations

from xlac_sdk.source import Diagnostic, LimitError

BYTES = 500e9  # bytes a second that no machine's memory exceeds
LONG, ABSURD = 60.0, 3600.0  # seconds from which on it is said, and refused


def seconds(flops: int, nbytes: int, peak: float | None) -> float:
    """What a call takes at least, of a target that does at most `peak` operations a second; 0 if
    that is not known.
    """
    return 0.0 if peak is None else max(flops / peak, nbytes / BYTES)


def warning(flops: int, nbytes: int, target: str, threads: int, peak: float | None) -> str:
    """A sentence about it where it is long, else nothing."""
    least = seconds(flops, nbytes, peak)
    if least < LONG:
        return ""
    return (
        f"a call takes at least {duration(least)}: {flops:,} operations and {nbytes:,} bytes on "
        f"{threads} thread(s) of target '{target}'"
    )


def check(flops: int, nbytes: int, target: str, threads: int, peak: float | None) -> None:
    """Raises LimitError where the work is absurd."""
    if seconds(flops, nbytes, peak) >= ABSURD:
        hint = "--allow-long runs it nevertheless; --timeout SECONDS ends it"
        problem = warning(flops, nbytes, target, threads, peak)
        raise LimitError(Diagnostic("XL4043", problem, hint=hint))


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
