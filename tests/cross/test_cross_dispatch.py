"""The variant that an artefact chooses, told by the instructions that an emulator met."""

from __future__ import annotations

import platform
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_cross_models import build

import xlac

CPUS = {"qemu64": 1, "Nehalem": 2, "max": 3}  # the level of each
X = np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dispatch")
    np.save(folder / "image.npy", X)
    cpus = "x86-64,x86-64-v2,x86-64-v3,x86-64-v4"
    triple = "x86_64-unknown-linux-gnu"
    return (
        build(
            "digits", folder / "out", "--emit", "exe", "--static", "--triple", triple, "--cpu", cpus
        )
        / "digits"
    )


@pytest.mark.parametrize("cpu", CPUS)
def test_each_processor_gets_its_variant(cpu: str, program: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ["qemu-x86_64", "-cpu", cpu, "-d", "in_asm", "-D", str(log), str(program)]
    subprocess.run(
        [*command, f"image={program.parents[1]}/image.npy", f"probs={tmp_path}/y.npy"], check=True
    )
    text = log.read_text()
    sse41 = r"\b(round[ps]s|p(min|max|mull)[su]?d|blendvps|insertps|pmov[sz]x\w+)\b"
    assert (3 if re.search(r"\bymm\d", text) else 2 if re.search(sse41, text) else 1) == CPUS[cpu]
    model = xlac.compile(Path(__file__).parents[2] / "specs" / "digits.yaml")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), model(X), rtol=2e-5, atol=1e-6)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="it runs natively too")
def test_this_processor_and_one_for_which_there_is_no_variant(
    program: Path, tmp_path: Path
) -> None:
    given = [f"image={program.parents[1]}/image.npy", f"probs={tmp_path}/y.npy"]
    subprocess.run([str(program), *given], check=True)
    folder = build(
        "digits", tmp_path / "out", "--emit", "exe", "--static", "--cpu", "x86-64-v3,x86-64-v4"
    )
    command = ["qemu-x86_64", "-cpu", "Nehalem", str(folder / "digits"), *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "not compiled for this processor" in done.stderr
