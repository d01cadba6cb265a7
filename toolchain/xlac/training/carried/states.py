"""What a model carries from call to call by itself (`state` in its spec), while it is trained.

Steps, evaluations and calls of the model carry their own each: a validation neither sees nor
disturbs the sequence that is being learned. What steps carry is part of the training state; no
gradient goes through it to the step before (truncated backpropagation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.spec.report import Fault
from xlac.spec.training.section import Training

FOR_STEP, FOR_EVALUATE, FOR_RUN = "step", "evaluate", "run"


@dataclass(frozen=True, eq=False)
class CarriedStates:
    """The states of a model by name, in training. `ends` are the nodes of their next values, in the
    spec's graph, and `results` the outputs of that graph without those that are there for a state
    only. `nodes` maps the state that the spec's graph reads to the state tensor that a kind of call
    has in its place, by kind.
    """

    ends: Mapping[str, Node]
    results: Mapping[str, Node]
    nodes: Mapping[str, Mapping[Node, Node]]

    @staticmethod
    def of(
        model: Model,
        training: Training,
        kept: Callable[[str, Type], Node],
        transient: Callable[[str, Type], Node],
    ) -> CarriedStates:
        """What a model carries; `kept` and `transient` make a state tensor of a name and type that
        is part of checkpoints, or is not. Raises Fault for what steps cannot carry.
        """
        held = [node for node in training.graph.inputs if param(node).name in model.state]
        for node in held:
            _check(node, training)
        after = {param(node).name: model.state[param(node).name] for node in held}
        outputs = training.graph.outputs
        ends = {name: outputs[output] for name, output in after.items()}
        hidden = {output for name, output in after.items() if output == f"{name}.next"}
        results = {name: node for name, node in outputs.items() if name not in hidden}
        nodes = {FOR_STEP: {node: kept(param(node).name, node.type) for node in held}}
        for kind in (FOR_EVALUATE, FOR_RUN):
            nodes[kind] = {n: transient(f"{kind}.{param(n).name}", n.type) for n in held}
        return CarriedStates(ends, results, nodes)

    def names(self, kind: str) -> dict[str, str]:
        """The names of the state tensors of a kind of call, by the model's names."""
        return {param(node).name: param(own).name for node, own in self.nodes[kind].items()}

    def following(self, kind: str, on_state: Mapping[Node, Node]) -> dict[str, Node]:
        """The next values of a kind of call, by state tensor; `on_state` maps nodes of the spec's
        graph to those of the call's.
        """
        return {own: on_state[self.ends[name]] for name, own in self.names(kind).items()}


def _check(node: Node, training: Training) -> None:
    """Raises Fault for a state that steps cannot carry."""
    span = node.origin.span if node.origin else training.place.key
    name = param(node).name
    if not all(isinstance(size, int) for size in node.shape):
        problem = f"state {name!r} is {node.type}: steps carry it, so its sizes have to be given"
        size = next(str(size) for size in node.shape if not isinstance(size, int))
        raise Fault("XL2057", problem, span, f"--dim {size}=16, and --drop-last")
    if training.accumulate > 1:
        problem = f"state {name!r} is carried from step to step, which micro-batches divide"
        raise Fault("XL2057", problem, span, "leave accumulate out")
