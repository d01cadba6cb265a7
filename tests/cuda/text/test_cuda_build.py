"""Machine code without a GPU: shipped specs and conformance cases through NVRTC, or nvcc where
there is none of it.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from cuda_compilers import compiles, text_of
from shipped import MODELS

from xlac_cuda import BACKEND
from xlac_cuda.build import compiler, nvrtc, resources
from xlac_cuda.emit.module import arch_in
from xlac_sdk.conformance import cases
from xlac_sdk.conformance.steps import chain
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.target import Request

LARGE = ("mobilenet_v2", "resnet50")  # seconds each; with --all
ARCHS = ("sm_80", "sm_90a")
SPILLED = 32  # bytes a thread, stored and loaded, at most
EVERY = 16  # conformance case that is compiled without --all
has_nvrtc = pytest.mark.skipif(nvrtc.installed() is None, reason="NVRTC is not installed")
has_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")


@compiles
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("spec", [p.stem for p in MODELS])
@pytest.mark.sampled(12)
def test_every_spec_compiles(spec: str, arch: str, request: pytest.FixtureRequest) -> None:
    """Registers are not spilled, but for a word or two that the assembler thinks worth more
    threads.
    """
    if spec in LARGE and not request.config.getoption("--all"):
        pytest.skip("seconds each: --all")
    text = text_of(spec, arch)
    made = compiler.compiled(text)
    assert made.cubin[:4] == b"\x7fELF" and f".target {arch}" in made.ptx
    used = resources.used(made.log)
    assert len(used) == text.count('extern "C" __global__')
    assert {name: one for name, one in used.items() if one.stored + one.loaded > SPILLED} == {}


@compiles
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.sampled(4)
def test_conformance_cases_compile(arch: str, request: pytest.FixtureRequest) -> None:
    """Every primitive, statement and step, as the SDK's conformance has them."""
    target = BACKEND.target(Request(arch=arch))
    every = 1 if request.config.getoption("--all") else EVERY
    for case in list(cases(target))[ARCHS.index(arch) :: every]:
        for text in BACKEND.emit(case.program, target).values():
            assert compiler.compiled(text).cubin, case.name


@has_nvrtc
@has_nvcc
def test_both_compilers_take_the_same_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of("softmax")
    kernels = set(resources.used(compiler.compiled(text).log))
    monkeypatch.setattr(nvrtc, "installed", lambda: None)
    made = compiler.compiled(text)
    assert made.cubin[:4] == b"\x7fELF" and ".target sm_90a" in made.ptx
    assert set(resources.used(made.log)) == kernels


@compiles
def test_the_same_text_gives_the_same_code() -> None:
    first, second = compiler.compiled(text_of("softmax")), compiler.compiled(text_of("softmax"))
    assert first.cubin == second.cubin and first.ptx == second.ptx


@compiles
def test_products_stay_products() -> None:
    """Contraction would undo what expansions recover; fma is written where it is meant."""
    ptx = compiler.compiled(text_of("layernorm_gelu")).ptx
    own = [line for line in ptx.splitlines() if re.search(r"\bmul(\.rn)?\.f32", line)]
    assert own and not re.search(r"\.ftz", "".join(own))


@compiles
@pytest.mark.parametrize("tool", ["nvrtc", "nvcc"])
def test_text_that_is_refused_names_the_kernel_and_its_lines(
    tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tool == "nvcc":
        if shutil.which("nvcc") is None:
            pytest.skip("nvcc is not installed")
        monkeypatch.setattr(nvrtc, "installed", lambda: None)
    text = text_of("softmax").replace("const int thread", "const imt thread")
    with pytest.raises(SourceError) as error:
        compiler.compiled(text)
    message = error.value.diagnostics[0].message
    assert error.value.diagnostics[0].code == "XL9201"
    assert "in reduce_0_kernel" in message and "softmax.yaml:9 top:" in message and "imt" in message


@compiles
def test_an_architecture_that_the_compiler_lacks_is_no_bug() -> None:
    with pytest.raises(UnsupportedError) as error:
        compiler.compiled(text_of("softmax").replace("sm_90a", "sm_93", 1))
    assert error.value.diagnostics[0].code == "XL5204"


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "installed", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UnsupportedError, match="needs NVRTC or nvcc") as error:
        compiler.compiled(text_of("softmax"))
    assert error.value.exit_code == 3 and "nvidia-cuda-nvrtc" in error.value.diagnostics[0].hint


@pytest.mark.parametrize("content", [b"", b"\x7fELF and no more"])
def test_a_damaged_library_is_passed_over(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libnvrtc.so.13").write_bytes(content)
    monkeypatch.setattr(
        nvrtc, "_files", lambda: iter([tmp_path / "libnvrtc.so.13", Path("libnvrtc.so.none")])
    )
    assert nvrtc.installed.__wrapped__() is None


def test_conformance_programs_name_their_architecture() -> None:
    target = BACKEND.target(Request(arch="sm_100a"))
    (text,) = BACKEND.emit(chain().program, target).values()
    assert arch_in(text) == "sm_100a"
