"""Gradients whose backward operation PyTorch has and we derive from the forward one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

torch = pytest.importorskip("torch")

from torch.nn.functional import grid_sample, pad

Tensors = tuple[torch.Tensor, ...]


def agree(function: Callable[..., torch.Tensor], *values: torch.Tensor) -> None:
    """The gradients of a sum of squares, compiled and by PyTorch, in f64."""
    torch._dynamo.reset()  # else sizes that differ between cases become symbolic
    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    found: list[Tensors] = []
    for called in (compiled, function):
        leaves = [value.clone().requires_grad_() for value in values]
        found.append(torch.autograd.grad(called(*leaves).square().sum(), leaves))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("by", [(1, 2), (1, 2, 3, 0), (1, 2, 0, 3, 2, 1)])
def test_repeated_edges(by: tuple[int, ...]) -> None:
    shape = (2, 3, 4, 5, 6)[: 2 + len(by) // 2]
    agree(lambda x: pad(x, by, mode="replicate"), drawn(*shape))


HOW = list(product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")))


@pytest.mark.parametrize(("mode", "padding"), HOW)
def test_samples_of_a_grid_and_the_grid(mode: str, padding: str) -> None:
    def sampled(x: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
        return grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)

    agree(sampled, drawn(2, 3, 6, 7), drawn(2, 4, 5, 2))
    if mode == "bilinear":
        agree(sampled, drawn(1, 2, 4, 5, 3), drawn(1, 3, 2, 4, 3))


def test_a_grid_that_is_computed_from_what_is_sampled() -> None:
    def sampled(x: torch.Tensor) -> torch.Tensor:
        grid = x.mean(1)[..., None].expand(-1, -1, -1, 2)
        return grid_sample(x, grid, align_corners=True)

    agree(sampled, drawn(2, 3, 5, 5))


@pytest.mark.parametrize("count", [60, 90])
def test_sources_of_masked_places(count: int) -> None:
    mask = drawn(3, 4, 5) > 0
    agree(lambda x, source: x.masked_scatter(mask, source), drawn(3, 4, 5), drawn(count))
