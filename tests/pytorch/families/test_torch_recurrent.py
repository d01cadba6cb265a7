"""LSTM and GRU, which Dynamo hands to backends where the user permits it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn

OPTIONS = {"fallback": False}


@pytest.fixture(autouse=True)
def permitted() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


@pytest.mark.parametrize(
    "module",
    [
        nn.LSTM(8, 16, num_layers=2, batch_first=True),
        nn.LSTM(8, 16, bidirectional=True),
        nn.LSTM(8, 16, bias=False),
        nn.GRU(8, 16, num_layers=2, bidirectional=True),
        nn.RNN(8, 16),
    ],
    ids=repr,
)
def test_inference(module: Any) -> None:
    x = torch.randn(3, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(
            torch.compile(module, backend="xlac", options=OPTIONS)(x), module(x)
        )


def test_gradients_of_a_gru() -> None:
    """Those of an LSTM fail in PyTorch 2.13, whatever the backend."""
    module, x = nn.GRU(8, 16), torch.randn(3, 5, 8, requires_grad=True)
    compiled = torch.compile(module, backend="xlac", options=OPTIONS)
    (ours,) = torch.autograd.grad(compiled(x)[0].sum(), x)
    (theirs,) = torch.autograd.grad(module(x)[0].sum(), x)
    torch.testing.assert_close(ours, theirs)
