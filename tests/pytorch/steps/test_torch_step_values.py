"""Steps whose arguments or results are no numbers to learn from: nothing is changed, and an error
says why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import xlac
from xlac_sdk.source import SourceError

torch = pytest.importorskip("torch")

from torch import nn

from xlac.frontends.torch.exported import imported
from xlac.integrations.torch.argument_ranges import argument_ranges

F = nn.functional


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm, self.end = nn.Embedding(10, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, words: torch.Tensor, scale: torch.Tensor) -> Any:
        return self.end(torch.log(self.norm(self.table(words)).abs() + 1e-3) * scale)


GOOD = (torch.tensor([0, 9, 3, 4]), torch.tensor(1.0), torch.tensor([2, -100, 0, 1]))


def tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """Copies of all parameters, buffers and optimizer state."""
    kept = [slot for state in optimizer.state.values() for slot in state.values()]
    return [t.detach().clone() for t in (*model.state_dict().values(), *kept)]


@pytest.mark.parametrize("options", [{}, {"clip_norm": 1.0}, {"finite": True}])
@pytest.mark.parametrize(
    "at, value, code, said",
    [
        (0, torch.tensor([0, 10, 3, 4]), "XL6307", "is 10 at [1], and its range is 0..9"),
        (0, torch.tensor([0, -1, 3, 4]), "XL6307", "is -1 at [1]"),
        (2, torch.tensor([2, 0, 0, 3]), "XL6307", "is 3 at [3], and its range is 0..2, or -100"),
        (2, torch.tensor([-1, 0, 0, 1]), "XL6307", "is -1 at [0]"),
        (1, torch.tensor(float("nan")), "XL6031", "the loss is not finite; nothing was learned"),
    ],
)
def test_a_step_that_fails_changes_nothing(
    options: dict[str, Any], at: int, value: torch.Tensor, code: str, said: str
) -> None:
    torch.manual_seed(0)
    model = Words()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    step = xlac.torch_step(model, F.cross_entropy, optimizer, target="reference", **options)
    step(*GOOD)
    before = tensors(model, optimizer)
    with pytest.raises(SourceError) as raised:
        step(*GOOD[:at], value, *GOOD[at + 1 :])
    found = raised.value.diagnostics[0]
    assert found.code == code and said in found.message
    assert all(map(torch.equal, before, tensors(model, optimizer)))
    step(*GOOD)
    assert not torch.equal(before[0], model.table.weight)


@pytest.mark.parametrize("options", [{"clip_norm": 1.0}, {"finite": True}])
def test_gradients_that_are_not_finite_change_nothing(options: dict[str, Any]) -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = lambda result, at: (result.sum() + at).sqrt()
    step = xlac.torch_step(model, loss, optimizer, target="reference", **options)
    x = torch.ones(1, 2)
    with pytest.raises(SourceError, match="the gradients are not finite") as raised:
        step(x, torch.tensor(0.0))
    assert raised.value.diagnostics[0].code == "XL6031"
    assert not model.weight.any()
    step(x, torch.tensor(1.0))
    assert model.weight.all()


@pytest.mark.parametrize(
    "read, said",
    [
        (lambda x, i: F.embedding(i, x), "0..5"),
        (lambda x, i: x.gather(0, i[:, None].expand(4, 2)), "0..5"),
        (lambda x, i: x.index_select(0, i + 1), "-1..4"),
        (lambda x, i: x[i], "-6..5"),
        (lambda x, i: x[i.clamp(0, 5)], None),
        (lambda x, i: x[torch.where(i == 77, 0, i)], "-6..5, or 77"),
        (lambda x, i: x[i] + F.embedding(i, x[:3]), "0..2"),
        (
            lambda x, i: x.index_select(0, i.sum()[None]),
            None,
        ),  # of all of them, not number by number
        (lambda x, i: x[i * i], None),
        (lambda x, i: i.sum(), None),
    ],
)
def test_ranges_of_arguments(read: Callable[..., Any], said: str | None) -> None:
    class Reads(nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> Any:
            return read(x, i)

    program = torch.export.export(Reads(), (torch.zeros(6, 2), torch.tensor([0, 1, 2, 0])))
    found = imported(program.run_decompositions(), "reads")
    ranges = argument_ranges(found.model.graph)
    assert {name: str(one) for name, one in ranges.items()} == ({} if said is None else {"i": said})
