"""Compilers and linkers of others, run as programs."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from xlac_sdk.support import limits

GRACE = 5.0  # seconds in which a command that is told to end may tidy up
FULL = os.strerror(errno.ENOSPC)


def run(command: Sequence[str], folder: Path | None = None) -> str:
    """Runs a command in a folder; gives what it complained of, or nothing when it did as it was
    told.

    Raises OSError where it says that the disk is full, which is nothing that its user could correct
    in the input. Whatever ends the wait for it (a limit, ctrl-C) ends what it started too.
    """
    plain = {**os.environ, "LC_ALL": "C"}
    with limits.ended_in_time():
        returncode, output = _finished(command, folder, plain)
    if not returncode:
        return ""
    if FULL in output:
        raise OSError(errno.ENOSPC, FULL)
    return output.strip() or f"it ended with {returncode}"


def _finished(
    command: Sequence[str], folder: Path | None, environment: Mapping[str, str]
) -> tuple[int, str]:
    """What a command returned, and its complaints."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        try:
            output = process.communicate(timeout=limits.left())[1]
        except BaseException:
            _end(process)
            raise
    return process.returncode, output


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a command and its parts: a compiler's would go on without it, and leave their files."""
    if not hasattr(os, "killpg"):
        process.kill()
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            return
