"""One input tried: within its time and memory, and with what it may end."""

from __future__ import annotations

import hashlib
import resource
import signal
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.target import Target

from xlac_sdk.source import XlacError

LONGEST = 1 << 20  # characters of an error's text
# numbers that no input may end with: bugs, and packages that are not installed, so nothing was read
REFUSED = ("XL9", "XL4001", "XL7010", "XL7305")
# names that an error of ours does not tell a user
OURS = ("MemoryError", "RecursionError", "AssertionError")


class TooLong(BaseException):
    """The input took more time than it may: no `except Exception` keeps it."""


@dataclass(frozen=True)
class Finding:
    """What is wrong: `key` is the same for inputs that fail alike."""

    key: str
    data: bytes
    text: str

    @property
    def name(self) -> str:
        return hashlib.sha256(self.key.encode()).hexdigest()[:12]


def attempt(target: Target, data: bytes) -> Finding | None:
    """Runs the target on bytes; None when it ends as it may."""
    try:
        with bounded(target.seconds, target.memory):
            target.run(data)
    except XlacError as error:
        text = str(error)
        said = [d.code for d in error.diagnostics if d.code.startswith(REFUSED)] or [
            name for name in OURS if name in text
        ]
        said += ["a long message"] * (len(text) > LONGEST)
        return (
            Finding(
                f"{type(error).__name__} that says {', '.join(said)}: {place(error)}",
                data,
                text[:5000],
            )
            if said
            else None
        )
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Finding(
            f"{type(error).__name__}: {place(error)}",
            data,
            "".join(traceback.format_exception(error))[-8000:],
        )
    return None


def place(error: BaseException) -> str:
    """The innermost function of ours that the error went through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if "xlac" in Path(frame.filename).parts or "xlac_sdk" in Path(frame.filename).parts
    ]
    last = (ours or frames)[-1]
    return f"{Path(last.filename).name}:{last.name}"


@contextmanager
def bounded(seconds: float, memory: int) -> Iterator[None]:
    """Inside, TooLong is raised after so much CPU time, and MemoryError where more memory is asked
    for.
    """

    def over(number: int, frame: Any) -> None:
        raise TooLong(f"more than {seconds:g} s of CPU time")

    before = resource.getrlimit(resource.RLIMIT_AS)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGPROF, over)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (held + memory, before[1]))
        # again each second: the first may be lost in a destructor
        signal.setitimer(signal.ITIMER_PROF, seconds, 1)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGPROF, handler)
