"""Steps of `xlac.torch_step` in f64 beside PyTorch's own, on tensors that both share."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import xlac

torch = pytest.importorskip("torch")

from torch import nn

F = nn.functional
Draw = Callable[[], tuple[Any, Any]]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()


def rows() -> tuple[Any, Any]:
    return torch.randn(6, 5).double(), torch.randint(0, 3, (6,))


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adamw(parameters: Any) -> Any:
    return torch.optim.AdamW(parameters, lr=0.01)


def follow(
    net: nn.Module,
    draw: Draw,
    make: Callable[[Any], Any] = sgd,
    loss: Any = F.cross_entropy,
    steps: int = 10,
    between: Callable[[Any, int], None] = lambda optimizer, n: None,
    tolerance: float = 1e-9,
    **options: Any,
) -> Any:
    """Steps of both, compared: losses, parameters, buffers and what the optimizers keep."""
    twin = copy.deepcopy(net)
    ours, theirs = make(net.parameters()), make(twin.parameters())
    step = xlac.torch_step(net, loss, ours, **{"target": "reference", "threads": 1, **options})
    for n in range(steps):
        x, y = draw()
        found = step(x, y)
        theirs.zero_grad()
        expected = loss(twin(x), y)
        expected.backward()
        if options.get("clip_norm"):
            nn.utils.clip_grad_norm_(twin.parameters(), options["clip_norm"])
        theirs.step()
        torch.testing.assert_close(found, expected.detach(), rtol=tolerance, atol=tolerance)
        between(ours, n)
        between(theirs, n)
    for name, tensor in twin.state_dict().items():
        torch.testing.assert_close(
            net.state_dict()[name], tensor, rtol=tolerance, atol=tolerance, msg=name
        )
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        assert ours.state.get(p, {}).keys() == theirs.state.get(q, {}).keys()
        for name, kept in theirs.state.get(q, {}).items():
            torch.testing.assert_close(ours.state[p][name], kept, rtol=tolerance, atol=tolerance)
    return step


OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True, "betas": (0.8, 0.95), "eps": 1e-6}),
    ("AdamW", {"lr": torch.tensor(0.01, dtype=torch.float64)}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("RAdam", {"lr": 0.01}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.01}),
    ("NAdam", {"weight_decay": 0.1, "betas": (0.8, 0.95), "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.3, "beta2_decay": -0.5, "weight_decay": 0.1}),
    ("Adafactor", {"eps": (1e-8, 0.01), "d": 1.5}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("name", "given"), OPTIMIZERS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_optimizers(name: str, given: dict[str, Any]) -> None:
    follow(mlp(), rows, lambda p: getattr(torch.optim, name)(p, **given))


class Blocks(nn.Module):
    """Embedding, a block of attention, and a head that shares the embedding's weight."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Embedding(11, 8)
        self.block = nn.TransformerEncoderLayer(
            8, 2, 16, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
        )
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.token.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1], dtype=torch.float64)
        found: torch.Tensor = self.head(self.block(self.token(ids), mask)).flatten(0, 1)
        return found


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.out = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.out(self.cells(x)[0][:, -1])
        return found


def convolutions() -> nn.Module:
    parts = [
        nn.Conv2d(3, 4, 3, 2, 1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(36, 3))


def pictures() -> tuple[Any, Any]:
    return torch.randn(6, 3, 9, 9).double(), torch.randint(0, 3, (6,))


MODELS: dict[str, tuple[Callable[[], nn.Module], Draw]] = {
    "convolutions": (convolutions, pictures),
    "channels last": (lambda: convolutions().to(memory_format=torch.channels_last), pictures),
    "transformer": (Blocks, lambda: (torch.randint(0, 11, (3, 5)), torch.randint(0, 11, (15,)))),
    "lstm": (Recurrent, lambda: (torch.randn(3, 4, 4).double(), torch.randint(0, 3, (3,)))),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, target: str) -> None:
    """Also in memory of the module's own order, and where a backend copies its state."""
    make, draw = MODELS[name]
    follow(make().double(), draw, adamw, target=target)


def test_rates_groups_and_clipping() -> None:
    """One program serves all rates, of each group; a schedule of PyTorch's sets them."""
    schedules: dict[int, Any] = {}

    def make(parameters: Any) -> Any:
        first, *others = parameters
        return torch.optim.AdamW(
            [{"params": [first], "lr": 0.05, "weight_decay": 0.3}, {"params": others}], lr=0.01
        )

    def between(optimizer: Any, n: int) -> None:
        schedule = schedules.setdefault(
            id(optimizer), torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
        )
        if n:
            schedule.step()

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a schedule warns where no step came before it
        step = follow(mlp(), rows, make, between=between, clip_norm=0.05)
    assert len(step._programs) == 1


def test_checkpoints_and_steps_of_pytorch_between() -> None:
    """What PyTorch loads, changes and steps itself is where the next step goes on."""
    net, twin = mlp(), mlp()
    twin.load_state_dict(net.state_dict())
    ours, theirs = adamw(net.parameters()), adamw(twin.parameters())
    step = xlac.torch_step(net, F.cross_entropy, ours, target="cpu", threads=1)
    addresses = [p.data_ptr() for p in net.parameters()]
    for n in range(6):
        x, y = rows()
        theirs.zero_grad()
        F.cross_entropy(twin(x), y).backward()
        theirs.step()
        if n == 3:
            ours.zero_grad()
            F.cross_entropy(net(x), y).backward()
            ours.step()
        else:
            step(x, y)
        if n == 1:
            ours.load_state_dict(copy.deepcopy(ours.state_dict()))
            net.load_state_dict(copy.deepcopy(net.state_dict()))
        if n == 4:  # memory that does not begin where a program's own would
            room = torch.empty(5 * 7 + 1, dtype=torch.float64)[1:].view(7, 5)
            net[0].weight.data = room.copy_(net[0].weight.detach())  # type: ignore[index]
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-9)
    assert [p.data_ptr() for p in net.parameters()][1:] == addresses[1:]
    assert len(step._programs) == 1


class Partly(nn.Module):
    """A part that is detached, one under no_grad, one that is not used."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.unused = nn.Linear(5, 3), nn.Linear(3, 3), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.a(x)
        with torch.no_grad():
            t = self.b(h) * 2 + self.a(x)
        return h * h.detach() - t * self.b(h.detach())


def test_what_has_no_gradient() -> None:
    follow(
        Partly().double(),
        lambda: (torch.randn(4, 5).double(), torch.randn(4, 3).double()),
        adamw,
        F.mse_loss,
    )


def test_modes_and_dropout() -> None:
    """Dropout draws anew by PyTorch's seed; in inference mode there is another program."""
    net = nn.Sequential(nn.Linear(5, 64), nn.Dropout(0.5), nn.Linear(64, 3)).double()
    step = xlac.torch_step(
        net, F.cross_entropy, torch.optim.SGD(net.parameters(), lr=0.0), target="reference"
    )
    x, y = rows()
    torch.manual_seed(1)
    first, second = step(x, y), step(x, y)
    torch.manual_seed(1)
    assert first == step(x, y) != second
    net.eval()
    torch.testing.assert_close(step(x, y), F.cross_entropy(net(x), y).detach())


class OwnLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = mlp()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        from types import SimpleNamespace

        return SimpleNamespace(loss=F.cross_entropy(self.inner(x), y))


def test_a_model_with_a_loss_of_its_own() -> None:
    net = OwnLoss()
    x, y = rows()
    expected = net(x, y).loss.detach()
    step = xlac.torch_step(net, None, sgd(net.parameters()), target="reference")
    torch.testing.assert_close(step(x, y=y), expected)
    assert step(x, y=y) < expected
