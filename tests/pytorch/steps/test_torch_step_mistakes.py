"""What `xlac.torch_step` refuses, each in one line."""

from __future__ import annotations

from typing import Any

import pytest

import xlac
from xlac_sdk.source import SourceError

torch = pytest.importorskip("torch")

from torch import nn

from tests.pytorch.steps.test_torch_step import mlp, rows, sgd
from xlac.integrations.torch import step as step_module

F = nn.functional


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


class Straight(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp()

    def forward(self, x: torch.Tensor) -> Any:
        return Rounded.apply(self.inner(x))


def test_mistakes() -> None:
    net = mlp()
    x, y = rows()

    def said(
        loss: Any = F.cross_entropy,
        model: Any = net,
        optimizer: Any = None,
        args: Any = (x, y),
        **options: Any,
    ) -> str:
        with pytest.raises(SourceError) as raised:
            chosen = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
            xlac.torch_step(model, loss, chosen, target="reference", **options)(*args)
        (found,) = raised.value.diagnostics
        assert found.code == "XL7311" and "\n" not in found.message
        return found.message

    parameters = list(net.parameters())
    assert "no counterpart of the optimizer LBFGS" in said(optimizer=torch.optim.LBFGS(parameters))
    assert "torch.optim, not list" in said(optimizer=parameters)
    assert "float64[6], and must be a scalar" in said(lambda p, t: p[:, 0] - t)
    assert "must be a tensor, not tuple" in said(lambda p, t: (p, t))
    assert "torch.nn.Module, not str" in said(model="net", optimizer=sgd(parameters))
    assert "is not one of the model's" in said(optimizer=sgd(mlp().parameters()))
    assert "depends on no parameter" in said(lambda p, t: p.detach().sum())
    assert "requires a gradient" in said(args=(x.clone().requires_grad_(), y))
    assert "only Adam and AdamW" in said(
        optimizer=torch.optim.RAdam(parameters, decoupled_weight_decay=True)
    )
    assert "Rounded is an autograd.Function" in said(model=Straight())
    assert "clip_norm must be a positive number" in said(clip_norm=-1.0)
    assert "takes 3 of the arguments" in said(targets=3)
    twin = mlp()
    twin[2].bias.register_hook(lambda g: g)  # type: ignore[union-attr]
    assert "parameter '2.bias' has a hook" in said(model=twin)
    twin = mlp()
    twin[2].bias.data = twin[0].bias.data[:3]  # type: ignore[union-attr]
    assert "share memory" in said(model=twin)


def test_options_that_change_with_each_step() -> None:
    net = mlp()
    optimizer = sgd(net.parameters())
    step = xlac.torch_step(net, F.cross_entropy, optimizer, target="reference")
    x, y = rows()
    step(x, y)
    optimizer.param_groups[0]["momentum"] = 0.5
    step(x, y)
    assert len(step._programs) == 2
    step._variants.update(range(step_module.VARIANTS - 2))
    optimizer.param_groups[0]["momentum"] = 0.6
    with pytest.raises(SourceError, match="cycle_momentum=False"):
        step(x, y)
    optimizer.param_groups[0]["momentum"] = 0.5
    step(x, y)
