"""Programs of torch.compile that are tuned before they are compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from xlac.debug.tune.tune import ModelTuning


@pytest.fixture
def searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each search; nothing is measured."""
    seconds: list[float] = []

    def run(self: ModelTuning) -> Any:
        seconds.append(self.seconds)
        return self.records

    monkeypatch.setattr(ModelTuning, "run", run)
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path))
    torch._dynamo.reset()
    return seconds


def model() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh())


def test_the_option_and_the_mode_search(searched: list[float]) -> None:
    """For each captured graph; the cache has what was found for as long."""
    module, x = model(), torch.randn(2, 6)
    wanted = module(x)
    for how in (
        {"options": {"threads": 1, "fallback": False, "tune": 3}},
        {"mode": "max-autotune"},
        {"options": {"tune": 60}},
    ):
        torch._dynamo.reset()
        with torch.no_grad():
            torch.testing.assert_close(torch.compile(module, backend="xlac", **how)(x), wanted)
    assert searched == ([3.0, 57.0] if torch.get_num_threads() == 1 else [3.0, 60.0])


def test_both_ways_of_a_training_step_are_searched(searched: list[float]) -> None:
    module, x = model(), torch.randn(2, 6)
    compiled = torch.compile(module, backend="xlac", options={"threads": 1, "tune": 2})
    compiled(x).sum().backward()
    assert searched == [2.0, 2.0]


def test_from_torch_takes_it(searched: list[float]) -> None:
    import xlac

    x = torch.randn(2, 6)
    function = xlac.from_torch(model(), x, tune=4)
    torch.testing.assert_close(function(x), model()(x))
    assert searched == [4.0]


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(Exception, match=r"seconds above 0.*XL4115"):
        torch.compile(model(), backend="xlac", options={"tune": -1})(torch.randn(2, 6))
