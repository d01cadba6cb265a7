"""Operations that layers and optimizers are made of: bags of embeddings, distances, strided
scatters, encoder layers, lists of tensors. Values and gradients beside eager PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

F = torch.nn.functional
INDICES = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9, 2])
OFFSETS = torch.tensor([0, 4, 4, 7])  # an empty bag


@pytest.fixture(autouse=True)
def fixed_sizes() -> None:
    torch._dynamo.reset()  # else sizes that differ between tests become symbolic
    torch.manual_seed(0)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="xlac", options={"fallback": False})


def gradients(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The value, and the gradients of a weighted sum of it."""
    inputs = [a.detach().clone().requires_grad_() for a in args]
    found = function(*inputs)
    (found * torch.arange(1, found.numel() + 1).reshape(found.shape)).sum().backward()
    return found.detach(), *(i.grad for i in inputs)


def same(function: Callable[..., Any], *args: Any) -> None:
    for a, b in zip(gradients(compiled(function), *args), gradients(function, *args), strict=True):
        torch.testing.assert_close(a, b)


def normal(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("last", [False, True], ids=["starts", "starts and end"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str, padding: int | None, last: bool) -> None:
    offsets = torch.cat([OFFSETS, torch.tensor([9])]) if last else OFFSETS
    how: dict[str, Any] = {"mode": mode, "padding_idx": padding, "include_last_offset": last}
    same(lambda w: F.embedding_bag(INDICES, w, offsets, **how), normal(10, 4))


def test_bags_with_weights_of_their_rows() -> None:
    def function(table: Any, weights: Any) -> Any:
        return F.embedding_bag(INDICES, table, OFFSETS, mode="sum", per_sample_weights=weights)

    same(function, normal(10, 4), normal(9))


def test_bags_whose_gradients_are_divided_by_how_often_a_row_occurs() -> None:
    def function(table: Any) -> Any:
        return F.embedding_bag(INDICES, table, OFFSETS, mode="sum", scale_grad_by_freq=True)

    table = normal(10, 4)
    _, plain = gradients(lambda w: F.embedding_bag(INDICES, w, OFFSETS, mode="sum"), table)
    counts = torch.bincount(INDICES, minlength=10).clamp(min=1)
    torch.testing.assert_close(gradients(compiled(function), table)[1], plain / counts[:, None])


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances_of_equal_rows_have_no_gradient(p: float) -> None:
    x, y = normal(5, 3), normal(4, 3)
    x[3], y[2] = x[1], x[0]
    same(lambda x: torch.pdist(x, p), x)
    way = "donot_use_mm_for_euclid_dist"
    same(lambda x, y: torch.cdist(x, y, p, compute_mode=way), x, y)
    same(lambda x, y: torch.cdist(x, y, p, compute_mode=way), x.expand(2, 5, 3), y.expand(2, 4, 3))


def test_strided_places_are_replaced() -> None:
    same(lambda a, b: torch.as_strided_scatter(a, b, (2, 2), (1, 3), 1), normal(3, 4), normal(2, 2))
    turned = compiled(lambda a, b: torch.as_strided_scatter(a.t().sin(), b, (2, 2), (1, 3), 1))
    a, b = normal(3, 4), normal(2, 2)
    wanted = torch.as_strided_scatter(a.t().sin(), b, (2, 2), (1, 3), 1)
    torch.testing.assert_close(turned(a, b), wanted)


@pytest.mark.parametrize("mask", ["none", "scores", "keys"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers(norm_first: bool, mask: str) -> None:
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu"
    ).eval()
    named: dict[str, Any] = {
        "none": {},
        "scores": {"src_mask": torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)},
        "keys": {"src_key_padding_mask": torch.arange(5).expand(2, 5) > torch.tensor([[2], [3]])},
    }[mask]
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        found = compiled(lambda x: layer(x, **named))(x)
        torch.testing.assert_close(found, layer(x, **named))


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "RMSprop", "RAdam"])
@pytest.mark.parametrize("foreach", [False, True], ids=["one by one", "lists"])
def test_steps_of_optimizers(kind: str, foreach: bool) -> None:
    models = [torch.nn.Linear(4, 3) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    a, b = (
        getattr(torch.optim, kind)(m.parameters(), lr=0.01, foreach=foreach, weight_decay=0.1)
        for m in models
    )
    step = compiled(lambda: a.step())
    for _ in range(2):
        x = torch.randn(2, 4)
        for model, update in zip(models, (step, b.step), strict=True):
            model.zero_grad()
            model(x).square().sum().backward()
            update()
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_under_vmap() -> None:
    from torch.func import grad, jacfwd, vmap

    x = torch.randn(3, 4)
    for function in (
        lambda x: vmap(grad(lambda v: (v.sin() * v).sum()))(x),
        lambda x: jacfwd(lambda v: torch.index_put(v, (INDICES[:1],), v[:1] * 2).cos())(x[0]),
    ):
        torch.testing.assert_close(compiled(function)(x), function(x))
