"""Norms of PyTorch as operations of ours, where their statistics are not wanted."""

from __future__ import annotations

from typing import Any

import pytest

import xlac

torch = pytest.importorskip("torch")

from torch import nn


def operations(module: Any, *given: Any) -> list[str]:
    """The operations of the imported module, which gives what eager mode gives."""
    module = module.eval()
    function = xlac.from_torch(module, *given)
    torch.testing.assert_close(function(*given), module(*given))
    return [node.op.mnemonic for node in function.model.graph.order]


@pytest.mark.parametrize(
    ("name", "module", "shape"),
    [
        ("layer_norm", nn.LayerNorm(6), (2, 3, 6)),
        ("layer_norm", nn.LayerNorm((3, 6), elementwise_affine=False, eps=1e-3), (2, 3, 6)),
        ("group_norm", nn.GroupNorm(2, 4), (2, 4, 5, 3)),
        ("group_norm", nn.GroupNorm(4, 4, affine=False), (2, 4)),
        ("batch_norm", nn.BatchNorm2d(3), (2, 3, 4, 4)),
        ("batch_norm", nn.BatchNorm1d(3, affine=False), (2, 3)),
    ],
)
def test_one_operation(name: str, module: Any, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    for buffer in module.buffers():
        buffer.copy_(torch.rand_like(buffer.float()) + 0.5)
    kinds = operations(module, torch.randn(shape))
    assert kinds.count(name) == 1 and "reduce" not in kinds and "rsqrt" not in kinds


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_statistics_that_are_stated_but_not_read(dtype: Any) -> None:
    """Those of other types than f32 are stated where nothing reads them."""
    module = nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.GroupNorm(2, 4)).to(dtype)
    assert "layer_norm" in operations(module, torch.randn(3, 6, dtype=dtype))


def test_without_such_a_form() -> None:
    """With a weight alone, or one of another type, there are the operations that it is made of."""
    assert "rsqrt" in operations(nn.LayerNorm(6, bias=False), torch.randn(2, 6))


def test_training_keeps_the_statistics_for_its_gradient() -> None:
    torch._dynamo.reset()
    module = nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 4), nn.GroupNorm(2, 4))
    x = torch.randn(5, 6, requires_grad=True)
    y = torch.compile(module, backend="xlac", options={"fallback": False})(x)
    (ours,) = torch.autograd.grad(y.square().sum(), x)
    (theirs,) = torch.autograd.grad(module(x).square().sum(), x)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
