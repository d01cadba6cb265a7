"""Training: the forward and backward graphs that torch.compile gives us make the gradients that
eager PyTorch makes.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn

OPTIONS = {"threads": 1, "fallback": False}


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


def step(model: nn.Module, function: Any, args: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Gradients, buffers and the result of one step."""
    result = function(*args)
    result.square().mean().backward()
    found = {f"{name}.grad": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**found, **dict(model.named_buffers()), "result": result.detach()}


def check(model: nn.Module, args: list[torch.Tensor]) -> None:
    """Our errors, against float64, are not much larger than PyTorch's own, for every gradient and
    buffer.
    """
    found = {}
    for kind in ("ours", "eager", "exact"):
        twin = copy.deepcopy(model).to(torch.float64 if kind == "exact" else torch.float32)
        given = [a.double() if kind == "exact" and a.is_floating_point() else a for a in args]
        function = torch.compile(twin, backend="xlac", options=OPTIONS) if kind == "ours" else twin
        found[kind] = step(twin, function, given)
    ours, eager, exact = found["ours"], found["eager"], found["exact"]
    assert ours.keys() == eager.keys() and len(ours) > 1
    largest = max(float(g.abs().max()) for name, g in exact.items() if name.endswith(".grad"))
    for name, value in exact.items():
        scale = largest if name.endswith(".grad") else float(value.double().abs().max())
        mine, theirs = (
            float((x[name].double() - value.double()).abs().max()) for x in (ours, eager)
        )
        assert mine <= 4 * theirs + 2e-6 * scale, (
            f"{name}: error {mine:.2e}, PyTorch's own is {theirs:.2e}"
        )


def test_a_convolutional_network() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=2),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AvgPool2d(2),
        nn.ConvTranspose2d(8, 4, 3, stride=2, padding=1, output_padding=1),
        nn.AdaptiveAvgPool2d((3, 2)),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.Upsample(scale_factor=2),
        nn.Flatten(),
        nn.Linear(4 * 12 * 8, 5),
    )
    check(model, [torch.randn(4, 3, 16, 16)])


LAYERS = [
    nn.Conv1d(4, 6, 3, stride=2, dilation=2, padding=3), nn.Conv1d(4, 4, 5, groups=4, padding=2),
    nn.ConvTranspose1d(4, 6, 4, stride=3, groups=2, dilation=2), nn.LayerNorm(13),
    nn.BatchNorm1d(4), nn.InstanceNorm1d(4, affine=True), nn.MultiheadAttention(13, 1),
    nn.PReLU(4), nn.Softplus(), nn.ELU(), nn.GELU("tanh"), nn.LogSoftmax(1), nn.Hardswish(),
    nn.AdaptiveAvgPool1d(5), nn.AvgPool1d(3, 2, padding=1), nn.LocalResponseNorm(2),
    nn.Bilinear(13, 13, 3),
]  # fmt: skip


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_layers(layer: nn.Module) -> None:
    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.layer = nn.Linear(13, 13), layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.before(x)
            if isinstance(layer, nn.MultiheadAttention):
                return self.layer(y, y, y)[0]
            return self.layer(y, y) if isinstance(layer, nn.Bilinear) else self.layer(y)

    check(Alone(), [torch.randn(3, 4, 13)])


def test_tables_and_losses() -> None:
    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.out = nn.Embedding(11, 6, padding_idx=2), nn.Linear(6, 5)

        def forward(self, tokens: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
            scores = self.out(self.table(tokens).mean(1))
            return (
                nn.functional.cross_entropy(scores, classes, ignore_index=3)
                + scores.sort(-1).values[:, :2].sum()
            )

    check(Classifier(), [torch.randint(0, 11, (7, 9)), torch.randint(0, 5, (7,))])


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_transformers(name: str) -> None:
    pytest.importorskip("transformers")
    from tests.pytorch import models

    model, args = models.build(name)
    check(model, args)


def test_an_optimizer_moves_the_same_parameters() -> None:
    """Parameters are read anew at every call, not kept from the first."""
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="xlac", options=OPTIONS)
    x, y = torch.randn(16, 5), torch.randn(16, 1)
    for function, owner in ((compiled, model), (twin, twin)):
        optimizer = torch.optim.SGD(owner.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.mse_loss(function(x), y).backward()
            optimizer.step()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
