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


def blocks(allows: Callable[..., Any], queries: int, keys: int, *apart: int) -> Any:
    """A mask of blocks, for all batches and heads or for each of so many."""
    batch, heads = apart or (None, None)
    return create_block_mask(allows, batch, heads, queries, keys, device="cpu", BLOCK_SIZE=(16, 8))


@pytest.mark.parametrize("queries, keys", [(48, 48), (40, 27), (5, 60)])
@pytest.mark.parametrize("heads", [HEADS, 2])
@pytest.mark.parametrize("apart", [(), (2, HEADS)], ids=["shared", "apart"])
def test_blocks_that_a_mask_lists(
    queries: int, keys: int, heads: int, apart: tuple[int, ...]
) -> None:
    """Some wholly seen, some in part, sizes that blocks do not divide."""
    slopes = torch.rand(HEADS)

    def allows(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (i + 12 * (b + 1) >= j) & (i - j < 9 * (h + 1))

    def score(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return torch.tanh(s) + slopes[h] * (j - i) + b

    def narrow(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (i >= j - 9) & (i < j + 13)

    given = blocks(allows if apart else narrow, queries, keys, *apart)

    def function(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(
            q, k, v, score_mod=score, block_mask=given, enable_gqa=True, return_lse=True
        )

    q, k, v = operands(queries)[0], *operands(keys, heads)[1:]
    check(function, *(x.float() for x in (q, k, v)))


def test_blocks_of_which_some_rows_see_nothing() -> None:
    given = blocks(lambda b, h, i, j: (j >= 20) & (i >= 20), 48, 48)
    check(lambda q, k, v: flex_attention(q, k, v, block_mask=given), *operands(48))


def test_blocks_left_out_are_not_read() -> None:
    """Where PyTorch's definition multiplies NaN by 0."""
    given = blocks(lambda b, h, i, j: j < 16, 48, 48)

    def function(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, block_mask=given)

    q, k, v = operands(48)
    wanted = function(q, k, v)
    k[:, :, 16:], v[:, :, 16:] = torch.nan, torch.nan
    compiled = torch.compile(function, backend="xlac", options={"fallback": False})
    torch.testing.assert_close(compiled(q, k, v), wanted)
