"""LLVM in a separate process (`worker.py`), where it may abort without harm."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support import limits


def ask(question: dict[str, Any]) -> bytes:
    """Runs a request that might abort LLVM in a separate process."""
    allowed = limits.room()
    with limits.ended_in_time():
        done = subprocess.run(
            [sys.executable, "-m", "xlac_cpu.llvm.worker"],
            input=json.dumps(
                {**question, "memory": allowed} if "text" in question else question
            ).encode(),
            capture_output=True,
            check=False,
            timeout=limits.left(),
        )
    if (
        done.returncode
        and allowed is not None
        and (done.returncode < 0 or b"memory" in done.stderr.lower())
    ):
        limits.full()
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [
            f"it ended with {done.returncode}"
        ]
        reason = next((line for line in lines if "LLVM ERROR" in line), lines[-1])
        hint = (
            "--target c writes C for any compiler; LLVM's code for this target may be unfinished, "
            "or want another --cpu"
        )
        problem = f"LLVM cannot compile this for {question['triple']}: {reason}"
        raise UnsupportedError(Diagnostic("XL5107", problem, hint=hint))
    return done.stdout
