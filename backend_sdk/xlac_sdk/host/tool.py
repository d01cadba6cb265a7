"""Runs external compilers and linkers."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from xlac_sdk.support import limits

GRACE = 5.0  # seconds that a terminated command has for cleaning up
FULL = os.strerror(errno.ENOSPC)


def run(command: Sequence[str], folder: Path | None = None) -> str:
    """Runs a command in a folder; returns its error output, or nothing when it succeeded.

    Raises OSError where it reports a full disk, which is no mistake in the user's input. Whatever
    interrupts the wait (a limit, ctrl-C) also ends the command and its child processes.
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
    """The exit code of a command, and its error output."""
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
    """Ends a command and its child processes, which would otherwise continue and leave their
    files.
    """
    if not hasattr(os, "killpg"):
        process.kill()
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            return
