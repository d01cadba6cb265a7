"""The real cuDNN, where it is installed, has a plan for whatever schedules ask of it: no GPU is
needed, one is described.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_harness import STANDIN

SCRIPT = Path(__file__).with_name("cudnn_plans.py")


def test_the_library_has_a_plan_for_everything() -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    path = os.pathsep.join(
        [str(STANDIN.absent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": path, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    plans = json.loads(done.stdout)["plans"]
    if plans is None:
        pytest.skip("cuDNN 9.21 or later is not installed: pip install nvidia-cudnn-cu13")
    assert len(plans) > 40
    assert {name: plan for name, plan in plans.items() if plan is None or not plan["again"]} == {}
