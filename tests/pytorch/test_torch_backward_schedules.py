"""The backward graphs that AOTAutograd makes are written with the kernels of our own derivatives:
as many groups of each kind, and no more arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Any

import pytest

from xlac.autodiff.gradient import linearize
from xlac.debug.decisions import groups
from xlac.driver import Lowered, lower
from xlac.ir.graph import Graph
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

torch = pytest.importorskip("torch")

from torch import nn
from torch._functorch.aot_autograd import aot_export_module

from xlac.frontends.torch.decompositions import decompositions
from xlac.integrations.torch.learning_export import LossModule, loss_program
from xlac.integrations.torch.subgraph import Options, Subgraph

F = nn.functional


class Joint(nn.Module):
    """The loss in a tuple, as aot_export_module wants it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: torch.Tensor) -> Any:
        return (self.inner(*args),)


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        found: torch.Tensor = (
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        )
        return found


def lowered(model: Model) -> Lowered:
    """For one processor, whatever this one is: what pays to fuse depends on it."""
    return lower(model, find("cpu").target(Request(threads=1, cpu="znver4")))


def own(module: LossModule, args: tuple[Any, ...]) -> Lowered:
    """The loss and its gradients by our derivatives, weights being inputs."""
    exported = loss_program(module, args, {})
    graph = exported.model.graph
    leaves = {
        n: build.param(param(n).name, n.type.dtype, n.shape)
        for n in graph.order
        if n.op.mnemonic == "param" and param(n).kind == "weight"
    }
    names = dict(module.named_parameters())
    named = dict(graph.outputs)
    first = named.pop(str(exported.outputs[0]))
    loss, *beside = substituted([first, *named.values()], leaves)
    found = linearize([loss], [leaf for leaf in leaves.values() if param(leaf).name in names])
    gradients = found.transposed([build.constant(1.0, loss.type.dtype)])
    outputs = {f"y{n}": node for n, node in enumerate([found.values[0], *gradients, *beside])}
    return lowered(Model(Graph("own", (*graph.inputs, *leaves.values()), outputs), {}))


def imported(module: LossModule, args: tuple[Any, ...]) -> Lowered:
    """The same by PyTorch's backward operations."""
    graph, _ = aot_export_module(
        Joint(module), args, trace_joint=True, output_loss_index=0, decompositions=decompositions()
    )
    subgraph = Subgraph(graph, Options(threads=1, fallback=False))
    assert not subgraph.unsupported
    return lowered(Model(Graph("joint", tuple(subgraph.params), subgraph.results()[0]), {}))


def counted(found: Lowered) -> Counter[str]:
    return Counter(group.kind.name for _, group in groups(found.partition))


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "max pool": (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(3, 2, 1)), (2, 3, 18, 18)),
    "average pool": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)),
        (2, 3, 18, 18),
    ),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, groups=16),
            nn.Conv2d(16, 8, 3, groups=2),
        ),
        (2, 3, 17, 16),
    ),
    "batch norm": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()),
        (2, 3, 9, 9),
    ),
    "group norm": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()),
        (2, 3, 9, 9),
    ),
    "layer norm": (
        lambda: nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 8)),
        (6, 8),
    ),
    "softmax": (lambda: nn.Sequential(nn.Linear(8, 10), nn.Softmax(-1)), (6, 8)),
    "log softmax": (lambda: nn.Sequential(nn.Linear(8, 10), nn.LogSoftmax(-1)), (6, 8)),
    "gelu": (lambda: nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8)), (6, 8)),
    "attention": (Heads, (2, 12, 16)),
}
FEW = 1  # how many groups without a sum may be more: where reshapes lie is PyTorch's choice


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", CASES)
def test_backward_operations_are_written_as_derivatives(name: str) -> None:
    torch.manual_seed(0)
    make, shape = CASES[name]
    module, x = make(), torch.randn(*shape)
    compare(module, x, torch.randn_like(module(x)), F.mse_loss)


def test_cross_entropy() -> None:
    """Ours has a kernel less: PyTorch's scatters, which ours selects."""
    labels = torch.randint(0, 10, (6,))
    compare(nn.Linear(8, 10), torch.randn(6, 8), labels, F.cross_entropy, {"SCATTER"})


def compare(
    module: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    loss: Any,
    theirs_alone: AbstractSet[str] = frozenset(),
) -> None:
    ours, theirs = (made(LossModule(module, loss, 1), (x, y)) for made in (own, imported))
    kinds, others = counted(ours), counted(theirs)
    more = others - kinds
    assert theirs_alone <= more.keys()
    for kind in theirs_alone:
        del more[kind]
    assert more.total() == more["ELEMENTWISE"] <= FEW, f"{dict(others)}, ours {dict(kinds)}"
    assert theirs.program.work.flops <= 1.02 * ours.program.work.flops
