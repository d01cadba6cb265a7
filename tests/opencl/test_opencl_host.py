"""The host's side of programs as C, on a device with OpenCL: what `--emit c` writes."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from host_programs import HostProgram, Opened

import xlac
from xlac.cli import status
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac_opencl import BACKEND
from xlac_opencl.backend import HOST, OpenCLBackend
from xlac_sdk.backend import Executable
from xlac_sdk.conformance import ConformanceCase, cases, check
from xlac_sdk.host.device_c.program import host_program
from xlac_sdk.lowering.grids import grids
from xlac_sdk.programs.constants import WeightsOrigin, weights_file
from xlac_sdk.programs.program import Program
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request, Target

SPECS = Path(__file__).parents[2] / "specs"
KINDS = ("gpu", "cpu")
INCLUDE = "#include <CL/cl.h>\n"


@cache
def can_link() -> bool:
    """Whether this machine compiles programs that use OpenCL."""
    if shutil.which("cc") is None:
        return False
    command = ["cc", "-xc", "-", "-DCL_TARGET_OPENCL_VERSION=120", "-o", "/dev/null", "-lOpenCL"]
    text = f"{INCLUDE}int main(void) {{ return (int)clGetPlatformIDs(0, 0, 0); }}"
    return not subprocess.run(
        command, check=False, input=text, text=True, capture_output=True
    ).returncode


def hosted(
    program: Program, target: Target, weights: WeightsOrigin = WeightsOrigin.EMBED
) -> HostProgram:
    """A program opened by its host's side in C."""
    ((_, text),) = BACKEND.emit(program, target).items()
    files = host_program(grids(program, target), text, HOST, "opencl", weights)
    given = None if weights.inside else b"".join(weights_file(program))
    return HostProgram(files, program, ["-lOpenCL"], given)


class HostedOpenCL(OpenCLBackend):
    """OpenCL, with the host's side of each program in C."""

    def load(self, artifact: Path, program: Program, target: Target) -> Executable:
        return hosted(program, target)


CHOSEN = [
    (arch, case)
    for arch in KINDS
    for case in cases(BACKEND.target(Request(arch=f"generic-{arch}")))
]


@pytest.fixture
def linked(device: object) -> None:
    """A device, and what is needed to use it from C."""
    if not can_link():
        pytest.skip("a C compiler, and OpenCL's headers and library")


@pytest.mark.parametrize(("arch", "case"), CHOSEN, ids=[f"{a}-{c.name}" for a, c in CHOSEN])
@pytest.mark.sampled(16)
def test_programs_run_from_c_on_opencl(linked: None, arch: str, case: ConformanceCase) -> None:
    target = BACKEND.target(Request(arch=arch))
    wrong = [
        f"{o.case}: {o.detail}" for o in check(case, HostedOpenCL(), target) if o.status != "passed"
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("weights", [WeightsOrigin.EMBED, WeightsOrigin.FILE, WeightsOrigin.MMAP])
def test_a_model_from_c_is_equal_to_that_from_python(linked: None, weights: WeightsOrigin) -> None:
    target = BACKEND.target(Request())
    program = lower(load(SPECS / "digits.yaml"), target).program
    images = np.random.default_rng(0).random((32, 64), np.float32)
    wanted = xlac.compile(str(SPECS / "digits.yaml"), "opencl")(images)
    made = np.zeros_like(wanted)
    ours = hosted(program, target, weights)
    (given,), (taken,) = program.inputs, program.outputs
    for _ in range(2):
        ours.run({given.name: images}, {taken.name: made})
        np.testing.assert_array_equal(made, wanted)
        made[:] = 0


def test_weights_of_another_model_are_refused_from_c(linked: None) -> None:
    target = BACKEND.target(Request())
    program = lower(load(SPECS / "digits.yaml"), target).program
    ((_, text),) = BACKEND.emit(program, target).items()
    files = host_program(grids(program, target), text, HOST, "opencl", WeightsOrigin.FILE)
    right = b"".join(weights_file(program))
    for wrong in (right[:-64], right[:-1] + bytes([right[-1] ^ 1]), b"y" + right[1:]):
        opened = HostProgram(files, program, ["-lOpenCL"], wrong)
        assert opened.opened == 6
        opened.close()


def test_a_missing_device_is_told(linked: None) -> None:
    target = BACKEND.target(Request())
    program = lower(load(SPECS / "digits.yaml"), target).program
    ours = hosted(program, target)
    context = ctypes.c_void_p()
    assert ours.call("open", ctypes.byref(context), 1000) == 16
    told = ours.text("message", context)
    assert re.fullmatch(r"there is no OpenCL device 1000; there are \d+", told)
    assert ours.call("run", context, None, None) == 7
    ours.call("close", context)


@pytest.mark.long
def test_a_program_reads_and_writes_files_on_the_device(linked: None, tmp_path: Path) -> None:
    spec = str(SPECS / "digits.yaml")
    options = ["--emit", "exe", "--dim", "batch=1..8", "--weights", "file"]
    assert status(["build", spec, "-t", "opencl", "-o", str(tmp_path / "made"), *options]) == 0
    images = np.random.default_rng(0).random((5, 64), np.float32)
    np.save(tmp_path / "made" / "image.npy", images)
    command = ["./digits", "--device", "0", "image=image.npy", "probs=out.npy"]
    subprocess.run(command, cwd=tmp_path / "made", check=True)
    wanted = xlac.load(tmp_path / "made")(images)
    np.testing.assert_array_equal(np.load(tmp_path / "made" / "out.npy"), wanted)
    command[2] = "1000"
    done = subprocess.run(command, cwd=tmp_path / "made", check=False, stderr=subprocess.PIPE)
    assert done.returncode == 1 and b"there is no OpenCL device 1000" in done.stderr


@pytest.mark.long
def test_a_checked_step_learns_from_c_as_from_python(linked: None, tmp_path: Path) -> None:
    folder, spec = tmp_path / "made", str(SPECS / "digits_train.yaml")
    options = ["--dim", "batch=4", "--checked", "--emit", "so"]
    assert status(["build", spec, "-t", "opencl", "-o", str(folder), *options]) == 0
    ours, theirs = Opened(folder, "digits_train"), xlac.load(folder)
    image = np.random.default_rng(0).random((4, 64), np.float32)
    label = np.arange(4, dtype=np.int32)
    loss, accuracy = np.zeros((2, 1), np.float32)
    assert ours("set_length", ours.context, ctypes.c_double(9)) == 0
    theirs.state.set_number("length", 9)
    for _ in range(2):
        arrays = [ctypes.c_void_p(a.ctypes.data) for a in (image, label, loss, accuracy)]
        assert ours("step", ours.context, *arrays) == 0
        assert theirs.entries["step"](image, label)["loss"] == loss[0]
    label[2] = 10
    assert ours("step", ours.context, *arrays) == 9
    failure = ours.library["digits_train_failure"]
    failure.restype = ctypes.c_char_p
    told = failure(ours.context, None, None).decode()
    assert "index is outside -10 to 9 [XL6020]" in told
    with pytest.raises(SourceError, match=r"outside -10 to 9 .*element 2, value 10.*XL6020"):
        theirs.entries["step"](image, label)
    ours("close", ours.context)


def test_what_a_compiler_says_at_length_is_told_in_part(linked: None) -> None:
    """OpenCL gives no text at all into memory that does not hold the whole."""
    target = BACKEND.target(Request())
    program = lower(load(SPECS / "digits.yaml"), target).program
    wrong = f"__kernel void wrong(void) {{ {'a' * 3000}; {'b' * 3000}; }}\n"
    files = host_program(grids(program, target), wrong, HOST, "opencl", WeightsOrigin.EMBED)
    ours = HostProgram(files, program, ["-lOpenCL"], None)
    assert ours.opened == 16
    told = ours.text("message", ours.context)
    assert re.match(r"clBuildProgram: OpenCL's error -\d+\n.*aaaa", told, re.DOTALL)
    ours.close()
