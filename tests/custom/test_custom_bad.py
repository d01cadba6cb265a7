"""What a spec may say wrongly of hand-written kernels: each with its number and its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from custom_ops import GATED, SPEC, written

from xlac.spec.kernels.files import MOST
from xlac.spec.load import load
from xlac_sdk.source import Diagnostic, SourceError

KERNELS = "kernels: {TARGET: gated.c}"


def refused(file: Path) -> Diagnostic:
    with pytest.raises(SourceError) as caught:
        load(file)
    (found,) = caught.value.diagnostics
    assert found.span is not None and found.span.file == file
    return found


@pytest.mark.parametrize(
    ("kernels", "code", "says"),
    [
        ("{cudda: gated.c}", "XL3031", "no target is called 'cudda'"),
        ("{reference: gated.c}", "XL3031", "reference computes the meaning"),
        ("{c: gated.py}", "XL3031", "in no language of kernels"),
        ("{c: missing.c}", "XL3001", "no such file"),
        ("{c: .}", "XL3001", "cannot be read"),
        ("{c: ../gated.c}", "XL3002", "outside the spec's folder"),
        ("{c: /etc/passwd}", "XL3002", "outside the spec's folder"),
        ("{c: link.c}", "XL3002", "outside the spec's folder"),
        ("{c: pipe.c}", "XL3001", "is a pipe"),
        ("{c: large.c}", "XL3030", "more than 1 MiB"),
        ("{c: binary.c}", "XL3030", "not UTF-8"),
        ("{c: nul.c}", "XL3030", "has a NUL"),
        ("{c: {file: gated.c, split: K}}", "XL3031", "no size 'K'"),
        ("{c: {file: gated.c, function: 'a b'}}", "XL3031", "not the name of a function"),
        ("{c: {file: gated.c, function: 'x)\\n#include <y>'}}", "XL3031", "not the name of a"),
        ("{c: {file: gated.c, scratch: -1}}", "XL2006", "not negative"),
        ("{c: {file: gated.c, scratch: '${K}'}}", "XL2004", "K"),
        ("{c: {file: gated.c, scratch: '${N - 7}'}}", "XL2006", "not negative"),
        ("{c: {file: gated.c, threads: 32}}", "XL3031", "says nothing of a kernel for CPUs"),
        ("{cuda: {file: gated.cu, threads: 4096}}", "XL3031", "must be 1 to 1024"),
        ("{cuda: {file: gated.cu, split: N}}", "XL3031", "says nothing of a kernel for GPUs"),
        ("{c: {file: gated.c, speed: 3}}", "XL1010", "speed"),
        ("{c: {}}", "XL1011", "file"),
        ("{c: [gated.c]}", "XL1012", "c"),
        ("{c: gated.c}\n    batch: K", "XL3031", "no size 'K'"),
        ("{c: gated.c}\n    tolerance: -1", "XL3031", "not negative"),
        ("{c: gated.c}\n    tolerance: soon", "XL1012", "expected a number"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(
    tmp_path: Path, kernels: str, code: str, says: str
) -> None:
    folder = tmp_path / "spec"
    folder.mkdir()
    (tmp_path / "gated.c").write_text(GATED)
    (folder / "link.c").symlink_to(tmp_path / "gated.c")
    os.mkfifo(folder / "pipe.c")
    (folder / "large.c").write_bytes(b" " * (MOST + 1))
    (folder / "binary.c").write_bytes(b"\xff\xfe")
    (folder / "nul.c").write_bytes(b"a\0b")
    for name in ("gated.py", "gated.cu"):
        (folder / name).write_text("")
    spec = SPEC.replace(KERNELS, f"kernels: {kernels}")
    found = refused(written(folder, "c", GATED, spec))
    assert found.code == code and says in f"{found.message} {found.hint}", str(found)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ("{slope: 0.5, axes: [0, 1]}", "axes is neither"),
        ("{slope: 0.5, mode: fast}", "mode is neither"),
        ("{slope: 0.5, big: 9223372036854775808}", "beyond 64 bits"),
    ],
)
def test_kernels_take_numbers(tmp_path: Path, params: str, says: str) -> None:
    spec = SPEC.replace("params: {slope: 0.5}", f"params: {params}")
    found = refused(written(tmp_path, "c", GATED, spec))
    assert found.code == "XL3031" and says in found.message
