"""What one loss does to the weights that learn from it: gradients, clipped, and the next values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.schema.training import ClipSpec
from xlac.spec.training.optimizer import Optimizer, Rate
from xlac_sdk.dtypes import DType

EPSILON = 1e-6  # added to the length of gradients that are clipped, as PyTorch does


@dataclass(frozen=True, eq=False)
class Counters:
    """The scalars that updates read: how many steps were taken, as a float of the type of rates,
    and the rates of this step.
    """

    step: Node
    rates: Mapping[Rate, Node]


@dataclass(frozen=True, eq=False)
class Gradients:
    """A loss and its gradients by weight; `finite` says whether they are, where that is known."""

    loss: Node
    of: Mapping[str, Node]
    finite: Node | None = None


def gradients(loss: Node, weights: Mapping[str, Node], clip: ClipSpec) -> Gradients:
    """The gradients of a scalar by its weights, clipped. Raises NoDerivativeError."""
    found = linearize([loss], list(weights.values()))
    one = build.constant(1.0, loss.type.dtype)
    made = dict(zip(weights, found.transposed([one]), strict=True))
    finite: Node | None = None
    if clip.value is not None:
        made = {name: _between(g, clip.value) for name, g in made.items()}
    if clip.norm is not None:
        wide = DType.F64 if any(w.type.dtype is DType.F64 for w in weights.values()) else DType.F32
        made, finite = _clipped(made, clip.norm, wide)
    return Gradients(found.values[0], made, finite)


def updated(
    elaboration: Elaboration,
    optimizer: Optimizer,
    weight: Node,
    gradient: Node,
    kept: Mapping[str, Node],
    counters: Counters,
) -> dict[str, Node]:
    """The next values of a weight, `w`, and of what is kept for it. Raises Fault."""
    rate = counters.rates[optimizer.rate]
    return optimizer.update(elaboration, weight, gradient, rate, counters.step, kept)


def _clipped(
    gradients: Mapping[str, Node], most: float, wide: DType
) -> tuple[dict[str, Node], Node]:
    """Gradients that are at most so long together, and whether they are finite."""
    total: Node | None = None
    for gradient in gradients.values():
        compute = build.compute(gradient)
        part = build.cast(build.reduce(build.mul(compute, compute), "add"), wide)
        total = part if total is None else build.add(total, part)
    assert total is not None
    length = build.sqrt(total)
    share = build.minimum(build.div(most, build.add(length, EPSILON)), 1.0)
    clipped = {
        name: build.cast(
            build.mul(build.compute(g), build.cast(share, g.type.dtype.compute)), g.type.dtype
        )
        for name, g in gradients.items()
    }
    finite = build.compare(build.apply1("abs", length), "lt", float("inf"))
    return clipped, finite


def _between(gradient: Node, most: float) -> Node:
    return build.minimum(build.maximum(gradient, -most), most)
