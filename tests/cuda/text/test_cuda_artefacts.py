"""What `xlac build` writes for a GPU, and what `inspect` tells of its kernels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cuda_compilers import compiles, text_of
from shipped import FOLDER

from xlac.cli import status
from xlac.driver import executable, lower, specialized
from xlac.frontends.loader import load
from xlac_cuda import BACKEND
from xlac_cuda.architectures import known
from xlac_cuda.build import compiler, resources
from xlac_sdk.target import Request

# ---- artefacts ---------------------------------------------------------------------------------


@compiles
def test_build_writes_what_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    command = [
        "build",
        str(FOLDER / "softmax.yaml"),
        "--target",
        "cuda",
        "--arch",
        "sm_80",
        "--emit",
        "cu,ptx,cubin",
        "-o",
        str(folder),
    ]
    assert status(command) == 0, capsys.readouterr()
    assert {p.name for p in folder.iterdir()} == {
        "manifest.json",
        "program.json",
        "program.weights",
        "softmax.cu",
        "softmax.ptx",
        "softmax.cubin",
    }
    assert (
        "sm_80" in (folder / "manifest.json").read_text()
        and str(tmp_path) not in (folder / "manifest.json").read_text()
    )
    first = {p.name: p.read_bytes() for p in folder.iterdir()}
    assert status(command) == 0
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == first


def test_text_alone_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        compiler, "compiled", lambda *args: pytest.fail("nothing is to be compiled")
    )
    assert (
        status(
            [
                "build",
                str(FOLDER / "softmax.yaml"),
                "--target",
                "cuda",
                "--arch",
                "sm_80",
                "--emit",
                "cu",
                "-o",
                str(tmp_path / "out"),
            ]
        )
        == 0
    )
    assert (tmp_path / "out" / "softmax.cu").is_file()


@pytest.mark.parametrize("option", ["--static", "--weights=mmap", "--no-libm"])
def test_options_of_linked_code_are_refused(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "build",
        str(FOLDER / "softmax.yaml"),
        "--target",
        "cuda",
        "--arch",
        "sm_80",
        "--emit",
        "cu",
        option,
        "-o",
        str(tmp_path / "out"),
    ]
    assert status(command) == 3
    assert "XL5011" in capsys.readouterr().err and not (tmp_path / "out").exists()


@compiles
def test_machine_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toolchain's cache holds it by the text, the architecture and the compiler."""
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path))
    loaded: list[Path] = []
    monkeypatch.setattr(
        type(BACKEND), "load", lambda self, artifact, program, target: loaded.append(artifact)
    )
    built = []
    monkeypatch.setattr(
        compiler,
        "compiled",
        lambda text, name="", real=compiler.compiled: built.append(name) or real(text, name),
    )
    target = BACKEND.target(Request(arch="sm_80"))
    made = lower(specialized(load(FOLDER / "softmax.yaml")), target)
    for _ in range(2):
        executable(made, BACKEND)
    assert (
        len(built) == 1
        and loaded[1].is_relative_to(tmp_path)
        and loaded[0].suffix == loaded[1].suffix == ".cubin"
    )
    monkeypatch.setattr(compiler, "identity", lambda: "another compiler")
    executable(made, BACKEND)
    assert len(built) == 2


# ---- resources ---------------------------------------------------------------------------------


@compiles
def test_inspect_tells_what_kernels_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        status(
            [
                "inspect",
                str(FOLDER / "mlp_small.yaml"),
                "--target",
                "cuda",
                "--arch",
                "sm_90a",
                "--stage",
                "resources",
            ]
        )
        == 0
    )
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert head == [
        "kernel",
        "blocks",
        "threads",
        "registers",
        "spilled",
        "local",
        "shared",
        "resident",
    ]
    names = re.findall(r"(\w+_kernel)\(", text_of("mlp_small"))
    assert [row[0] for row in rows[: len(names)]] == names
    assert all(0 < int(row[3]) <= 255 and int(row[4]) == 0 for row in rows[: len(names)])


def test_how_many_threads_a_multiprocessor_holds() -> None:
    """By registers, by shared memory, by threads and by blocks: the least decides. Figures of
    NVIDIA's occupancy calculator.
    """
    h100, l40 = known("sm_90a"), known("sm_89")
    assert resources.resident(h100, 256, 32, 0) == 2048
    assert resources.resident(h100, 256, 48, 0) == 1280
    assert resources.resident(h100, 256, 255, 0) == 256
    assert resources.resident(h100, 128, 32, 100 << 10) == 256
    assert resources.resident(h100, 32, 16, 0) == 1024
    assert resources.resident(l40, 1024, 32, 0) == 1024
