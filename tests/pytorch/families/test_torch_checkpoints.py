"""`torch.utils.checkpoint`: the backward pass draws again what the forward pass has drawn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.checkpoint import checkpoint

from xlac.frontends.torch.families.nn import checkpoints
from xlac.frontends.torch.random import Randomness
from xlac.integrations.torch.fallback import FallbackWarning
from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret

OPTIONS = {"fallback": False}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


def squares(x: Any) -> Any:
    return torch.nn.functional.dropout(x * 2, 0.5) ** 2


def with_noise(x: Any) -> Any:
    return (x * torch.rand_like(x)).relu() * torch.randn_like(x)


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("function", [squares, with_noise])
def test_the_gradient_is_that_of_the_numbers_drawn(
    function: Callable[[Any], Any], preserve: bool
) -> None:
    """Both functions are homogeneous, of degree 2 and 1, for the numbers that a call has drawn."""

    def f(x: Any) -> Any:
        return checkpoint(function, x, use_reentrant=False, preserve_rng_state=preserve)

    x = torch.randn(400, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(f, backend="xlac", options=OPTIONS)
    y = compiled(x)
    y.backward(torch.ones_like(y))
    degree = 2 if function is squares else 1
    torch.testing.assert_close(x.grad * x.detach(), degree * y.detach())
    assert not torch.equal(y, compiled(x)), "each call draws other numbers"


def test_beside_parts_that_fall_back() -> None:
    def f(x: Any) -> Any:
        return checkpoint(lambda v: squares(v) + torch.nanmedian(v), x, use_reentrant=False)

    x = torch.ones(400, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FallbackWarning)
        y = torch.compile(f, backend="xlac")(x)
        y.sum().backward()
    dropped = y.detach() == 1
    assert 100 < int(dropped.sum()) < 300
    # equal elements share the gradient of the median: 1 for each
    assert torch.equal(x.grad, torch.where(dropped, 1.0, 33.0))


def test_states_of_pytorch_and_ours_are_told_apart() -> None:
    """PyTorch refuses ours where its own operations are run with it."""
    size = torch.get_rng_state().numel()
    stream = Randomness()
    saved = checkpoints.saved(stream.state(), size)
    assert stream.seed is not None
    graph = Graph("state", (stream.seed,), {"saved": saved, "again": checkpoints.restored(saved)})
    seed = torch.tensor([2**63 + 5, 7, 9], dtype=torch.uint64).numpy()
    found = interpret(graph, {"seed": seed})
    assert found["again"].tolist() == seed.tolist()
    ours = torch.from_numpy(found["saved"])
    assert checkpoints.is_ours(ours) and not checkpoints.is_ours(torch.get_rng_state())
    with pytest.raises(RuntimeError, match="state"):
        torch.set_rng_state(ours)
