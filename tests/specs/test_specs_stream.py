"""The streaming LSTM: state goes on from call to call, begins anew on request, and is each
artefact's own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from references import lstm_stream

import xlac
from xlac.cli import status
from xlac.frontends.loader import load

SPEC = Path(__file__).parents[2] / "specs" / "lstm_stream.yaml"
STEPS = 6


def expected(xs: np.ndarray) -> Any:
    return lstm_stream(
        {name: np.asarray(a, np.float64) for name, a in load(SPEC).weights.items()}, xs
    )


def stream(model: Any, xs: np.ndarray) -> np.ndarray:
    return np.stack([model(x=x) for x in xs])


@pytest.mark.parametrize("target", ["cpu", "c", "reference"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.sampled(6)
def test_a_stream_of_calls(target: str, rows: int) -> None:
    xs = np.random.default_rng(rows).standard_normal((STEPS, rows, 60)).astype(np.float32)
    model = xlac.compile(SPEC, target=target, dims={"B": rows})
    for _ in range(2):
        np.testing.assert_allclose(stream(model, xs), expected(xs), rtol=2e-5, atol=2e-5)
        model.reset()


@pytest.mark.parametrize(
    "options", [[], ["--dim", "B"], ["--dim", "B", "--variant", "B=2"]], ids=" ".join
)
@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.sampled(12)
def test_an_artefact_keeps_its_stream(target: str, options: list[str], tmp_path: Path) -> None:
    sized = options or ["--dim", "B=2"]
    for name in ("one", "other"):
        assert (
            status(["build", str(SPEC), "--target", target, "-o", str(tmp_path / name), *sized])
            == 0
        )
    one, other = xlac.load(tmp_path / "one"), xlac.load(tmp_path / "other")
    xs = np.random.default_rng(0).standard_normal((STEPS, 2, 60)).astype(np.float32)
    want = expected(xs)
    for step, x in enumerate(xs):
        np.testing.assert_allclose(one(x=x), want[step], rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(other(x=xs[0]), want[0], rtol=2e-5, atol=2e-5)
    one.reset()
    np.testing.assert_allclose(one(x=xs[0]), want[0], rtol=2e-5, atol=2e-5)
