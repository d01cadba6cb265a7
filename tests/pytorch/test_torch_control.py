"""PyTorch's operations over graphs: cond, while_loop, scan, map and associative_scan."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import xlac
from xlac_sdk.source import SourceError

ops = torch._higher_order_ops


@pytest.fixture(autouse=True)
def fixed_sizes() -> None:
    torch._dynamo.reset()  # else sizes that differ between tests become symbolic


def either(x: Any) -> Any:
    return torch.cond(
        x.sum() > 0, lambda x: (x.sin(), x * 2), lambda x: (x.cos() + 1, x.exp()), (x,)
    )


def until(x: Any) -> Any:
    bound = x.abs().sum() + 40
    return ops.while_loop(
        lambda i, y: (y.sum() < bound) & (i < 50),
        lambda i, y: (i + 1, y.abs() * 1.5 + x.mean(0)),
        (torch.tensor(0), x * 2),
    )


def scanned(x: Any) -> Any:
    return ops.scan(lambda c, r: ((c * r + r.sin()).tanh(), c * x.mean()), torch.ones(4), x)


def backwards(x: Any) -> Any:
    return ops.scan(lambda c, r: (c + r, c * r), torch.ones(4), x, reverse=True)


def each(x: Any) -> Any:
    return ops.map(lambda r, y: (r * y).cumsum(0), x, torch.ones(4) * 3)


def prefixes(x: Any) -> Any:
    return ops.associative_scan(lambda a, b: a * b + a, x, 0, combine_mode="generic")


def nested(x: Any) -> Any:
    def step(c: Any, r: Any) -> Any:
        y = torch.cond(r.sum() > 0, lambda c, r: c + r, lambda c, r: c * r, (c, r))
        return y, y.clone()

    return ops.scan(step, torch.ones(4), x)


CASES: list[Callable[..., Any]] = [either, until, scanned, backwards, each, prefixes, nested]


class Module(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


def flat(found: Any) -> list[Any]:
    return [found] if isinstance(found, torch.Tensor) else list(found)


def drawn(rows: int, seed: int = 0) -> Any:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_programs_agree_with_pytorch(function: Callable[..., Any]) -> None:
    program = xlac.from_torch(Module(function), drawn(3))
    for seed in range(3):
        x = drawn(3, seed)
        for a, b in zip(flat(function(x)), flat(program(x)), strict=True):
            torch.testing.assert_close(b, a)


@pytest.mark.parametrize(
    "function", [either, scanned, each, prefixes], ids=["cond", "scan", "map", "associative_scan"]
)
def test_training_agrees_with_pytorch(function: Callable[..., Any]) -> None:
    compiled = torch.compile(function, backend="xlac", fullgraph=True, options={"fallback": False})
    grads = []
    for way in (function, compiled):
        x = drawn(3).requires_grad_()
        sum((part * part).sum() for part in flat(way(x))).backward()
        grads.append(x.grad)
    torch.testing.assert_close(grads[1], grads[0])


def test_sizes_stay_open_inside() -> None:
    def function(x: Any) -> Any:
        start = torch.ones(4) * x.shape[0]
        last, rows = ops.scan(lambda c, r: (c + r, c * 2), start, x)
        other = torch.cond(last.sum() > 0, lambda x: x + x.shape[0], lambda x: x.cos(), (x,))
        return last, rows, other

    rows = torch.export.Dim("rows", max=64)
    program = xlac.from_torch(Module(function), drawn(3), dynamic_shapes={"x": {0: rows}})
    for count in (3, 7):
        x = drawn(count)
        for a, b in zip(function(x), program(x), strict=True):
            torch.testing.assert_close(b, a)


def test_files_with_graphs_inside_are_read(tmp_path: Path) -> None:
    file = tmp_path / "m.pt2"
    torch.export.save(torch.export.export(Module(nested), (drawn(3),)), file)
    found = xlac.compile(str(file))(drawn(3, 1).numpy())
    expected = nested(drawn(3, 1))
    for a, b in zip(expected, found.values(), strict=True):
        torch.testing.assert_close(torch.from_numpy(b), a)


def test_what_a_graph_inside_cannot_do_is_named_and_runs_in_pytorch() -> None:
    def function(x: Any) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: torch.special.bessel_j0(x), lambda x: x.cos(), (x,))
        return y * 2 + 1

    with pytest.raises(SourceError) as caught:
        xlac.from_torch(Module(function), drawn(3))
    assert "bessel_j0" in str(caught.value) and "of its graph are not supported" in str(
        caught.value
    )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        compiled = torch.compile(function, backend="xlac")
        torch.testing.assert_close(compiled(drawn(3)), function(drawn(3)))
    assert any("bessel_j0" in str(w.message) for w in seen)


def test_random_numbers_in_a_loop_are_refused() -> None:
    def function(x: Any) -> Any:
        return ops.scan(lambda c, r: (c + torch.rand_like(r), c * 2), torch.ones(4), x)

    with pytest.raises(SourceError, match="its graph draws random numbers"):
        xlac.from_torch(Module(function), drawn(3))
