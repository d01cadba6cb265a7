"""What one loss does to the weights that learn from it: gradients, clipped, and the next values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xlac.autodiff.gradient import linearize
from xlac.autodiff.origins import stamped
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.walks import substituted
from xlac.spec.schema.training import ClipSpec
from xlac.spec.training.objective import BatchMean, Objective
from xlac.spec.training.optimizer import Rate
from xlac.spec.training.section import Training
from xlac.training.accumulate import MicroBatch
from xlac.training.modes import TrainingMode
from xlac.training.row_updates import by_rows
from xlac.training.scaling import all_finite, unscaled
from xlac.training.state import state_prefix
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

EPSILON = 1e-6  # added to the length of gradients that are clipped, as PyTorch does


@dataclass(frozen=True, eq=False)
class Counters:
    """The scalars that updates read: how many steps were taken, as a float of the type of rates,
    the rates of this step, and what the loss is multiplied by.
    """

    step: Node
    rates: Mapping[Rate, Node]
    scale: Node | None = None


def gradients(
    loss: Node, weights: Mapping[str, Node], scale: Node | None
) -> tuple[Node, dict[str, Node]]:
    """A scalar, and its gradients by its weights, times a scale. Raises NoDerivativeError."""
    found = linearize([loss], list(weights.values()))
    one = build.constant(1.0, loss.type.dtype)
    if scale is not None:
        one = build.cast(scale, loss.type.dtype)
    return found.values[0], dict(zip(weights, found.transposed([one]), strict=True))


def bounded(gradients: Mapping[str, Node], clip: ClipSpec) -> tuple[dict[str, Node], Node | None]:
    """Gradients within the bounds that are set, and whether they are finite, where that is known."""
    made, finite = dict(gradients), None
    if clip.value is not None:
        made = {name: _between(g, clip.value) for name, g in made.items()}
    if clip.norm is not None:
        wide = DType.F64 if any(g.type.dtype is DType.F64 for g in made.values()) else DType.F32
        made, finite = _clipped(made, clip.norm, wide)
    return made, finite


class LossUpdate:
    """What one loss does in a step, after others have given some of the state its next values:
    stand-ins take the place of these, until all that depends on them is there.
    """

    def __init__(
        self,
        objective: Objective,
        training: Training,
        nodes: Mapping[str, Node],
        mode: TrainingMode,
        before: Mapping[str, Node],
    ) -> None:
        """`nodes` are the state by name, `before` the next values that it was given already."""
        self.objective, self.training, self.mode = objective, training, mode
        self.weights = {name: nodes[name] for name in objective.learns}
        changed = [name for name in training.learns if name in before]
        types = {name: nodes[name].type for name in changed}
        stand_ins = {name: build.param(name, t.dtype, t.shape, "state") for name, t in types.items()}  # fmt: skip
        self.weights |= {name: node for name, node in stand_ins.items() if name in self.weights}
        self.begun = {nodes[name]: node for name, node in stand_ins.items()}
        self.ended = {node: before[name] for name, node in stand_ins.items()}
        self.following: dict[str, Node] = {}
        self.finite: list[Node] = []  # of the loss first

    def learned(
        self,
        asked: list[Node],
        slots: Mapping[tuple[Objective, str], Mapping[str, Node]],
        counters: Counters,
        part: MicroBatch | None,
    ) -> dict[str, Node]:
        """The loss, and where it has one its count, by the names of their outputs; fills
        `following` and `finite`. `asked` are these numbers over the state, `slots` what is kept by
        objective and weight. Of a `part` of a batch the gradients join those before it.
        """
        objective, mode = self.objective, self.mode
        value, *count = mode.nodes(substituted(asked, self.begun))
        loss, made = gradients(value, self.weights, counters.scale)
        total = loss
        if part is not None:
            total, made = part.gathered(objective, loss, made, next(iter(count), None))
            if not part.last:
                return mean_outputs(objective.metric, [loss, *count])
        flags = [all_finite([total])]
        if counters.scale is not None:
            made = unscaled(made, counters.scale)
        if counters.scale is not None or self.training.finite:
            flags.append(all_finite(list(made.values())))
        made, finite = self._bounded(made)
        next_: dict[str, Node] = {}
        for name, gradient in made.items():
            optimizer, kept = objective.learns[name], slots[objective, name]
            rate = counters.rates[optimizer.rate]
            new = optimizer.update(self.training.elaboration(), self.weights[name], gradient, rate, counters.step, kept)  # fmt: skip
            old = {"w": self.weights[name], **kept}
            found = by_rows([old[slot] for slot in new], list(new.values()))
            new = dict(zip(new, found, strict=True))
            next_[name] = new.pop("w")
            next_ |= {f"{state_prefix(objective)}{slot}.{name}": n for slot, n in new.items()}
        flags += [finite] if finite is not None else []
        ends = [loss, *count, *flags, *next_.values(), *mode.measured.values()]
        settled = iter(substituted(ends, self.ended) if self.ended else ends)
        numbers = mean_outputs(objective.metric, [next(settled) for _ in (value, *count)])
        self.finite = [next(settled) for _ in flags]
        self.following = {name: next(settled) for name in next_}
        mode.measured = {node: next(settled) for node in mode.measured}
        return numbers

    def _bounded(self, given: dict[str, Node]) -> tuple[dict[str, Node], Node | None]:
        """`bounded`, in the name of the section's `clip`."""
        made, finite = bounded(given, self.objective.clip)
        origin = Origin("train.clip", self.training.place.at("clip").span)
        *clipped, finite = stamped([*made.values(), finite], origin, set(given.values()))
        return {name: one for name, one in zip(made, clipped, strict=True) if one}, finite


def mean_nodes(mean: BatchMean) -> list[Node]:
    """The nodes of a mean: its value, and its count where the data decide it."""
    return [mean.value, mean.count] if isinstance(mean.count, Node) else [mean.value]


def mean_outputs(name: str, nodes: Sequence[Node]) -> dict[str, Node]:
    """A mean's nodes by the names of their outputs."""
    value, *count = nodes
    return {name: value, **{f"{name}.count": build.cast(n, DType.F32) for n in count}}


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
