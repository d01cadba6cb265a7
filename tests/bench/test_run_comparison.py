"""Runs of a benchmark compared: the interval has the truth as often as it promises, and small or
uncertain changes are no difference.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from xlac.cli import root, status
from xlac.debug.run_comparison import T_975, RunComparison, compared

SPECS = Path(__file__).parents[2] / "specs"


def run(bursts: list[float], **more: Any) -> dict[str, Any]:
    return {"model": "m", "target": "cpu", "threads": 1, "burst_us": bursts, **more}


def test_a_change_within_the_noise_is_no_difference() -> None:
    noisy = [100.0, 130.0, 90.0, 115.0, 108.0]
    found = compared(run(noisy), run([1.05 * t for t in reversed(noisy)]))
    assert found.verdict == "no difference" and found.low < 1.05 < found.high
    assert found.ratio == pytest.approx(1.05)


def test_a_sure_change_is_told() -> None:
    steady = [100.0, 100.5, 99.8, 100.2, 100.1]
    slow, fast = (compared(run(steady), run([f * t for t in steady])) for f in (1.1, 0.9))
    assert (slow.verdict, fast.verdict) == ("slower", "faster")
    assert str(slow).startswith("slower: 1.100 times as long, 1.09")


def test_sure_but_small_is_no_difference_until_asked() -> None:
    steady, now = [100.0, 100.01, 99.99], [101.0, 101.01, 100.99]
    assert compared(run(steady), run(now)).verdict == "no difference"
    assert compared(run(steady), run(now), tolerance=0.005).verdict == "slower"
    assert compared(run([5.0, 5.0]), run([5.0, 5.0])) == RunComparison(1.0, 1.0, 1.0)


def test_the_interval_has_the_truth_in_95_of_100_cases() -> None:
    generator = np.random.default_rng(3)
    inside = 0
    for _ in range(1000):
        old, new = np.exp(generator.normal(0, 0.05, 5)), np.exp(generator.normal(0.1, 0.15, 5))
        found = compared(run(old.tolist()), run(new.tolist()))
        inside += found.low <= np.exp(0.1) <= found.high
    assert 930 <= inside <= 985


def test_quantiles_are_students() -> None:
    stats = pytest.importorskip("scipy.stats")
    for freedom, value in enumerate(T_975, 1):
        assert value == pytest.approx(stats.t.ppf(0.975, freedom), abs=0.006)


def test_another_machine_is_doubted() -> None:
    old = run([5.0, 5.0], ceiling_gflops_per_second=100.0, doubts=["calls are unsteady: so"])
    found = compared(old, run([5.0, 5.0], threads=2, ceiling_gflops_per_second=50.0))
    said = "\n".join(found.doubts)
    assert "then calls are unsteady" in said and "0.50 times the rate" in said
    assert "1 thread(s) then, 2 now" in said
    assert found.json()["doubts"] == list(found.doubts)


@pytest.mark.parametrize(
    "changed", [{"model": "n"}, {"target": "c"}, {"burst_us": [1.0]}, {"burst_us": [0, 1.0]}]
)
def test_what_cannot_be_compared_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"it (is of|has no)"):
        compared(run([1.0, 1.0]) | changed, run([1.0, 1.0]))


def test_the_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = ["bench", str(SPECS / "softmax.yaml"), "--seconds", "0.05"]
    first = CliRunner().invoke(root, [*bench, "--json"], catch_exceptions=False)
    result = json.loads(first.output)
    fast, slow = tmp_path / "fast.json", tmp_path / "slow.json"
    fast.write_text(json.dumps(result | {"burst_us": [1.0, 1.0, 1.01]}))
    slow.write_text(json.dumps(result | {"burst_us": [1e6, 1e6, 1.01e6]}))
    assert status([*bench, "--baseline", str(fast)]) == 1
    assert "baseline  slower: " in capsys.readouterr().out
    assert status([*bench, "--baseline", str(slow), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["comparison"]["verdict"] == "faster"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(result | {"model": "other"}))
    assert status([*bench, "--baseline", str(other)]) == 2
    assert "XL6009" in capsys.readouterr().err
    assert status([*bench, "--baseline", str(SPECS / "softmax.yaml")]) == 2
    assert "not a baseline of this run" in capsys.readouterr().err
