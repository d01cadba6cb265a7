"""Arguments of functions of keras.ops that no call has: of another type, unknown, or too large."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("h5py")
from keras_writer import EXPECTED, archived
from test_keras_files import refusal

from xlac.frontends.keras.importer import OPERATIONS
from xlac.frontends.loader import load
from xlac.spec.summary import summarize
from xlac_sdk.source import SourceError

WRONG: tuple[Any, ...] = ({}, "text", [[1]], {"a": 1}, -(1 << 40))


def functions(case: str) -> list[tuple[int, str]]:
    """The functions of a recorded model that have options: position in its layers, and option."""
    layers = json.loads(EXPECTED.text(case))["config"].get("layers", [])
    return [
        (position, option)
        for position, one in enumerate(layers)
        if one["class_name"] in OPERATIONS
        for option in one["config"]
        if option not in ("name", "dtype")
    ]


CASES = [
    (case, *place)
    for case in sorted(name for name in EXPECTED.by_case if name.startswith("ops_"))
    for place in functions(case)
]


@pytest.mark.parametrize(("case", "position", "option"), CASES)
@pytest.mark.sampled(8)
def test_options_of_any_type_are_taken_or_refused(
    case: str, position: int, option: str, tmp_path: Path
) -> None:
    for number, value in enumerate(WRONG):
        config = json.loads(EXPECTED.text(case))
        config["config"]["layers"][position]["config"][option] = value
        file = tmp_path / f"model{number}.keras"
        archived(case, file, json.dumps(config))
        try:
            summarize(load(file))
        except SourceError as error:
            assert "Error(" not in str(error), str(error)
            assert not {"XL4001", "XL9001"} & {d.code for d in error.diagnostics}


def test_a_type_that_does_not_fit_is_named(tmp_path: Path) -> None:
    case, position, option = next(c for c in CASES if c[2] == "axis")
    config = json.loads(EXPECTED.text(case))
    config["config"]["layers"][position]["config"][option] = {}
    file = tmp_path / "model.keras"
    archived(case, file, json.dumps(config))
    assert "axis is {}" in refusal(file)
