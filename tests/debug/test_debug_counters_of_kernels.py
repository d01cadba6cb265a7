"""Counters of each kernel of a model: recorded ones, and what this machine gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xlac.cli import status
from xlac.debug.counters.by_kernel import counted_kernels, rows, unavailable
from xlac.debug.profile import take
from xlac.driver import lower
from xlac.frontends.loader import load
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

SPEC = """\
xlac: 1
model: two
inputs: {x: "f32[64, 64]", w: "f32[64, 64]"}
graph: {h: "matmul(x, w)", y: "sum(exp(x), axis=1)"}
outputs: [h, y]
"""
RECORDED = [
    {"calls": 3, "cycles": 6e4, "instructions": 12e4, "missing": {"cache_misses": "no counter"}},
    {"calls": 5, "instructions": 64.0, "missing": {"cycles": "none", "joules": "no energy"}},
]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "two.yaml"
    file.write_text(SPEC)
    return file


def test_recorded_counters_are_those_of_one_run(spec: Path) -> None:
    """The dearest group first; a call runs short kernels many times."""
    backend = find("cpu")
    lowered = lower(load(str(spec)), backend.target(Request()))
    arrays = [np.ones(s.extents({}), s.dtype.numpy) for s in lowered.program.inputs]
    profiled = take(lowered, backend, arrays, 0.01, lambda compiled: None)
    runs: list[int] = []

    def count(call: Callable[[], object], seconds: float) -> dict[str, Any]:
        assert seconds == 0.25
        call()
        runs.append(1)
        return dict(RECORDED[len(runs) - 1])

    found = counted_kernels(lowered, backend, profiled, 0.25, 5, count)
    assert sorted(one["computes"][-1] for one in found) == ["h", "y"]
    assert all(one["kernels"] and one["instructions"] >= 1 for one in found)
    assert found[0]["instructions"] == 2 * found[0]["cycles"] <= 12e4
    heads, first, second = rows(found)
    assert heads == ("cycles", "instructions", "instructions a cycle", "kernels")
    assert first[2] == "2.00" and (second[0], second[2]) == ("", "")
    assert unavailable(found) == [
        "unavailable: cache misses (no counter)",
        "unavailable: cycles (none)",
    ]
    assert len(counted_kernels(lowered, backend, profiled, 0.25, 0, count)) == 0


def test_the_command_tells_counters_or_why_not(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["profile", str(spec), "--seconds", "0.02", "--counters"]
    assert status([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["counters"]
    assert len(found) == 2
    for one in found:
        assert one["calls"] > 0
        assert ("cycles" in one) != ("cycles" in one["missing"])
    assert status(command) == 0
    said = capsys.readouterr().out
    assert all(", ".join(one["kernels"]) in said for one in found)
