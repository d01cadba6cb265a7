"""The option `freeze` of `torch.compile`: parameters and buffers are constants of programs."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from xlac.api import compile
from xlac.integrations.torch import fallback, subgraph
from xlac.integrations.torch.fallback import FallbackWarning
from xlac.model import Model

OPTIONS = {"threads": 1, "freeze": True, "fallback": False}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    """The models that are compiled."""
    seen: list[Model] = []

    def noting(model: Any, *args: Any, **named: Any) -> Any:
        seen.append(model)
        return compile(model, *args, **named)

    monkeypatch.setattr(subgraph, "compile", noting)
    return seen


class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Products, a buffer, a tensor that is no parameter, and a statistic that training changes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = torch.nn.Linear(8, 12), torch.nn.BatchNorm1d(12)
        self.second = torch.nn.Linear(12, 8)
        self.register_buffer("shift", torch.randn(8))
        self.scale = torch.randn(12)
        self.phase = torch.nn.Parameter(torch.randn(8, dtype=torch.complex64))

    def forward(self, x: Any) -> Any:
        y = self.second(torch.relu(self.norm(self.first(x))) * self.scale) + self.shift
        return y, torch.view_as_real(y * self.phase)


def same(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b, check_stride=True)


def test_parameters_and_buffers_are_constants(models: list[Model]) -> None:
    net = Net().eval()
    compiled = torch.compile(net, backend="xlac", options=OPTIONS)
    with torch.no_grad():
        for rows in (3, 3):
            x = torch.randn(rows, 8)
            same(compiled(x), net(x))
    (model,) = models
    assert [tuple(n.shape) for n in model.inputs] == [(3, 8)]
    assert {tuple(w.shape) for w in model.weights.values()} >= {(12, 8), (8, 12), (8,), (8, 2)}


def test_what_a_call_changes_is_no_constant(models: list[Model]) -> None:
    ours, eager = Net().train(), Net().train()
    eager.load_state_dict(ours.state_dict())
    eager.scale = ours.scale
    compiled = torch.compile(ours, backend="xlac", options=OPTIONS)
    with torch.no_grad():
        for _ in range(3):
            x = torch.randn(5, 8)
            same(compiled(x), eager(x))
    assert ours.norm.num_batches_tracked == 3
    torch.testing.assert_close(ours.norm.running_mean, eager.norm.running_mean)


def test_layouts_and_open_sizes() -> None:
    net = torch.nn.Conv2d(3, 4, 3, padding=1).eval().to(memory_format=torch.channels_last)
    compiled = torch.compile(net, backend="xlac", options=OPTIONS, dynamic=True)
    with torch.no_grad():
        for rows, size in ((2, 6), (3, 7), (2, 9)):
            x = torch.randn(rows, 3, size, size)
            same([compiled(x)], [net(x)])


def test_gradients_of_constants_are_refused() -> None:
    compiled = torch.compile(Net().eval(), backend="xlac", options=OPTIONS)
    with pytest.raises(Exception, match=r"torch\.no_grad") as caught:
        compiled(torch.randn(2, 8))
    assert "XL7307" in str(caught.value)


def test_parts_run_in_pytorch() -> None:
    net = Net().eval()

    def function(x: Any) -> Any:
        y, z = net(x)
        return torch.nanmedian(net.second(y.repeat(1, 2)[:, :12])) + y, z

    options = {**OPTIONS, "fallback": True}
    with torch.no_grad():
        x = torch.randn(4, 8)
        with pytest.warns(FallbackWarning, match="nanmedian"):
            found = torch.compile(function, backend="xlac", options=options)(x)
        same(found, function(x))


def test_threads_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []

    def slow(module: Any, options: Any) -> Any:
        begun.append(options.frozen)
        time.sleep(0.2)
        return lambda args: args[1] + options.frozen[0]

    monkeypatch.setattr(fallback, "compiled", slow)
    run, found = fallback.frozen(None, subgraph.Options(), [0]), []
    threads = [
        threading.Thread(target=lambda: found.append(run([torch.ones(2), torch.ones(2)])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [x.tolist() for x in found] == [[2, 2]] * 4 and len(begun) == 1
