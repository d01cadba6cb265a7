"""`xlac backend new`: pip installs the package, the registry finds it, conformance passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SPECS = Path(__file__).parents[2] / "specs"


def test_a_new_backend_installs_and_passes(tmp_path: Path) -> None:
    site = tmp_path / "site"
    env = os.environ | {"PYTHONPATH": str(site)}

    def run(*command: str) -> str:
        start = (
            ["-c", "from xlac.cli import main; main()"]
            if command[0] == "xlac"
            else ["-m", command[0]]
        )
        done = subprocess.run(
            [sys.executable, *start, *command[1:]],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("xlac", "backend", "new", "toy", "-o", str(tmp_path))
    run(
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(site),
        str(tmp_path / "xlac-toy"),
    )
    assert "toy" in run("xlac", "backend", "list")
    told = " ".join(run("xlac", "backend", "test", "toy", "--only", "scatter_add").split())
    assert "12 passed, 0 failed" in told, told
    out = str(tmp_path / "out")  # what it builds is a folder, not a file
    run("xlac", "build", str(SPECS / "mlp_small.yaml"), "--target", "toy", "-o", out)
    run(
        "xlac",
        "run",
        str(SPECS / "mlp_small.yaml"),
        "--target",
        "reference",
        "--outputs",
        f"{out}.npz",
    )
    assert "agrees" in run("xlac", "run", out, "--expect", f"{out}.npz")
