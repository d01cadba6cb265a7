"""The programs that measure the machine beside bursts compile for every kind of x86."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

MACHINE = Path(__file__).parents[2] / "bench" / "peers" / "machine"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="they are written for x86")
@pytest.mark.skipif(shutil.which("gcc") is None, reason="they are compiled by gcc")
@pytest.mark.parametrize("program", ["cores.c", "ceilings.c"])
@pytest.mark.parametrize("processor", ["x86-64", "x86-64-v3", "x86-64-v4"])
def test_every_kind_of_vector_compiles(program: str, processor: str, tmp_path: Path) -> None:
    """With AVX-512 alone, the suite had no rates of the machine on any other processor."""
    flags = ["-O1", f"-march={processor}", "-pthread"]
    command = ["gcc", *flags, str(MACHINE / program), "-o", str(tmp_path / "program")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
