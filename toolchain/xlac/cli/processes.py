"""Trying a backend in a process of its own, so that a broken driver harms no other."""

from __future__ import annotations

import subprocess
import sys

SECONDS = 300  # that a target may take
DRIVER = "its driver may be broken: update it, or uninstall the backend"


def in_own_process(program: str, *arguments: str) -> tuple[str, int | None]:
    """The last line that a Python program prints and its exit code, 0 or 1; or what became of a
    process that did not end well or in time, and None.
    """
    import signal

    command = [sys.executable, "-c", program, *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} seconds; {DRIVER}", None
    lines = done.stdout.strip().splitlines()
    if done.returncode in (0, 1) and lines:
        return lines[-1], done.returncode
    try:
        end = signal.Signals(-done.returncode).name
    except ValueError:
        end = f"exit code {done.returncode}"
    return f"the process that tried it ended by {end}; {DRIVER}", None
