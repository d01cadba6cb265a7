"""ONNX's own backend tests, all of them, on target cpu: what fails is exactly what failures.yaml
lists, with its reason.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from onnx_suite import failures, suite

SHARDS = 48
TESTS = 2033  # of onnx 1.23.2, on CPU
BAR = 1980

REASONS = {
    "text": "its inputs, outputs or attributes are text",
    "undetermined": "its expected output was drawn at random without a seed",
    "runner": "ONNX's runner cannot compare the expected output, whatever it is compared with",
    "noise": (
        "its expected output is the rounding of the arithmetic that made it (an f32 FFT, f16 "
        "step by step), beyond the tolerance"
    ),
    "processor": (
        "some of its expected numbers are exact zeros, beside others of 100; whether the errors of "
        "an f32 FFT cancel there depends on the processor's instructions, so it may pass"
    ),
    "gradient": (
        "the operator asks for the derivative of the graph around it, which the importer "
        "does not make"
    ),
}


@cache
def listed() -> dict[str, str]:
    """The tests that are known to fail, and the reason of each."""
    found: dict[str, str] = {}
    for reason, names in yaml.safe_load(
        (Path(__file__).parent / "failures.yaml").read_text(encoding="utf-8")
    ).items():
        for name in names:
            assert name not in found, f"{name} is listed twice"
            found[name] = reason
    return found


@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.sampled(48)
def test_exactly_what_is_listed_fails(shard: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")
    names = sorted(suite())[shard::SHARDS]
    failed = failures(names)
    unlisted = {name: why for name, why in failed.items() if name not in listed()}
    assert not unlisted, "\n".join(f"{name}: {why}" for name, why in unlisted.items())
    known = [name for name in names if listed().get(name, "processor") != "processor"]
    passing = [name for name in known if name not in failed]
    assert not passing, f"failures.yaml lists tests that pass: {passing}"


def test_the_list_is_honest() -> None:
    """Every test of the suite is run, every listed one exists, and has a reason that is known."""
    assert len(suite()) == TESTS
    assert listed().keys() <= suite().keys()
    assert set(listed().values()) <= set(REASONS)
    assert TESTS - len(listed()) >= BAR, Counter(listed().values())


def test_only_tests_on_text_are_listed_as_such() -> None:
    """A test listed under `text` has text among its inputs or outputs."""
    from onnx import TensorProto, load
    from onnx.backend.test.loader import load_model_tests

    def has_text(case: Any) -> bool:
        model = case.model or load(Path(case.model_dir) / "model.onnx")
        return f"elem_type: {TensorProto.STRING}\n" in str(model)

    text = {
        f"{case.name}_cpu"
        for kind in ("node", "simple")
        for case in load_model_tests(kind=kind)
        if has_text(case)
    }
    assert {name for name, reason in listed().items() if reason == "text"} <= text
