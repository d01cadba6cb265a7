"""`flex_attention` beside eager PyTorch, which defines it by the matrix of scores as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import xlac

torch = pytest.importorskip("torch")

from torch.nn.attention.flex_attention import create_block_mask, flex_attention

HEADS, LENGTH = 4, 16


@pytest.fixture(autouse=True)
def fixed_sizes() -> None:
    torch._dynamo.reset()  # else sizes that differ between tests become symbolic
    torch.manual_seed(0)


def operands(length: int = LENGTH, heads: int = HEADS) -> list[Any]:
    """Queries, keys and values; the latter two may have fewer heads."""
    shapes = [(2, n, length, 8) for n in (HEADS, heads, heads)]
    return [torch.randn(shape, dtype=torch.float64) for shape in shapes]


def mask(allows: Callable[..., Any]) -> Any:
    return create_block_mask(allows, None, None, LENGTH, LENGTH, device="cpu")


def biased(score: Any, batch: Any, head: Any, query: Any, key: Any) -> Any:
    return score + (query - key) * 0.1 * (head + 1)


def check(function: Callable[..., Any], *values: Any) -> None:
    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    torch.testing.assert_close(compiled(*values), function(*values), check_stride=True)


def test_a_function_of_scores_and_a_mask() -> None:
    causal = mask(lambda b, h, i, j: i >= j)

    def function(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=biased, block_mask=causal, return_lse=True)

    check(function, *(x.float() for x in operands()))  # PyTorch states f32 for every logarithm


def test_tensors_that_the_functions_read() -> None:
    slopes, documents = torch.rand(HEADS).double(), torch.arange(LENGTH) // 5
    own = mask(lambda b, h, i, j: documents[i] == documents[j])

    def function(q: Any, k: Any, v: Any) -> Any:
        def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
            return torch.tanh(s) + slopes[h] * (j - i)

        return flex_attention(q, k, v, score_mod=score, block_mask=own)

    check(function, *operands())


def test_heads_that_share_keys() -> None:
    check(lambda q, k, v: flex_attention(q, k, v, enable_gqa=True), *operands(heads=2))


def test_rows_that_see_nothing_are_zero() -> None:
    nothing = mask(lambda b, h, i, j: i < j - LENGTH)
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=nothing), *operands())


def test_open_lengths() -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=biased)

    compiled = torch.compile(function, backend="xlac", dynamic=True, options={"fallback": False})
    for length in (16, 24):
        values = operands(length)
        torch.testing.assert_close(compiled(*values), function(*values))


class Attends(torch.nn.Module):
    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=biased)


def test_an_exported_module() -> None:
    values = operands()
    torch.testing.assert_close(xlac.from_torch(Attends(), *values)(*values), Attends()(*values))
