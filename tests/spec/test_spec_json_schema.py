"""The JSON Schema that editors read: it is the one in docs/, and an ordinary validator agrees with
ours on specs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xlac.spec.schema.json_schema import json_schema
from xlac.spec.text.yaml import read

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "xlac-spec-1.schema.json"
SPECS = sorted((ROOT / "specs").glob("*.yaml"))
HEAD = "# yaml-language-server: $schema="


@pytest.fixture(scope="module")
def validator() -> Any:
    from jsonschema import Draft202012Validator

    schema = json.loads(FILE.read_text("utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_file_is_what_the_command_prints() -> None:
    made = json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"
    assert FILE.read_text("utf-8") == made, "run: xlac schema -o docs/xlac-spec-1.schema.json"


@pytest.mark.parametrize("spec", SPECS, ids=lambda p: p.stem)
@pytest.mark.sampled(8)
def test_shipped_specs_name_the_schema_and_satisfy_it(spec: Path, validator: Any) -> None:
    first = spec.read_text("utf-8").splitlines()[0]
    assert first.startswith(HEAD)
    assert (spec.parent / first.removeprefix(HEAD)).resolve() == FILE.resolve()
    data = read(spec).root.plain()
    own = json_schema({}) if not data.get("ops") else None
    if own is None:  # operations of its own are in `xlac schema SPEC`
        from jsonschema import Draft202012Validator

        from xlac.spec.report import Report
        from xlac.spec.schema.document import read_document

        merged = read_document(spec, Report())
        assert merged is not None
        validator = Draft202012Validator(json_schema({n: e.spec for n, e in merged.ops.items()}))
    assert not [f"{list(e.path)}: {e.message[:200]}" for e in validator.iter_errors(data)]


GOOD: dict[str, Any] = {
    "xlac": 1,
    "model": "m",
    "inputs": {"x": "f32[8, 4]"},
    "weights": {"init": {"seed": 0}},
    "graph": {"y": {"op": "linear", "in": "x", "units": 4}},
    "outputs": ["y"],
}


@pytest.mark.parametrize(
    "change",
    [
        {"xlac": 2},
        {"graphs": {}},
        {"dims": {"B": {"minimum": 1}}},
        {"inputs": {"x": 3}},
        {"inputs": {"x": {"shape": [1]}}},
        {"weights": {"init": {"seed": -1}}},
        {"weights": {"init": {"scheme": "magic"}}},
        {"graph": {"y": {"op": "linaer", "in": "x"}}},
        {"graph": {"y": {"op": "linear", "in": "x", "unit": 4}}},
        {"graph": {"y": {"op": "relu", "in": "x", "slope": 4}}},
        {"graph": {"y": {"op": "softmax", "in": "x", "axis": "last"}}},
        {"graph": {"y": {"op": "reshape", "in": "x", "shape": [8, "four"]}}},
        {"graph": {"y": {"block": "b", "in": "x", "repeated": 3}}},
        {"graph": {"y": {"scan": {"s": "x"}, "steps": 3}}},
        {"outputs": "y"},
    ],
    ids=lambda change: json.dumps(change)[:60],
)
def test_an_ordinary_validator_refuses_what_is_wrong(
    change: dict[str, Any], validator: Any
) -> None:
    assert not list(validator.iter_errors(GOOD))
    assert list(validator.iter_errors({**GOOD, **change}))


def test_computed_values_are_allowed_everywhere(validator: Any) -> None:
    for node in (
        {"op": "reshape", "in": "x", "shape": ["$a", "${2 * a}", -1]},
        {"op": "linear", "in": "x", "units": "${a // 2}", "bias": "$flag"},
        {"op": "$act", "in": "x"},
    ):
        assert not list(validator.iter_errors({**GOOD, "params": {"a": 2}, "graph": {"y": node}}))


@pytest.mark.parametrize("spec", SPECS, ids=lambda p: p.stem)
def test_shipped_specs_are_in_canonical_form(spec: Path) -> None:
    from xlac.spec.text.format import canonical

    text = spec.read_text("utf-8")
    assert canonical(spec, text) == text, f"run: xlac fmt {spec.name}"
