"""`xlac backend new`: pip installs the package, the registry finds it, conformance passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from xlac.cli import status

SPECS = Path(__file__).parents[2] / "specs"
COMMANDS = """
import json, sys
from xlac.cli import status
for line in json.loads(sys.argv[1]):
    code = status(line)
    if code: sys.exit(f"{line}: {code}")
    print("=" * 9)
"""


def test_a_new_backend_installs_and_passes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site, spec = tmp_path / "site", str(SPECS / "mlp_small.yaml")
    env = os.environ | {"PYTHONPATH": str(site)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert status(["backend", "new", "toy", "-o", str(tmp_path)]) == 0, capsys.readouterr()
    run(
        *("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"),
        *("--target", str(site), str(tmp_path / "xlac-toy")),
    )
    out = str(tmp_path / "out")  # what it builds is a folder, not a file
    wanted = ["run", spec, "--target", "reference", "--outputs", f"{out}.npz"]
    assert status(wanted) == 0, capsys.readouterr()
    commands = (
        ["backend", "list"],
        ["backend", "test", "toy", "--only", "scatter_add"],
        ["build", spec, "--target", "toy", "-o", out],
        ["run", out, "--expect", f"{out}.npz"],
    )
    # in one process that sees the package: each process imports the compiler anew
    listed, tested, _, agreed, _ = run("-c", COMMANDS, json.dumps(commands)).split("=" * 9)
    assert "toy" in listed
    assert "12 passed, 0 failed" in " ".join(tested.split()), tested
    assert "agrees" in agreed
