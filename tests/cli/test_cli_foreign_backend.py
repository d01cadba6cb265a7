"""What fails in the code of somebody else's backend is said to be of that backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BACKEND = """
from pathlib import Path
from xlac_reference import BACKEND as reference

class Faulty(type(reference)):
    name = "faulty"
    {fault}

BACKEND = Faulty()
"""
MAIN = "from xlac.cli import main; main()"
FAULTS = {
    "target": (
        "def target(self, request):\n        return reference.target(request).nothing",
        "in target): AttributeError: 'Target' object has no attribute 'nothing'",
    ),
    "build": (
        "def build(self, sources, folder):\n        raise OSError('no compiler')",
        "in build): OSError: no compiler",
    ),
    "load": (
        "def load(self, artifact, program, target):\n        import nosuch",
        "in load): ModuleNotFoundError: No module named 'nosuch'",
    ),
}


@pytest.mark.parametrize("where", FAULTS)
def test_a_fault_of_a_backend_is_told_as_its_own(where: str, tmp_path: Path) -> None:
    fault, said = FAULTS[where]
    package = tmp_path / "xlac_faulty"
    package.mkdir()
    (package / "__init__.py").write_text(BACKEND.format(fault=fault))
    info = tmp_path / "xlac_faulty-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: xlac-faulty\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[xlac.backends]\nfaulty = xlac_faulty:BACKEND\n")
    spec = tmp_path / "m.yaml"
    spec.write_text('xlac: 1\nmodel: m\ninputs: {x: "f32[3]"}\ngraph: {y: exp(x)}\noutputs: [y]\n')
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    ran = subprocess.run(
        [sys.executable, "-c", MAIN, "run", str(spec), "--target", "faulty"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "XLAC_CACHE": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 70, ran.stderr
    last = ran.stderr[ran.stderr.rindex("error: ") :]
    assert last.startswith("error: the backend 'faulty' failed (xlac_faulty/__init__.py:")
    assert said in last and "[XL5007]" in last and "Traceback" in ran.stderr
    assert "XL9001" not in ran.stderr and "XL3001" not in ran.stderr
