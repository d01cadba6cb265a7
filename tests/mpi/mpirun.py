"""Starts xlac as ranks, and alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
CLI = ROOT / "cli.py"
WITHOUT = next((f"{tool} is missing" for tool in ("mpirun", "mpicc") if not shutil.which(tool)), "")
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",  # more ranks than there are cores
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def started(
    count: int, *arguments: str | Path, launcher: Sequence[str] = (), program: Path = CLI
) -> subprocess.Popen[str]:
    """Begins to run xlac as ranks, by `mpirun -n COUNT` unless another launcher is given."""
    python = [sys.executable, str(program), *map(str, arguments)]
    return subprocess.Popen(
        [*(launcher or ("mpirun", "-n", str(count))), *python],
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def mpirun(
    count: int, *arguments: str | Path, launcher: Sequence[str] = (), program: Path = CLI
) -> subprocess.CompletedProcess[str]:
    """Runs xlac as ranks; `launcher` as in `started`."""
    with started(count, *arguments, launcher=launcher, program=program) as process:
        out, error = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def alone(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs xlac as one process."""
    command = [sys.executable, str(CLI), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def pids(process: subprocess.Popen[str]) -> dict[int, int]:
    """The processes of ranks, by rank."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = re.search(r"^PPid:\s+(\d+)", (folder / "status").read_text(), re.MULTILINE)
            rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", (folder / "environ").read_bytes())
        except OSError:
            continue
        if parent and rank and int(parent[1]) == process.pid:
            found[int(rank[1])] = int(folder.name)
    return found


def lives(pid: int) -> bool:
    """Whether a process is there, and not one that has ended and that nobody has asked for."""
    try:
        return not re.search(r"^State:\s+Z", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except OSError:
        return False
