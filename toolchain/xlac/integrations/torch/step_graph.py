"""The graph of a PyTorch training step: the loss, its gradients, and the next value of each tensor
of the state, which consists of PyTorch's own tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import linearize
from xlac.autodiff.reverse import pull_back
from xlac.frontends.torch.exported import Exported
from xlac.frontends.torch.fx_nodes import dtype_of
from xlac.frontends.torch.layout import order
from xlac.integrations.torch.optimizers import GroupOptimizer, elaboration, refuse
from xlac.ir.graph import Graph, Node, zeros
from xlac.ir.permutations import Perm, inverse
from xlac.model import Model
from xlac.ops import build
from xlac.ops.tensor.leaf import param
from xlac.ops.walks import substituted
from xlac.training.mixed import MixedPrecision
from xlac.training.row_updates import chosen
from xlac.training.scaling import all_finite, together
from xlac.training.step import FINITE
from xlac.training.update import clipped_by_norm
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, Origin, UnsupportedError

LOSS, RATES = "loss", "rates"


@dataclass(frozen=True, eq=False)
class LearnedParameter:
    """A parameter that learns: its optimizer, and the number of its pair (learning rate, number of
    steps) in the input `rates`, whose last element is the share of a micro-batch in its step.
    """

    tensor: torch.Tensor
    group: GroupOptimizer
    pair: int


@dataclass(frozen=True, eq=False)
class SharedTensor:
    """A tensor of PyTorch that is part of the state: a parameter or buffer, or with `slot` the
    optimizer state of that name for the parameter `tensor`.
    """

    name: str
    tensor: torch.Tensor
    perm: Perm | None  # the order of its axes in memory
    slot: str = ""
    alike: torch.Tensor | None = None  # a tensor of its type, where that is not the parameter's

    @property
    def example(self) -> torch.Tensor:
        """A tensor of its dtype, shape and device."""
        return self.tensor if self.alike is None else self.alike


@dataclass(frozen=True, eq=False)
class StepGraph:
    """The model of a step, the tensors of its state, and the parameters that learn."""

    model: Model
    state: tuple[SharedTensor, ...]
    learns: tuple[LearnedParameter, ...]


@dataclass(eq=False)
class GradientSums:
    """The sums of gradients over micro-batches, by parameter, in tensors of their own. `last`: the
    update is made, from the sums and the present micro-batch.
    """

    last: bool
    tensors: dict[torch.Tensor, torch.Tensor]

    def of(self, p: torch.Tensor) -> torch.Tensor:
        """The sum of a parameter."""
        if p not in self.tensors:
            self.tensors[p] = torch.zeros_like(p.detach(), memory_format=torch.preserve_format)
        return self.tensors[p]


class StepBuilder:
    """Builds the graph of a step from the exported loss. `owned` are the module's tensors by name,
    `learns` the parameters of the optimizer, `clip` the bound of the gradients' global norm,
    `compute` the type of products, `sums` what the gradients of several micro-batches are added to.
    The next values are the present ones where the loss is not finite, or its gradients are not and
    are `checked`, as with `clip`.
    """

    def __init__(
        self,
        exported: Exported,
        owned: Mapping[str, torch.Tensor],
        learns: Sequence[LearnedParameter],
        clip: float | None,
        compute: DType = DType.F32,
        sums: GradientSums | None = None,
        checked: bool = False,
    ) -> None:
        self.exported, self.owned, self.clip = exported, owned, clip
        self.compute, self.sums, self.checked = compute, sums, checked
        self.learns = {id(p.tensor): p for p in learns}
        self.state: list[SharedTensor] = []
        self.leaves: dict[str, Node] = {}  # state as it lies in memory
        self.views: dict[int, Node] = {}  # tensor -> state with its axes in order
        self.present: dict[SharedTensor, Node] = {}  # the same for all of the state
        self.finite: list[Node] = []  # flags that the loss and its gradients are
        self.pairs = max((p.pair for p in learns), default=-1) + 1

    def graph(self) -> StepGraph:
        """Builds the graph. Raises UnsupportedError where there is no derivative, and SourceError
        for a loss that depends on no parameter of the optimizer.
        """
        model = self.exported.model
        known: dict[Node, Node] = {}
        for node in model.graph.order:
            if node.op.mnemonic == "param" and param(node).name in self.owned:
                known[node] = self._state_node(param(node).name)
        named = model.graph.outputs
        roots = substituted(list(named.values()), known)
        if self.compute is not DType.F32:
            roots = MixedPrecision(self.compute).nodes(roots)
        moved = dict(zip(named, roots, strict=True))
        loss = moved.pop(str(self.exported.outputs[0]))
        following = {
            self._state_of(self.owned[target]): moved[output]
            for target, output in self.exported.buffers.items()
        }
        loss, updates, learned = self._learn(loss, list(following.values()))
        following.update(updates)
        return self._finished(loss, following, learned)

    # ---- state -------------------------------------------------------------------------------

    def _state_node(self, name: str) -> Node:
        """The node of a parameter or buffer; names of the same tensor share one."""
        tensor = self.owned[name]
        if id(tensor) not in self.views:
            self.views[id(tensor)] = self._add_state(name.removeprefix("model."), tensor)
        return self.views[id(tensor)]

    def _add_state(
        self, name: str, tensor: torch.Tensor, slot: str = "", alike: torch.Tensor | None = None
    ) -> Node:
        typed = tensor if alike is None else alike
        perm, dtype = order(typed), dtype_of(typed)
        shape = tuple(typed.shape if perm is None else (typed.shape[a] for a in perm))
        self.state.append(SharedTensor(name, tensor, perm, slot, alike))
        leaf = self.leaves[name] = build.param(name, dtype, shape, "state", Origin(name))
        view = leaf if perm is None else build.transpose(leaf, inverse(perm))
        self.present[self.state[-1]] = view
        return view

    def _state_of(self, tensor: torch.Tensor) -> SharedTensor:
        return next(s for s in self.state if s.tensor is tensor and not s.slot)

    # ---- learning ----------------------------------------------------------------------------

    def _learn(
        self, loss: Node, beside: Sequence[Node]
    ) -> tuple[Node, dict[SharedTensor, Node], list[LearnedParameter]]:
        """The loss, the next values of parameters and optimizer state, and the parameters that
        learn: those that the loss depends on.
        """
        asked = [p for key, p in self.learns.items() if key in self.views]
        try:
            linear = linearize([loss], [self.views[id(p.tensor)] for p in asked])
            one = build.constant(1.0, loss.type.dtype)
            change = linear.tangents[0]
            gradients = (
                [None] * len(asked)
                if change is None
                else pull_back([change], [one], linear.sources)
            )
        except NoDerivativeError as error:
            span = error.node.origin.span if error.node.origin else None
            raise UnsupportedError(Diagnostic("XL2042", str(error), span, error.hint)) from None
        pairs = [(p, g) for p, g in zip(asked, gradients, strict=True) if g is not None]
        if not pairs:
            hint = "look for requires_grad=False, torch.no_grad and detach"
            raise refuse("the loss depends on no parameter of the optimizer", hint)
        self.rates = build.param(RATES, DType.F64, (2 * self.pairs + 1,), origin=Origin(RATES))
        self.finite.append(all_finite([linear.values[0]]))
        if self.checked:
            self.finite.append(all_finite([gradient for _, gradient in pairs]))
        updates: dict[SharedTensor, Node] = {}
        if self.sums is not None:
            pairs = [(p, self._summed(p, g, updates)) for p, g in pairs]
            if not self.sums.last:
                return linear.values[0], updates, []
        if self.clip is not None:
            clipped, finite = clipped_by_norm([gradient for _, gradient in pairs], self.clip)
            pairs = [(p, gradient) for (p, _), gradient in zip(pairs, clipped, strict=True)]
            self.finite.append(finite)
        context = elaboration()
        for learned, gradient in pairs:
            updates.update(self._update(context, learned, gradient))
        return linear.values[0], updates, [p for p, _ in pairs]

    def _update(
        self, context: object, learned: LearnedParameter, gradient: Node
    ) -> dict[SharedTensor, Node]:
        """The next values of a parameter and of the optimizer state for it."""
        weight, group = self.views[id(learned.tensor)], learned.group
        name = self._state_of(learned.tensor).name
        kept, places = {}, {}
        for one in group.kept(learned.tensor):
            alike, place = one.alike(learned.tensor), f"optimizer.{one.name}.{name}"
            kept[one.slot] = self._add_state(place, learned.tensor, one.name, alike)
            places[one.slot] = self.state[-1]
        rate, steps = (self._rate_element(2 * learned.pair + n) for n in (0, 1))
        if group.maximize:
            gradient = build.apply1("neg", gradient)
        updates = group.optimizer.update(context, weight, gradient, rate, steps, kept)  # type: ignore[arg-type]
        slots = {places[slot]: node for slot, node in updates.items() if slot != "w"}
        return {self._state_of(learned.tensor): updates["w"], **slots}

    def _summed(
        self, learned: LearnedParameter, gradient: Node, updates: dict[SharedTensor, Node]
    ) -> Node:
        """The gradient with those of the micro-batches before it, each times its share."""
        assert self.sums is not None
        name = self._state_of(learned.tensor).name
        share = build.cast(self._rate_element(2 * self.pairs), gradient.type.dtype)
        before = self._add_state(f"gradient.{name}", self.sums.of(learned.tensor))
        added = build.add(before, build.mul(gradient, share))
        updates[self.state[-1]] = zeros(added.type) if self.sums.last else added
        return added

    def _rate_element(self, at: int) -> Node:
        return build.reshape(build.cut(self.rates, 0, at, at + 1), ())

    def _finished(
        self,
        loss: Node,
        following: Mapping[SharedTensor, Node],
        learned: Sequence[LearnedParameter],
    ) -> StepGraph:
        model = self.exported.model
        finite = together(self.finite)
        outputs = {LOSS: loss, FINITE: finite}
        for kept, next_ in following.items():
            node = chosen(finite, next_, self.present[kept])
            outputs[f"{kept.name}.next"] = (
                node if kept.perm is None else build.transpose(node, kept.perm)
            )
        inputs = [n for n in model.graph.inputs if param(n).name not in self.owned]
        graph = Graph("step", (*inputs, self.rates, *self.leaves.values()), outputs)
        weights = {n: w for n, w in model.weights.items() if n not in self.owned}
        state = {kept.name: f"{kept.name}.next" for kept in following}
        step_model = replace(model, graph=graph, weights=weights, state=state)
        return StepGraph(step_model, tuple(self.state), tuple(learned))


__all__ = ["LOSS", "RATES", "LearnedParameter", "SharedTensor", "StepBuilder", "StepGraph"]
