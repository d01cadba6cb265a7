"""Starts xlac as ranks, and alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT = next((f"{tool} is missing" for tool in ("mpirun", "mpicc") if not shutil.which(tool)), "")
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",  # more ranks than there are cores
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def started(count: int, *arguments: str | Path) -> subprocess.Popen[str]:
    """Begins to run xlac as ranks."""
    python = [sys.executable, str(ROOT / "cli.py"), *map(str, arguments)]
    return subprocess.Popen(
        ["mpirun", "-n", str(count), *python],
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def mpirun(count: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs xlac as ranks."""
    with started(count, *arguments) as process:
        out, error = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def alone(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs xlac as one process."""
    command = [sys.executable, str(ROOT / "cli.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
