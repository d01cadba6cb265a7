"""Products of groups of rows, columns and terms, as layers of experts have them."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

BF16 = torch.bfloat16
ENDS = {
    "even": (5, 10, 16),
    "an empty group first and last": (0, 16, 16),
    "rows of no group": (2, 2, 9),
}


def test_the_products_of_transformers_are_these() -> None:
    pytest.importorskip("transformers.integrations.moe")

    def function(x: torch.Tensor, y: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch.ops.transformers.grouped_mm_fallback(x, y, offs)

    x, y = drawn(16, 8).float(), drawn(3, 8, 12).float()
    offs = torch.tensor((5, 5, 16), dtype=torch.int32)
    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    torch.testing.assert_close(compiled(x, y, offs), function(x, y, offs))


@pytest.fixture(autouse=True)
def fixed_sizes() -> None:
    torch._dynamo.reset()  # else sizes that differ between tests become symbolic


def drawn(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(len(shape)).normal(size=shape)).to(BF16)


def by_loop(x: torch.Tensor, y: torch.Tensor, ends: tuple[int, ...]) -> torch.Tensor:
    """The definition in f32: a product for each group."""
    a, b, parts = x.float(), y.float(), list(zip((0, *ends), ends, strict=False))
    if x.dim() == 2 and y.dim() == 3:
        found = torch.zeros(len(a), b.shape[2])
        for group, (start, stop) in enumerate(parts):
            found[start:stop] = a[start:stop] @ b[group]
    elif x.dim() == 3:
        found = torch.zeros(a.shape[1], b.shape[1])
        for group, (start, stop) in enumerate(parts):
            found[:, start:stop] = a[group] @ b[:, start:stop]
    else:
        found = torch.stack([a[:, start:stop] @ b[start:stop] for start, stop in parts])
    return found.to(BF16)


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(
    "shapes", [((16, 8), (3, 8, 16)), ((3, 8, 16), (16, 16)), ((8, 16), (16, 24))]
)
def test_groups_are_multiplied_as_by_a_loop(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], ends: tuple[int, ...]
) -> None:
    def function(x: torch.Tensor, y: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._grouped_mm(x, y, offs)

    x, y = (drawn(*shape) for shape in shapes)
    if shapes[0] == (8, 16):  # what no group sums must not reach one that does
        x[:, ends[-1] :] = torch.inf
    offs = torch.tensor(ends, dtype=torch.int32)
    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    torch.testing.assert_close(compiled(x, y, offs), by_loop(x, y, ends), rtol=2**-7, atol=2**-7)


def test_stacks_need_no_ends_and_gradients_reach_both() -> None:
    def function(x: torch.Tensor, y: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._grouped_mm(x, y, offs).float().square().sum()

    x, y = drawn(16, 8), drawn(3, 8, 16)
    offs = torch.tensor((4, 4, 16), dtype=torch.int32)
    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    found = []
    for called in (compiled, function):
        leaves = [v.clone().requires_grad_() for v in (x, y)]
        found.append(torch.autograd.grad(called(*leaves, offs), leaves))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2**-6, atol=2**-3)
    stacks = torch.compile(torch.ops.aten._grouped_mm, backend="xlac", options={"fallback": False})
    x = drawn(3, 16, 8)
    torch.testing.assert_close(stacks(x, y), torch.bmm(x, y), rtol=2**-7, atol=2**-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histograms_count_as_eager(dtype: torch.dtype) -> None:
    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.histc(x[:-3], 7),
            torch.histc(x, 1000, -1, 1),
            torch.histc(x[:-3] * 0 + 3, 5),
            torch.histc(x[:0], 5),
            torch.histc(x[:-3].reshape(3, 10, 100), 9, -1, 2),
        ]

    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    values = np.random.default_rng(0).normal(size=3000)
    x = torch.from_numpy(np.append(values, [np.nan, np.inf, -np.inf])).to(dtype)
    x[:3] = torch.tensor([-1.0, 1.0, 0.998])  # the bounds and an edge of bins
    for ours, theirs in zip(compiled(x), function(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
