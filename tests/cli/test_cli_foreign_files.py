"""What is no file with an end is refused before anybody waits for it, and files of other kinds are
called by their names.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from xlac.cli import status

SPEC = (
    "xlac: 1\nmodel: m\nweights: {init: {}}\ninputs: {x: 'f32[2]'}\ngraph: {y: x * "
    "2.0}\noutputs: [y]\n"
)


def pipe(place: Path) -> None:
    os.mkfifo(place)


def listening(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(place))


def device(place: Path) -> None:
    place.symlink_to("/dev/zero")


ASKED = {
    "spec.yaml": ["check", "{file}"], "model.onnx": ["check", "{file}"],
    "model.mlir": ["run", "{file}"], "model.pt2": ["check", "{file}"],
    "w.safetensors": ["check", "{folder}/weighted.yaml"],
    "part.yaml": ["check", "{folder}/including.yaml"],
    "x.npy": ["run", "{folder}/plain.yaml", "--input", "x=@{file}"],
    "x.npz": ["run", "{folder}/plain.yaml", "--inputs", "{file}"],
    "graph.txt": ["build", "{folder}/plain.yaml", "--graph", "{file}", "-o", "{folder}/out"],
    "manifest.json": ["run", "{folder}"],
}  # fmt: skip


@pytest.mark.timeout(600)  # without the check it waits for ever
@pytest.mark.parametrize("make", [pipe, listening, device])
@pytest.mark.parametrize("name", ASKED)
def test_what_has_no_end_is_refused(
    name: str,
    make: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if name.endswith(".pt2"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    make(Path(name))
    (tmp_path / "plain.yaml").write_text(SPEC)
    (tmp_path / "weighted.yaml").write_text(
        SPEC.replace("{init: {}}", "w.safetensors").replace(
            "x * 2.0", "{op: linear, in: x, units: 3}"
        )
    )
    (tmp_path / "including.yaml").write_text(SPEC + "include: [part.yaml]\n")
    code = status([part.format(file=tmp_path / name, folder=tmp_path) for part in ASKED[name]])
    said = capsys.readouterr().err
    assert code == 2 and "error" in said and "XL9001" not in said, said


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        (
            "f.hlo",
            b"HloModule jit_f, entry_computation_layout={(f32[2]{0})->f32[2]{0}}\n",
            "HLO text",
        ),
        ("f.txt", b"module @jit_f attributes {mhlo.num_partitions = 1 : i32} {\n", ".mlir"),
        ("f.bc", b"ML\xefR\x01StableHLO_v1.0\0", ".mlirbc"),
        ("f.out", bytes(40) + b"ML\xefR\x01StableHLO_v1.0\0", ".jaxexport"),
        ("f.pth", b"PK\x03\x04" + bytes(99), "zip"),
        ("f.bin", b"\x80\x02}q\0.", "pickle"),
        ("f.st", (40).to_bytes(8, "little") + b'{"a":{"dtype":"F32"}}', "safetensors"),
        ("f.gguf", b"GGUF\x03\0\0\0", "GGUF"),
        ("f.pb", b"\x08\x0a\x12\x07pytorch\x3a", ".onnx"),
    ],
)
def test_files_of_other_kinds_are_called_by_their_names(
    name: str, data: bytes, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    assert status(["check", str(tmp_path / name)]) == 2
    said = capsys.readouterr().err
    assert "XL1023" in said and kind in said, said


def test_a_spec_may_have_any_name(tmp_path: Path) -> None:
    for name in ("m.yaml", "m", "m.txt", "module"):
        (tmp_path / name).write_text(SPEC)
        assert status(["check", "-q", str(tmp_path / name)]) == 0
    np.save(tmp_path / "x.npy", np.ones(2, np.float32))
    assert status(["run", str(tmp_path / "m"), "--input", f"x=@{tmp_path / 'x.npy'}"]) == 0
