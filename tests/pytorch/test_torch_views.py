"""Results that are views come back as eager PyTorch's: shared memory, strides and offsets, nothing
written out that need not be.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from xlac.integrations.torch.fallback import FallbackWarning

OPTIONS = {"threads": 1, "fallback": False}

VIEWS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda t: t.transpose(0, -1), "row": lambda t: t[1:],
    "column": lambda t: t[..., ::2], "last": lambda t: t[..., -1],
    "expand": lambda t: t.unsqueeze(0).expand(3, *t.shape), "flat": lambda t: t.reshape(-1),
    "unfold": lambda t: t.unfold(0, 2, 1), "half": lambda t: t.chunk(2)[1],
    "diagonal": lambda t: t.diagonal(0, 0, -1), "narrow": lambda t: t.narrow(0, 0, 1),
    "self": lambda t: t,
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


def chain(generator: random.Random, value: Any) -> list[str]:
    """Views that can be taken of a tensor one after another."""
    names: list[str] = []
    for _ in range(generator.randint(1, 3)):
        name = generator.choice(list(VIEWS))
        try:
            found = VIEWS[name](value)
        except (RuntimeError, IndexError, ValueError):
            continue
        if (
            found.numel()
            and found.dim() <= 5
            and found.untyped_storage().data_ptr() == value.untyped_storage().data_ptr()
        ):
            names, value = [*names, name], found
    return names


def function(chains: list[tuple[int, list[str]]]) -> Callable[..., Any]:
    def f(x: Any, y: Any) -> tuple[Any, ...]:
        values = [x, x * y, (x + y).transpose(0, 1).contiguous().transpose(0, 1)]
        found = []
        for number, names in chains:
            value = values[number]
            for name in names:
                value = VIEWS[name](value)
            found.append(value)
        return *found, values[1].sum()

    return f


def alike(ours: tuple[Any, ...], theirs: tuple[Any, ...], *, sized: bool = True) -> None:
    """Values, strides, and which results share memory, with how far apart they begin there."""
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride() and (a.data_ptr() % 4) == 0
        if sized and b.numel() and 0 in b.stride():
            assert a.untyped_storage().nbytes() <= b.untyped_storage().nbytes()
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for c, d in list(zip(ours, theirs, strict=True))[:number]:
            together = b.untyped_storage().data_ptr() == d.untyped_storage().data_ptr()
            assert (a.untyped_storage().data_ptr() == c.untyped_storage().data_ptr()) == together
            if together:
                assert a.data_ptr() - c.data_ptr() == b.data_ptr() - d.data_ptr()


@pytest.mark.parametrize(
    "seed", [pytest.param(n, marks=() if n < 4 else pytest.mark.sampled(12)) for n in range(60)]
)
def test_random_views(seed: int) -> None:
    generator = random.Random(seed)
    shape = (4, 6) if generator.random() < 0.6 else (2, 4, 6)
    x, y = torch.randn(shape), torch.randn(shape)
    chains = [
        (n, chain(generator, x))
        for n in generator.choices((0, 1, 1, 1, 2), k=generator.randint(1, 4))
    ]
    dynamic = generator.random() < 0.4
    f = function([one for one in chains if one[0] != 2 or "flat" not in one[1]])
    compiled = torch.compile(f, backend="xlac", options=OPTIONS, dynamic=dynamic)
    for rows in (shape[0], shape[0] + 2) if dynamic else (shape[0],):
        x, y = torch.randn(rows, *shape[1:]), torch.randn(rows, *shape[1:])
        alike(compiled(x, y), f(x, y))


def test_what_is_written_through_one_result_is_seen_through_another() -> None:
    def f(x: Any) -> tuple[Any, Any]:
        y = x * 2
        return y[1:, ::2], y.t()

    first, second = torch.compile(f, backend="xlac", options=OPTIONS)(torch.ones(4, 6))
    first.zero_()
    assert float(second.sum()) == 2 * 24 - 2 * 9


def test_an_expanded_result_is_as_small_as_what_is_expanded() -> None:
    z = torch.randn(200, 200)
    for f in (
        lambda x: x.relu().unsqueeze(0).expand(2000, -1, -1),
        lambda x: (x.unsqueeze(0).expand(2000, -1, -1), x.relu()),
    ):
        torch._dynamo.reset()
        found = torch.compile(f, backend="xlac", options=OPTIONS)(z)
        first = found[0] if isinstance(found, tuple) else found
        assert first.stride() == (0, 200, 1) and first.untyped_storage().nbytes() == 160_000


def test_a_small_part_of_a_large_value_is_computed_by_itself() -> None:
    """The last position of a model's results: where the rest is not asked for, it is neither
    computed nor kept.
    """
    weight = torch.randn(16, 512)
    compiled = torch.compile(lambda x: (x @ weight)[:, -1], backend="xlac", options=OPTIONS)
    x = torch.randn(2, 64, 16)
    found = compiled(x)
    torch.testing.assert_close(found, (x @ weight)[:, -1])
    assert found.stride() == (x @ weight)[:, -1].stride()


def test_views_under_gradients_and_beside_what_is_missing() -> None:
    def f(x: Any) -> tuple[Any, ...]:
        y = (x * 2).exp()
        return y[1:, ::2], y.t(), y.unsqueeze(0).expand(3, 4, 6), x[2:]

    def g(x: Any) -> tuple[Any, ...]:
        y = x * 2
        return y[1:, ::2], y.t(), torch.linalg.svdvals(y), (x + 1).expand(2, 4, 6)

    for function, options in ((f, OPTIONS), (g, {"threads": 1})):
        for tracked in (False, True):
            torch._dynamo.reset()
            x, twin = (
                torch.linspace(-1, 1, 24).reshape(4, 6).requires_grad_(tracked) for _ in range(2)
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FallbackWarning)
                ours, theirs = (
                    torch.compile(function, backend="xlac", options=options)(x),
                    function(twin),
                )
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a, b)
                assert a.stride() == b.stride()
            if tracked:
                sum(a.square().sum() for a in ours).backward()
                sum(b.square().sum() for b in theirs).backward()
                torch.testing.assert_close(x.grad, twin.grad)
