"""Compilers and linkers of others, run as programs."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from xlac_sdk.support import limits

FULL = os.strerror(errno.ENOSPC)


def run(command: Sequence[str], folder: Path | None = None) -> str:
    """Runs a command in a folder; gives what it complained of, or nothing when it did as it was
    told.

    Raises OSError where it says that the disk is full, which is nothing that its user could correct
    in the input.
    """
    plain = {**os.environ, "LC_ALL": "C"}
    with limits.ended_in_time():
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            env=plain,
            timeout=limits.left(),
        )
    if not done.returncode:
        return ""
    if FULL in done.stderr:
        raise OSError(errno.ENOSPC, FULL)
    return done.stderr.strip() or f"it ended with {done.returncode}"
