"""The judge of `make verify-architectures`, and a few of the models that it judges."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.pytorch.architectures.judged import above, exact, judged, verdict
from tests.pytorch.architectures.small_models import NAMES, build

SOME = ("bert", "convnext", "t5", "wav2vec2")


@pytest.mark.parametrize("name", SOME)
def test_models_are_right(name: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--all") and name != "bert":
        pytest.skip("with --all")
    found = verdict(name)
    assert found["verdict"] == "right", found
    assert "1 graphs, 0 breaks" in found["text"]


def test_results_that_are_worse_are_found() -> None:
    torch._dynamo.utils.counters.clear()
    model, args = build("bert")
    meant = exact(model, args)
    with torch.no_grad():
        eager = model(*args)
    assert above(eager, eager, meant) == ([], pytest.approx(1.0, abs=0.6))
    assert above([x + 1e-5 for x in eager], eager, meant)[0]
    assert above([x.double() for x in eager], eager, meant)[0]
    assert above(eager[:1], eager, meant)[0]
    assert judged(lambda: eager, "bert")["text"].endswith("nothing was compiled")


def test_there_are_more_models_than_the_bar_asks_for() -> None:
    assert len(set(NAMES)) >= 60
