"""The update of the weights that learn from one loss: gradients, clipping, next values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xlac.autodiff.gradient import linearize
from xlac.autodiff.origins import with_origin
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.walks import substituted
from xlac.spec.report import Fault, Place
from xlac.spec.schema.training import ClipSpec
from xlac.spec.training.counts import BatchMean
from xlac.spec.training.objective import Objective
from xlac.spec.training.rates import Rate
from xlac.spec.training.section import Training
from xlac.training.micro_batches.accumulate import MicroBatch
from xlac.training.modes import TrainingMode
from xlac.training.row_updates import by_rows, chosen
from xlac.training.scaling import all_finite, any_of, squares_finite, unscaled
from xlac.training.state import state_prefix
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

EPSILON = 1e-6  # added to the norm of gradients when clipping, as PyTorch does


@dataclass(frozen=True, eq=False)
class Counters:
    """The scalars that updates read: the number of steps done (in the dtype of the rates), the
    learning rates of this step, and its loss scale, f32.
    """

    step: Node
    rates: Mapping[Rate, Node]
    scale: Node | None = None


def gradients(
    mean: BatchMean, weights: Mapping[str, Node], scale: Node | None, apart: bool, place: Place
) -> tuple[BatchMean, list[dict[str, Node]]]:
    """A mean, as computed together with its gradients, and these by weight, times `scale`; with
    `apart` the gradients of each of the means that it is the sum of. Raises NoDerivativeError.
    """
    values = [mean.value, *(part.value for part in mean.parts)]
    linear = linearize(values, list(weights.values()))
    if linear.tangents[0] is None:
        problem = "the derivative of the loss by every weight that learns is 0"
        hint = "argmax, comparisons, round and stop_gradient let no gradient through"
        raise Fault("XL2045", problem, place.at("loss").span, hint)
    gradients_by_loss: list[dict[str, Node]] = []
    for number in range(1, len(values)) if apart and mean.parts else (0,):
        seed = build.constant(1.0, mean.value.type.dtype)
        if scale is not None:
            seed = build.cast(scale, mean.value.type.dtype)
        cotangents = [seed if n == number else None for n in range(len(values))]
        gradients_by_loss.append(dict(zip(weights, linear.transposed(cotangents), strict=True)))
    value, *more = linear.values
    parts = (replace(p, value=v) for p, v in zip(mean.parts, more, strict=True))
    return replace(mean, value=value, parts=tuple(parts)), gradients_by_loss


def clipped_gradients(
    gradients: Mapping[str, Node], clip: ClipSpec
) -> tuple[dict[str, Node], Node | None]:
    """Gradients clipped by value and by global norm; and, where the norm was computed, a flag that
    they are finite.
    """
    clipped, finite = dict(gradients), None
    if clip.value is not None:
        clipped = {name: _between(g, clip.value) for name, g in clipped.items()}
    if clip.norm is not None:
        scaled, finite = clipped_by_norm(list(clipped.values()), clip.norm)
        clipped = dict(zip(clipped, scaled, strict=True))
    return clipped, finite


class LossUpdate:
    """The update from one loss in a step. Earlier losses may have updated some of the state
    already; this one differentiates with respect to fresh parameters in place of those values,
    which are substituted at the end: derivatives must not reach into the earlier updates.
    """

    def __init__(
        self,
        objective: Objective,
        training: Training,
        nodes: Mapping[str, Node],
        mode: TrainingMode,
        before: Mapping[str, Node],
    ) -> None:
        """`nodes` are the state by name, `before` the next values that earlier losses gave it."""
        self.objective, self.training, self.mode = objective, training, mode
        self.weights = {name: nodes[name] for name in objective.learns}
        changed = [name for name in training.learns if name in before]
        types = {name: nodes[name].type for name in changed}
        stand_ins = {
            name: build.param(name, t.dtype, t.shape, "state") for name, t in types.items()
        }
        self.weights |= {name: node for name, node in stand_ins.items() if name in self.weights}
        self.stand_in_of = {nodes[name]: node for name, node in stand_ins.items()}
        self.value_of_stand_in = {node: before[name] for name, node in stand_ins.items()}
        self.following: dict[str, Node] = {}
        self.finite: list[Node] = []  # of the loss first
        self.counted: Node | None = None  # flag that a count is not 0, where the data decide it

    def compute(
        self,
        asked: list[Node],
        slots: Mapping[tuple[Objective, str], Mapping[str, Node]],
        counters: Counters,
        part: MicroBatch | None,
    ) -> dict[str, Node]:
        """The loss, and its count where the data decide it, by the names of their outputs; sets
        `following` and `finite`. `asked` are the nodes of both, `slots` the optimizers' state by
        objective and weight. With a micro-batch `part`, gradients are added to those before it; of
        a loss that has learned in an earlier pass they are the sums, and nothing is returned.
        """
        objective, mode = self.objective, self.mode
        scalars = mode.nodes(substituted(asked, self.stand_in_of))
        mean = objective.loss.over(iter(scalars))
        is_summed = part is not None and objective in part.learned
        if part is not None and is_summed:
            total, clipped, counted = part.summed(objective, mean)
        else:
            name, apart = objective.name, part is not None
            place = self.training.place.at(*(["losses", name] if name else []))
            mean, parts = gradients(mean, self.weights, counters.scale, apart, place)
            total, clipped = mean.value, parts[0]
            counted = any_of([_some(one.count) for one in mean.means])
            if part is not None:
                total, clipped, counted = part.accumulated(objective, mean, parts)
        if part is not None and not part.last and objective in part.learning:
            return self._added(mean, part)
        flags = [all_finite([total])]
        if counters.scale is not None:
            clipped = unscaled(clipped, counters.scale)
        if counters.scale is not None or self.training.finite:
            flags.append(squares_finite(list(clipped.values())))
        clipped, finite = self._clip(clipped)
        next_: dict[str, Node] = {}
        for name, gradient in clipped.items():
            optimizer, kept = objective.learns[name], slots[objective, name]
            rate = counters.rates[optimizer.rate]
            new = optimizer.update(
                self.training.elaboration(), self.weights[name], gradient, rate, counters.step, kept
            )
            old = {"w": self.weights[name], **kept}
            updated = by_rows([old[slot] for slot in new], list(new.values()))
            new = dict(zip(new, updated, strict=True))
            for flag in counted if len(self.training.objectives) > 1 else ():
                new = {slot: chosen(flag, one, old[slot]) for slot, one in new.items()}
            next_[name] = new.pop("w")
            next_ |= {f"{state_prefix(objective)}{slot}.{name}": n for slot, n in new.items()}
        flags += [finite] if finite is not None else []
        flags = [
            build.apply1("or", f, build.apply1("not", c)) for f in flags for c in counted
        ] or flags
        ends = [*mean.nodes(), *flags, *counted, *next_.values(), *mode.measured.values()]
        settled = iter(self._settled(ends))
        numbers = mean_outputs(objective.metric, mean, [next(settled) for _ in mean.nodes()])
        self.finite = [next(settled) for _ in flags]
        self.counted = next(settled) if counted else None
        self.following = {name: next(settled) for name in next_}
        mode.measured = {node: next(settled) for node in mode.measured}
        return {} if is_summed else numbers

    def _added(self, mean: BatchMean, part: MicroBatch) -> dict[str, Node]:
        """The loss of a micro-batch before the last by the names of its outputs, which only adds to
        the sums.
        """
        ends = [*mean.nodes(), *part.following.values(), *self.mode.measured.values()]
        settled = iter(self._settled(ends))
        nodes = [next(settled) for _ in mean.nodes()]
        part.following = {name: next(settled) for name in part.following}
        self.mode.measured = {node: next(settled) for node in self.mode.measured}
        return mean_outputs(self.objective.metric, mean, nodes)

    def _settled(self, nodes: list[Node]) -> list[Node]:
        """Nodes with the values of earlier updates in place of their stand-ins."""
        return substituted(nodes, self.value_of_stand_in) if self.value_of_stand_in else nodes

    def _clip(self, given: dict[str, Node]) -> tuple[dict[str, Node], Node | None]:
        """`clipped_gradients`, its nodes with the place of the section's `clip` as origin."""
        clipped_by_norm, finite = clipped_gradients(given, self.objective.clip)
        origin = Origin("train.clip", self.training.place.at("clip").span)
        *clipped, finite = with_origin(
            [*clipped_by_norm.values(), finite], origin, set(given.values())
        )
        return {
            name: one for name, one in zip(clipped_by_norm, clipped, strict=True) if one
        }, finite


def mean_outputs(name: str, mean: BatchMean, nodes: Sequence[Node]) -> dict[str, Node]:
    """The nodes of a mean, `mean.nodes()` rewritten, by output name; counts as f32."""
    outputs = zip(mean.names(name), nodes, strict=True)
    return {n: build.cast(one, DType.F32) if n.endswith(".count") else one for n, one in outputs}


def _some(count: Dim | Node) -> Node | None:
    """A flag that a count is not 0; None for a size, which never is."""
    return build.compare(count, "ne", 0) if isinstance(count, Node) else None


def clipped_by_norm(gradients: Sequence[Node], most: float) -> tuple[list[Node], Node]:
    """Gradients scaled so that their global L2 norm, computed in f32 or, if one of them is f64, in
    f64, is at most `most`, as torch.nn.utils.clip_grad_norm_; and whether the norm is finite.
    """
    wide = DType.F64 if any(g.type.dtype is DType.F64 for g in gradients) else DType.F32
    total: Node | None = None
    for gradient in gradients:
        compute = build.compute(gradient)
        part = build.cast(build.reduce(build.mul(compute, compute), "add"), wide)
        total = part if total is None else build.add(total, part)
    assert total is not None
    length = build.sqrt(total)
    share = build.minimum(build.div(most, build.add(length, EPSILON)), 1.0)
    clipped = [
        build.cast(
            build.mul(build.compute(g), build.cast(share, g.type.dtype.compute)), g.type.dtype
        )
        for g in gradients
    ]
    finite = build.compare(build.apply1("abs", length), "lt", float("inf"))
    return clipped, finite


def _between(gradient: Node, most: float) -> Node:
    return build.minimum(build.maximum(gradient, -most), most)
