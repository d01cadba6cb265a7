"""What a user gives on the command line: numbers, files and names, and what is wrong with them
before anything is compiled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac_sdk.source import SourceError

SPEC = """xlac: 1
model: values
dims: {n: {max: 100}}
inputs: {a: "f32[]", v: "f32[n]", k: "i32[2]", flag: "bool[]"}
graph:
  y: v * a
  z: select(flag, k, k + 1)
outputs: {y: y, z: z}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "m.yaml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results(folder: Path, *given: str, target: str = "cpu") -> dict[str, np.ndarray]:
    assert status(["run", "m.yaml", "--target", target, "--outputs", "o.npz", *given]) == 0
    with np.load(folder / "o.npz") as found:
        return dict(found)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_numbers_take_the_type_and_shape_of_their_input(folder: Path, target: str) -> None:
    found = results(
        folder, "-i", "a=2.5", "-i", "v=1,2,-3e1", "-i", "k=7", "-i", "flag=false", target=target
    )
    assert (
        found["y"].tolist() == [2.5, 5.0, -75.0]
        and found["y"].dtype == np.float32
        and found["z"].tolist() == [8, 8]
    )
    assert results(folder, "-i", "a=-1", "-i", "k=[1, 2]", "-i", "flag=true", target=target)[
        "z"
    ].tolist() == [1, 2]


@pytest.mark.parametrize("text", ["x.npy", "@x.npy"])
def test_a_file_is_named_with_its_sign_or_without(folder: Path, text: str) -> None:
    np.save("x.npy", np.ones(3, np.float32))
    assert results(folder, "-i", f"v={text}", "-i", "a=2")["y"].tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-i", "k=1,2,3"], "XL6003"), (["-i", "a=1,2"], "XL6003"), (["-i", "k=1.5"], "XL6002"),
        (["-i", "k=4294967296"], "XL6002"), (["-i", "v=@wide.npy"], "XL6002"),
        (["-i", "k=@wide.npy"], "XL6002"), (["-i", "k=@long.npy"], "XL6003"),
        (["-i", "v=@square.npy"], "XL6003"), (["--inputs", "all.npz"], "XL6002"),
        (["-i", "w=1"], "XL6001"), (["-i", "v=1;2"], "XL6005"), (["-o", "w=@w.npy"], "XL6001"),
        (["-o", "w=w.npy"], "XL6001"), (["--expect", "w=@wide.npy"], "XL6001"),
        (["--expect", "@w.npy"], "XL3001"),
        (["-i", "a=1e400"], "XL4015"), (["-i", "v=1,-1e999"], "XL4015"),
        (["-i", "a=1e39"], "XL6002"), (["-i", "v=2xf32=1e39,1"], "XL6002"),
        (["-i", "v=2xf32=1e400,1"], "XL4015"), (["-i", "k=2xi32=1.5,1"], "XL6002"),
        (["-i", "k=2xi32=4294967297,1"], "XL6002"), (["-i", "flag=2"], "XL6002"),
    ],
)  # fmt: skip
def test_mistakes_are_told_before_anything_is_compiled(
    folder: Path,
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    np.save("wide.npy", np.ones(2))
    np.save("long.npy", np.ones(5, np.int32))
    np.save("square.npy", np.ones((2, 2), np.float32))
    np.savez("all.npz", a=np.float64(1))
    monkeypatch.setattr("xlac.driver.lower", lambda *_, **__: pytest.fail("it was compiled"))
    assert status(["run", "m.yaml", *arguments]) == 2
    assert said in capsys.readouterr().err


LONG = "1" + "0" * 5000


@pytest.mark.parametrize(
    "given", [("--dim", f"n={LONG}"), ("--dim", f"n=-{LONG}"), ("--set", f"k={LONG}")]
)
def test_integers_have_at_most_forty_digits(
    given: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python prints none of more than 4,300, and reads longer ones as no integers, so as inf."""
    assert status(["check", "m.yaml", *given]) == 2
    assert "000… has more than 40 digits [XL4015]" in capsys.readouterr().err


def test_integers_of_python_have_at_most_forty_digits(folder: Path) -> None:
    number = int("9" * 4000) ** 2
    asked: tuple[dict[str, Any], ...] = (
        {"dims": {"n": number}},
        {"params": {"n": -number}},
        {"threads": number},
        {"max_memory": number},
        {"sizes": "symbolic", "variants": [{"n": number}]},
    )
    for options in asked:
        with pytest.raises(SourceError, match="has more than 40 digits"):
            xlac.compile("m.yaml", **options)


@pytest.mark.parametrize("command", ["check", "build", "run", "explain", "inspect"])
@pytest.mark.parametrize("target", ["gpu", "nope", "cpuu"])
def test_a_target_that_there_is_not(
    command: str, target: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the target makes no difference; only a slip has a guess as its hint."""
    assert status([command, "m.yaml", "--target", target]) == 2
    told = capsys.readouterr().err
    assert "XL5001" in told
    assert ("did you mean 'cpu'?" if target == "cpuu" else "there are: ") in told


@pytest.mark.parametrize("command", [("check",), ("check", "--weights"), ("build",), ("explain",)])
@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (("--cpu", "nope"), "unknown CPU 'nope' [XL5101]"),
        (("--cpu", "x86-64-v2,nope", "--triple", "x86_64-unknown-linux-gnu"), "XL5101"),
        (("--target", "c", "--cpu", "nope"), "the c backend takes no CPU ('nope') [XL5022]"),
        (("--target", "cuda", "--arch", "nope"), "XL5202"),
    ],
)
def test_a_processor_that_there_is_not(
    command: tuple[str, ...],
    machine: tuple[str, ...],
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where the target makes no difference."""
    assert status([*command, "m.yaml", *machine]) == 2
    assert said in capsys.readouterr().err


def test_a_kept_program_and_an_artefact_say_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "m.yaml").write_text(SPEC.replace("dims: {n: {max: 100}}", "dims: {n: 3}"))
    results(folder)
    assert status(["build", "m.yaml", "-o", "out"]) == 0
    capsys.readouterr()
    for what in ("m.yaml", "out"):
        for arguments, said in (
            (["-o", "w=@w.npy"], "XL6001"),
            (["-i", "k=1.5"], "XL6002"),
            (["-i", "v=1,2"], "XL6003"),
        ):
            assert status(["run", what, *arguments]) == 2
            assert said in capsys.readouterr().err
        assert status(["run", what, "-i", "a=2", "-i", "v=1,2,3", "-o", "y=y.npy"]) == 0
        assert np.load("y.npy").tolist() == [2, 4, 6]


def test_true_and_false_stand_wherever_a_value_does(folder: Path) -> None:
    (folder / "m.yaml").write_text("""xlac: 1
model: flags
inputs: {n: "i32[]", x: "f32[2]", flag: "bool[]"}
graph:
  loop:
    while: go
    carry: {i: {init: 0}, go: {init: true}, ever: false}
    body: {more: i + 1}
    next: {i: more, go: more < n, ever: true}
  either: {cond: flag, then: true, else: false}
  chosen: {op: select, in: [true, x, 0.0]}
  both: {op: logical_and, in: {x: flag, y: true}}
outputs: {i: loop.i, ever: loop.ever, either: either, chosen: chosen, both: both, yes: true}
""")
    found = results(folder, "-i", "n=5", "-i", "x=1,2", "-i", "flag=true")
    assert {name: array.tolist() for name, array in found.items()} == {
        "i": 5,
        "ever": True,
        "either": True,
        "chosen": [1, 2],
        "both": True,
        "yes": True,
    }
