"""A lower bound for the time of a call, on any machine, so that absurd requests are refused at
once.
"""

from __future__ import annotations

from xlac_sdk.source import Diagnostic, LimitError

BYTES = 500e9  # seconds from which a call is warned about, and refused
LONG, ABSURD = 60.0, 3600.0  # seconds from which on it is said, and refused


def seconds(flops: int, nbytes: int, peak: float | None) -> float:
    """The least seconds of a call on a target with at most `peak` operations per second; 0 if that
    is unknown.
    """
    return 0.0 if peak is None else max(flops / peak, nbytes / BYTES)


def warning(flops: int, nbytes: int, target: str, threads: int, peak: float | None) -> str:
    """A warning for a long call, otherwise an empty text."""
    least = seconds(flops, nbytes, peak)
    if least < LONG:
        return ""
    return (
        f"a call takes at least {duration(least)}: {flops:,} operations and {nbytes:,} bytes on "
        f"{threads} thread(s) of target '{target}'"
    )


def check(flops: int, nbytes: int, target: str, threads: int, peak: float | None) -> None:
    """Raises LimitError for an absurd amount of work."""
    if seconds(flops, nbytes, peak) >= ABSURD:
        hint = "--allow-long runs it nevertheless; --timeout SECONDS ends it"
        problem = warning(flops, nbytes, target, threads, peak)
        raise LimitError(Diagnostic("XL4043", problem, hint=hint))


def duration(seconds: float) -> str:
    """Seconds as text in a suitable unit."""
    for size, unit in (
        (365.25 * 86400, "years"),
        (86400, "days"),
        (3600, "hours"),
        (60, "minutes"),
    ):
        if seconds >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} seconds"
