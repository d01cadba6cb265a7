"""What is wrong with places is said with its place and reason; what does not go with them, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from placed import assert_equal

import xlac
from xlac.cli import status
from xlac.placement.places import PlacementWarning
from xlac_sdk.source import SourceError, UnsupportedError

SPEC = """\
xlac: 1
model: m
inputs: {x: "f32[3, 4]"}
weights: {init: {seed: 0}}
place: PLACES
graph:
  up: {op: linear, in: x, units: 8}
  rnn:
    scan: {row: up}
    carry: {h: {init: "zeros([8])"}}
    body: {next: h + row}
    next: {h: next}
  y: exp(rnn.h)
outputs: [y]
"""
X = np.ones((3, 4), np.float32)


def written(folder: Path, places: str) -> Path:
    path = folder / "m.yaml"
    path.write_text(SPEC.replace("PLACES", places), "utf-8")
    return path


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ("{uq: c}", r"m\.yaml:5:9: error: no node is called 'uq' \[XL7831\]"),
        ("{x: c}", r"'x' .XL7831.\n[^$]*inputs and weights are where they are read"),
        ("{'up.*': c}", r"'up\.\*' .XL7831.\n[^$]*inputs and weights are where they are read"),
        ("{'*': c, up: cpu}", r"m\.yaml:5:17: error: patterns before 'up' name all of its nodes"),
        ("{rnn.next: c}", r"'rnn.next' is inside 'rnn', all of which is on --target \[XL7832\]"),
        ("{rnn: cpu, '*.next': c}", r"patterns before '\*.next' name all of its nodes"),
        ("{'*.next': c, rnn: cpu}", r"m\.yaml:5:9: .*'rnn.next' is inside 'rnn', all .* on cpu"),
        ("{up: nope}", r"m\.yaml:5:9: error: no backend 'nope' is installed \[XL5001\]"),
        ("{up: 3}", r"m\.yaml:5:13: error: .*expected a target such as cpu, .* found 3"),
        ("{up: []}", r"m\.yaml:5:13: error: .*found a list"),
        ("[up]", r"m\.yaml:5:8: error: .*found a list"),
        ("{uq: c, uz: c}", r"'uq'[^$]*'uz'"),  # all mistakes at once
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, places: str, said: str) -> None:
    path = written(tmp_path, places)
    with pytest.raises(SourceError, match=said):
        xlac.compile(path)


@pytest.mark.parametrize(
    "option",
    [
        {"variants": [{}], "sizes": "symbolic", "said": "variants"},
        {"tune": 1.0, "said": "tune"},
        {"max_memory": "1M", "said": "max_memory"},
    ],
    ids=str,
)
def test_options_of_one_program_are_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    said, path = option.pop("said"), written(tmp_path, "{up: c}")
    with pytest.raises(UnsupportedError, match=f"{said} does not go with place"):
        xlac.compile(path, **option)


@pytest.mark.parametrize(
    "command",
    ["build -o OUT", "profile", "report -o OUT", "inspect", "tune --minutes 0.01", "verify"],
)
def test_commands_that_make_one_program_refuse_several_targets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = written(tmp_path, "{up: c}")
    name, *options = command.replace("OUT", str(tmp_path / "out")).split()
    assert status([name, str(path), *options]) == 3
    told = capsys.readouterr().err
    assert "m.yaml:5:9: error: 'up' is placed on c, and this is one program [XL7834]" in told


@pytest.mark.parametrize("command", ["explain", "plan --ranks 2"])
def test_ranks_do_not_go_with_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    name, *options = command.split()
    mesh = ["--mesh", "data=2"] if name == "explain" else []
    assert status([name, str(written(tmp_path, "{up: c}")), *options, *mesh]) == 3
    assert "does not go with place [XL7834]" in capsys.readouterr().err


def test_training_does_not_go_with_places(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    text = (Path(__file__).parents[2] / "specs" / "digits_train.yaml").read_text("utf-8")
    path.write_text(text + '\nplace: {"*": c}\n', "utf-8")
    with pytest.raises(SourceError, match=r"XL7834"):
        xlac.compile(path)


def test_places_on_one_target_make_one_program(tmp_path: Path) -> None:
    """`--place '*=c'` lets a spec with places be built."""
    path = written(tmp_path, "{up: cpu}")
    options = ["--target", "c", "--place", "*=c", "-o", str(tmp_path / "out")]
    assert status(["build", str(path), *options]) == 0


def allowed(places: Mapping[str, Any], folder: Path) -> list[str]:
    """The warnings of a compilation, which must give what one program gives."""
    path = written(folder, "{}")
    with pytest.warns(PlacementWarning) as caught:
        ours = xlac.compile(path, place=places)
    assert_equal(ours, xlac.compile(path, place={}), {"x": X})
    assert all(one.filename == __file__ for one in caught), "it is told where the user calls"
    return [str(one.message) for one in caught]


def test_another_target_is_taken_where_the_user_allows_it(tmp_path: Path) -> None:
    told = allowed({"up": ["nope", "c"], "y": ["nope", "also", "reference"]}, tmp_path)
    assert told == [
        "'up' is on c, not on nope: no backend 'nope' is installed",
        "'y' is on also, not on nope: no backend 'nope' is installed",
        "'y' is on reference, not on also: no backend 'also' is installed",
    ]


def test_the_last_of_several_targets_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no backend 'nope' is installed"):
        xlac.compile(written(tmp_path, "{up: [gone, nope]}"))


def test_what_is_no_mapping_of_targets(tmp_path: Path) -> None:
    path = written(tmp_path, "{}")
    for wrong in ({"up": 3}, {"up": []}, {3: "c"}):
        with pytest.raises(SourceError, match="place maps patterns to targets"):
            xlac.compile(path, place=wrong)  # type: ignore[arg-type]
