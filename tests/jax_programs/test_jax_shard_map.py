"""Functions of `jax.shard_map` give what they give on several devices of JAX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("shard_map_programs.py")


def test_functions_on_four_devices() -> None:
    pytest.importorskip("jax")
    flags = "--xla_force_host_platform_device_count=4"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    run = subprocess.run(
        [sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]
    assert len(run.stdout.splitlines()) == 16
