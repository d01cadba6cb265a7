"""Models of transformers, by torch.export and torch.compile, against eager PyTorch in float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import xlac
from tests.pytorch import models

OPTIONS = {"threads": 1, "fallback": False}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", models.MODELS)
def test_an_exported_model_agrees(name: str) -> None:
    model, args = models.build(name)
    with torch.no_grad():
        eager = model(*args)
    models.check(xlac.from_torch(model, *args, threads=1)(*args), eager, models.exact(model, args))


@pytest.mark.parametrize("name", models.MODELS)
def test_a_compiled_model_agrees(name: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--all") and name not in ("bert", "gpt2"):
        pytest.skip("with --all")
    model, args = models.build(name)
    with torch.no_grad():
        eager, ours = model(*args), torch.compile(model, backend="xlac", options=OPTIONS)(*args)
    models.check(ours, eager, models.exact(model, args))


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5"])
def test_one_capture_serves_many_sizes(name: str, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--all") and name != "gpt2":
        pytest.skip("with --all")
    model, args = models.build(name)
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(model, backend="xlac", options=OPTIONS, dynamic=True)
    for batch, time in ((2, 7), (3, 12), (2, 15)):
        given = [a[:1].repeat(batch, 4)[:, :time] for a in args]  # every argument has `time`
        with torch.no_grad():
            models.check(compiled(*given), model(*given), models.exact(model, given))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_sizes_of_an_export_stay_open() -> None:
    model, args = models.build("bert")
    batch, time = torch.export.Dim("batch", min=2, max=8), torch.export.Dim("time", min=2, max=64)
    compiled = xlac.from_torch(
        model, *args, dynamic_shapes=(({0: batch, 1: time},) * 2,), threads=1
    )
    assert set(compiled.model.dims) == {"batch", "time"}
    for rows, length in ((2, 17), (4, 9)):
        given = [a[:1, :length].repeat(rows, 1) for a in args]
        with torch.no_grad():
            models.check(compiled(*given), model(*given), models.exact(model, given))


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_half_precision(name: str) -> None:
    """bf16 rounds at other places than eager does, and as finely."""
    model, args = models.build(name)
    exact = models.exact(model, args)
    model = model.bfloat16()
    with torch.no_grad():
        models.check(
            torch.compile(model, backend="xlac", options=OPTIONS)(*args),
            model(*args),
            exact,
            slack=2**-8,
        )
