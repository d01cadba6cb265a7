"""Options of optimizers that change while a run goes on, gradients of several calls, and products
in bf16: beside PyTorch.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

import xlac
from xlac_sdk.source import SourceError

torch = pytest.importorskip("torch")

from test_torch_step import F, adamw, follow, mlp, nn, rows


@pytest.fixture(autouse=True)
def wide() -> Any:
    """What PyTorch keeps as a number is f64, too."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


DECAY, BETAS = {"weight_decay": 0.1}, {"betas": (0.7, 0.9)}
CHANGES: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9, "dampening": 0.3, "nesterov": True, "maximize": True, **DECAY},
    "Adam": {"eps": 1e-3, "maximize": True, **BETAS, **DECAY},
    "AdamW": {"eps": 1e-3, "weight_decay": 0.2, **BETAS},
    "NAdam": {"momentum_decay": 0.1, "decoupled_weight_decay": True, **BETAS, **DECAY},
    "RMSprop": {"alpha": 0.5, "eps": 1e-3, **DECAY},
    "Adafactor": {"beta2_decay": -0.4, "d": 2.0, "eps": (1e-5, 1e-2), **DECAY},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CHANGES)
def test_options_that_change_are_never_stale(name: str) -> None:
    """One after another, and back again: no program is made twice."""
    first = {"lr": 0.02, "momentum": 0.5} if name == "SGD" else {"lr": 0.02}
    make = lambda p: getattr(torch.optim, name)(p, **first)
    changes = [{"lr": 0.01}]
    for option, value in CHANGES[name].items():
        changes += [{option: value}] * (option != "nesterov") or [{"dampening": 0, option: value}]

    def between(optimizer: Any, n: int) -> None:
        group = optimizer.param_groups[0]
        group.update(optimizer.defaults if n % 2 else changes[n // 2 % len(changes)])

    step = follow(mlp(), rows, make, steps=2 * len(changes) + 2, between=between)
    assert len(step._programs) <= len(changes) + 1


def test_muon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside PyTorch's, whose products are rounded to bf16 but here."""
    net = lambda: nn.Sequential(nn.Linear(5, 7, bias=False), nn.Tanh(), nn.Linear(7, 3, bias=False))
    monkeypatch.setattr(torch.Tensor, "bfloat16", lambda self: self.clone())
    others = {"nesterov": False, "adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.0}
    for given in ({}, {"lr": 0.1, **others}):
        follow(net(), rows, lambda p, given=given: torch.optim.Muon(p, **given))


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_gradients_of_several_calls(target: str) -> None:
    """As `(loss / 3).backward()` three times, clipped once; what waits may be discarded."""
    net = mlp()
    twin = copy.deepcopy(net)
    ours, theirs = adamw(net.parameters()), adamw(twin.parameters())
    options = {"accumulate": 3, "clip_norm": 0.1, "target": target, "threads": 1}
    step = xlac.torch_step(net, F.cross_entropy, ours, **options)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (ours, theirs)]
    for turn in range(9):
        x, y = rows()
        before = copy.deepcopy(net.state_dict())
        value = step(x, y)
        loss = F.cross_entropy(twin(x), y)
        (loss / 3).backward()
        torch.testing.assert_close(value, loss.detach(), rtol=1e-9, atol=1e-9)
        assert step.waiting == (turn + 1) % 3
        moved = any(not torch.equal(before[n], t) for n, t in net.state_dict().items())
        assert moved == (step.waiting == 0)
        if not step.waiting:
            nn.utils.clip_grad_norm_(twin.parameters(), 0.1)
            theirs.step()
            theirs.zero_grad()
            for one in schedules:
                one.step()
            step(*rows())
            with pytest.raises(SourceError, match="the loss is not finite"):
                step(x * float("nan"), y)
            assert step.waiting == 1  # those of a call that failed are not in the sums
            step.discard()
            assert step.waiting == 0
    for name, tensor in twin.state_dict().items():
        torch.testing.assert_close(net.state_dict()[name], tensor, rtol=1e-9, atol=1e-9)
    assert float(ours.state[net[0].weight]["step"]) == 3


@pytest.mark.parametrize("around", [False, True], ids=["compute", "autocast"])
def test_products_in_bf16(around: bool) -> None:
    """A gradient is as near to the f64 one as autocast's; parameters stay f32."""
    parts = [nn.Linear(9, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 5), nn.Tanh()]
    exact = nn.Sequential(*parts, nn.Linear(5, 3))
    net = copy.deepcopy(exact).float()
    x, y = torch.randn(16, 9, dtype=torch.float32), torch.randint(0, 3, (16,))
    twin = copy.deepcopy(net)
    begun = copy.deepcopy(net.state_dict())
    exact.load_state_dict(begun)
    F.cross_entropy(exact(x.double()), y).backward()
    with torch.autocast("cpu", torch.bfloat16):
        F.cross_entropy(twin(x), y).backward()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    more = {} if around else {"compute": "bf16"}
    step = xlac.torch_step(net, F.cross_entropy, optimizer, target="reference", threads=1, **more)
    with torch.autocast("cpu", torch.bfloat16, enabled=around):
        step(x, y)
    errors = {"ours": 0.0, "theirs": 0.0}
    slopes = dict(exact.named_parameters())
    for name, p in twin.named_parameters():
        wanted = slopes[name].grad
        ours = (begun[name] - net.state_dict()[name]).double()
        errors["ours"] += float(((ours - wanted) ** 2).sum())
        errors["theirs"] += float(((p.grad.double() - wanted) ** 2).sum())
    assert 1e-8 < errors["ours"] <= 2.25 * errors["theirs"]  # squares
    assert net[0].weight.dtype is torch.float32


def test_a_step_knows_whether_autocast_is_around_it() -> None:
    torch.set_default_dtype(torch.float32)
    net = mlp().float()
    optimizer = adamw(net.parameters())
    step = xlac.torch_step(net, F.cross_entropy, optimizer, target="reference", threads=1)
    x, y = torch.randn(6, 5), torch.randint(0, 3, (6,))
    for enabled in (False, True, False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            assert step(x, y).dtype is torch.float32
    assert len(step._programs) == 2
    with torch.autocast("cpu", torch.float16), pytest.raises(SourceError, match="XL7311"):
        step(x, y)
    for wrong in ({"accumulate": 0}, {"accumulate": True}):
        with pytest.raises(SourceError, match="XL7311"):
            xlac.torch_step(net, F.cross_entropy, adamw(net.parameters()), **wrong)
