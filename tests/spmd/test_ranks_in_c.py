"""The text of C that calls MPI, and what `xlac build --mesh` refuses; tests/mpi runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from goldens import Golden
from safetensors.numpy import save_file

from xlac.artefact.loader import load
from xlac.cli import status
from xlac_sdk.host.manifest import digest, read
from xlac_sdk.source import SourceError, UnsupportedError
from xlac_sdk.support.hashing import blake2b

SPEC = """\
xlac: 1
model: halves
mesh: {data: 2, model: 2}
shard: {up.weight: [model, null], down.weight: [null, model]}
dims: {batch: {min: 1, max: 64, opt: 3}}
inputs: {x: "f32[batch, 4]"}
weights: {init: {seed: 0}}
graph:
  h: {op: shard, in: x, axes: [data, null]}
  up: {op: linear, in: h, units: 4, bias: false}
  down: {op: linear, in: relu(up), units: 2, bias: false}
outputs: {down: down, total: sum(down)}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "halves.yaml"
    file.write_text(SPEC, "utf-8")
    return file


def build(spec: Path, *options: str) -> int:
    command = ["build", str(spec), "--target", "c", "-o", str(spec.parent / "out")]
    return status([*command, "--mesh", "data=2", *options])


def test_generated_c_of_ranks(spec: Path, golden: Golden) -> None:
    assert build(spec) == 0
    files = ("halves.h", "halves.c")
    texts = {name: (spec.parent / "out" / name).read_text("utf-8") for name in files}
    golden.check(
        "specs/halves.mpi.c.txt",
        "\n".join(f"==> {name} <==\n{text.rstrip()}\n" for name, text in texts.items()),
    )


def test_ranks_with_the_same_weights_share_a_file(spec: Path) -> None:
    assert build(spec, "--weights", "file") == 0
    out = spec.parent / "out"
    first, second = ((out / f"halves.{n}.weights").read_bytes() for n in (0, 1))
    assert first != second
    assert not (out / "halves.2.weights").exists()
    facts = json.loads((out / "manifest.json").read_text("utf-8"))
    assert facts["ranks"]["parts"] == [0, 1, 0, 1]
    assert facts["ranks"]["arrays"]["x"] == {"shape": [3, 4], "axes": [["data"], []]}


def test_the_same_text_every_time(spec: Path) -> None:
    digests = set()
    for _ in range(2):
        assert build(spec) == 0
        digests.add(blake2b((spec.parent / "out" / "halves.c").read_bytes()).hexdigest())
    assert len(digests) == 1


def test_a_process_alone_is_refused(spec: Path) -> None:
    assert build(spec) == 0
    with pytest.raises(UnsupportedError, match="for 4 ranks, mesh data=2,model=2"):
        load(spec.parent / "out")


def test_a_manifest_with_too_few_parts_is_damaged(spec: Path) -> None:
    assert build(spec) == 0
    file = spec.parent / "out" / "manifest.json"
    facts = json.loads(file.read_text("utf-8"))
    del facts["sha256"]
    facts["ranks"]["parts"] = [0, 1, 0]
    file.write_text(json.dumps(facts | {"sha256": digest(facts)}), "utf-8")
    with pytest.raises(SourceError, match="not as many as the mesh has ranks"):
        load(spec.parent / "out")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--emit", "so"), "--emit so does not go with --mesh"),
        (("--weights", "incbin"), "--weights incbin does not go with --mesh"),
        (("--checked",), "--mesh does not go with --checked"),
        (("--quantize", "int8"), "--mesh does not go with --quantize"),
        (("--target", "cpu"), "target 'cpu' builds no programs that ranks run together"),
        (("--mesh", "data=2,modl=2"), "the model's mesh has no axis 'modl'"),
    ],
)
def test_options_that_are_refused(
    spec: Path, options: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(spec, *options) != 0
    assert problem in capsys.readouterr().err


def test_a_spec_that_trains(tmp_path: Path) -> None:
    """Each rank has its part of the state, and the header says which; collectives of the entries
    have numbers of their own.
    """
    text = (Path(__file__).parents[2] / "specs" / "digits_train.yaml").read_text("utf-8")
    file = tmp_path / "digits_train.yaml"
    specs = Path(__file__).parents[2] / "specs"
    text = text.replace("[digits.yaml]", f"[{specs}/digits.yaml]")
    file.write_text(text.replace("train:\n", "train:\n  shard: optimizer\n", 1), "utf-8")
    command = ["build", str(file), "--target", "c", "--mesh", "data=2", "-o", str(tmp_path / "o")]
    assert status([*command, "--allow-outside"]) == 0
    header = (tmp_path / "o" / "digits_train.h").read_text("utf-8")
    assert "'optimizer.m.h1.weight', f32[64, 64], of [128, 64], axis 0 from 64 * data on" in header
    assert "image: input 'image', f32[16, 64], of [32, 64], axis 0 from 16 * data on" in header
    made = read(tmp_path / "o")
    assert made.entries is not None and made.ranks is not None
    assert made.ranks.arrays["h1.weight"].axes == ((), ())
    source = (tmp_path / "o" / "digits_train.c").read_text("utf-8")
    waits = [line for line in source.splitlines() if " = arrived(" in line]
    assert len(waits) == len({line.split(",")[1] for line in waits})


def test_values_that_make_other_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part of equal integers becomes a number in the code, so the ranks' programs differ."""
    save_file({"w": np.repeat(np.int32([5, 2, 3]), [4, 2, 2])}, tmp_path / "w.safetensors")
    file = tmp_path / "scaled.yaml"
    file.write_text(
        "xlac: 1\nmodel: scaled\ninputs: {x: 'i32[2, 8]'}\nshard: {w: [model]}\n"
        "mesh: {model: 2}\nweights: w.safetensors\n"
        "graph:\n  w: {op: weight, type: 'i32[8]'}\n  y: x + w\noutputs: [y]\n"
    )
    command = ["build", str(file), "--target", "c", "--mesh", "model=2", "-o", str(tmp_path / "o")]
    code = status(command)
    assert "the values of weights make another program of rank 1" in capsys.readouterr().err
    assert code != 0
