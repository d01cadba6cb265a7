"""The runtime through the real pycuda, where it is installed (`make pycuda`), on the stand-in."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_harness import STANDIN, Counts

HERE = Path(__file__).parent


def test_conformance_through_pycuda(counts: Counts) -> None:
    found = importlib.util.find_spec("pycuda")
    if found is None or found.origin is None:
        pytest.skip("pycuda is not installed: make pycuda")
    (extension,) = Path(found.origin).parent.glob("_driver.*.so")
    paths = {"LD_LIBRARY_PATH": str(STANDIN.linked_to(extension)), "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, str(HERE / "pycuda_sample.py")],
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "cases" in done.stdout, done.stderr[-4000:]
