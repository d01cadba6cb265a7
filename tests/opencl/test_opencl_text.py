"""OpenCL C as text, on machines without a driver."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from xlac.codegen.core.strip_mining import check_vectors
from xlac.codegen.schedules.schedule import Misfit
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac_opencl import BACKEND, facts
from xlac_sdk.conformance import cases
from xlac_sdk.host.package import Packaging, ProcessorVariant
from xlac_sdk.programs.constants import WeightsOrigin
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.target import Request, Target

FOLDER = Path(__file__).parents[2] / "backends" / "opencl" / "xlac_opencl"
MOST = 300  # lines of Python and templates: what a port may need beyond the SDK
MOST_C = 140  # lines of its driver's calls in C


def text(name: str, arch: str = "generic-gpu") -> str:
    """The text of a conformance case."""
    target = BACKEND.target(Request(arch=arch))
    (case,) = (case for case in cases(target) if case.name == name)
    ((_, made),) = BACKEND.emit(case.program, target).items()
    return made


def test_kernels_take_whole_memory_objects_and_offsets() -> None:
    made = text("a loop with a start and a step")
    assert "const __global float *restrict vx__base_, long vx__offset_" in made
    assert "const __global float *const vx_ = vx__base_ + vx__offset_;" in made
    assert "reqd_work_group_size(1, 1, 1)" in made


def test_vectors_are_read_at_once_where_every_launch_is_aligned() -> None:
    assert "*(const __global float4 *)&vx_[" in text("accesses of 4 f32, from element 0")
    moved = text("accesses of 4 f32, in rows of any length")
    assert "vload4(0, vx_ + (" in moved and "float4 *" not in moved


EXPRESSIONS = {
    "gelu": ('x: "f32[64, 1024]"', "gelu(x)"),
    "softmax": ('x: "f32[64, 1024]"', "softmax(x, axis=-1)"),
    "bytes": ('x: "u8[64, 1024]", z: "u8[64, 1024]"', "max(x, z) - min(x, z)"),
    "attention": (
        ", ".join(f'{name}: "f32[1, 2, 512, 64]"' for name in "qkv"),
        "attention(q, k, v)",
    ),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_no_vector_has_more_lanes_than_the_language(name: str, tmp_path: Path) -> None:
    """Text of others is lane by lane, and takes compilers and devices several times as long; so
    many registers have the compiler join vectors where the target takes them.
    """
    inputs, expression = EXPRESSIONS[name]
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"xlac: 1\ninputs: {{{inputs}}}\noutputs: {{y: '{expression}'}}\n")
    target = BACKEND.target(Request(arch="generic-cpu"))
    target = replace(target, vector_bytes=64, vector_registers=32)
    ((_, made),) = BACKEND.emit(lower(load(spec), target).program, target).items()
    assert re.search(r"\b(float|uchar)16\b", made)
    assert not re.findall(r"typedef struct \{ \w+ lane\[", made)
    assert target.most_lanes == 16
    with pytest.raises(Misfit, match="at most 16"):
        check_vectors(16, 4, True, target)


def test_atomic_operations_name_their_memory() -> None:
    made = text("atomic addition")
    assert "static inline void atomic_add_global_i32(__global int *place, int value)" in made
    assert "atomic_add_global_i32(&vy_[" in made


def test_halves_are_converted_by_the_language() -> None:
    made = text("cast vector of f16", "generic-cpu")
    assert "vload_half8(0, (const half *)&value)" in made
    assert "vstore_half8_rte(value, 0, (half *)&made)" in made
    assert "cl_khr_fp16" not in made  # which arithmetic would need, and conversions do not


# functions of OpenCL C that Clang's header lacks
BYTES = """
char __attribute__((overloadable, convergent)) intel_sub_group_shuffle_xor(char, uint);
uchar __attribute__((overloadable, convergent)) intel_sub_group_shuffle_xor(uchar, uint);
"""


def subgroups(monkeypatch: pytest.MonkeyPatch, extensions: str) -> Target:
    """The target of a GPU with these extensions."""
    known = vars(facts.GENERIC) | {"extensions": extensions, "type": 4}
    monkeypatch.setattr(facts, "device_of", lambda number: SimpleNamespace(**known))
    return BACKEND.target(Request())


def test_values_are_exchanged_within_subgroups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels may ask for their size, and no more threads exchange than they have."""
    target = subgroups(monkeypatch, f"cl_khr_fp64 {' '.join(facts.ASKED)}")
    assert target.warp == 16
    clang = shutil.which("clang") or shutil.which("clang-15")
    command = f"{clang} -x cl -cl-std=CL1.2 -cl-no-stdinc -Xclang -finclude-default-header"
    command += " -Dcl_intel_subgroups -Dcl_intel_subgroups_short -fsyntax-only -target spir64 -"
    for case in cases(target):
        if not case.name.startswith("exchange of"):
            continue
        ((_, made),) = BACKEND.emit(case.program, target).items()
        assert re.search(r"intel_sub_group_shuffle_xor\(\w+, 1\)", made)
        assert "intel_reqd_sub_group_size(16)" in made and "__local ulong" not in made
        if clang is not None:
            done = subprocess.run(
                command.split(), check=False, input=BYTES + made, text=True, capture_output=True
            )
            assert not done.returncode, done.stderr
        for wide in (replace(target, warp=32), subgroups(monkeypatch, "cl_intel_subgroups")):
            ((_, other),) = BACKEND.emit(case.program, wide).items()
            assert "sub_group" not in other and "__local ulong" in other


def test_an_unknown_kind_of_device_is_refused() -> None:
    with pytest.raises(SourceError, match="generic-gpu"):
        BACKEND.target(Request(arch="sm_90"))


def test_a_port_is_short() -> None:
    files = [*FOLDER.rglob("*.py"), *FOLDER.rglob("*.j2")]
    assert (
        sum(bool(line.strip()) for file in files for line in file.read_text().splitlines()) <= MOST
    )
    calls = (FOLDER / "host.c").read_text().splitlines()
    assert sum(bool(line.strip()) for line in calls) <= MOST_C


def test_the_host_is_c_without_a_device(tmp_path: Path) -> None:
    """Its text has the kernels to the letter, and the plan."""
    target = BACKEND.target(Request(arch="generic-gpu"))
    (case,) = (case for case in cases(target) if case.name == "a loop with a start and a step")
    variants = [ProcessorVariant(case.program, target)]
    made = BACKEND.package(variants, Packaging(("cl", "c", "h")), tmp_path)
    assert made.library == "conformance.cl"
    text = (tmp_path / "conformance.c").read_text(encoding="utf-8")
    kernels = (tmp_path / "conformance.cl").read_text(encoding="utf-8")
    literals = re.findall(r'^    ("(?:[^"\\]|\\.)*"),$', text, re.MULTILINE)
    assert "".join(map(ast.literal_eval, literals)) == kernels.replace("?", "\\?")
    assert "CHECK(launch(context, 0, (const memory_place[]){AT(data, 0), AT(data, 256)}" in text


def test_options_of_linked_code_are_refused(tmp_path: Path) -> None:
    target = BACKEND.target(Request(arch="generic-gpu"))
    case = next(iter(cases(target)))
    variants = [ProcessorVariant(case.program, target)]
    for wanted in (
        Packaging(("cl",), weights=WeightsOrigin.FILE),
        Packaging(("cl", "c"), weights=WeightsOrigin.INCBIN),
        Packaging(("cl", "c"), static=True),
        Packaging(("cl",), libm=False),
    ):
        with pytest.raises(UnsupportedError, match="opencl") as caught:
            BACKEND.package(variants, wanted, tmp_path)
        assert caught.value.diagnostics[0].code == "XL5011"


def test_it_knows_the_sdk_alone() -> None:
    """As the contracts of imports say of the other backends."""
    known = {"xlac_opencl", "xlac_sdk", "numpy", "pyopencl"}
    for file in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                top = name.partition(".")[0]
                assert top in known or top in __import__("sys").stdlib_module_names, (file, name)
