"""The training state: weights, the optimizers' state for each, averages, counters, and the sums of
micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.lazy_arrays import LazyArrays
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.spec.report import Fault
from xlac.spec.training.ema import PREFIX
from xlac.spec.training.objective import Objective
from xlac.spec.training.rates import Rate
from xlac.spec.training.section import Training, scalar_type
from xlac.training.carried.states import CarriedStates
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

STEP, LENGTH = "optimizer.step", "optimizer.steps"
SCALE, GROWN = "optimizer.loss_scale", "optimizer.loss_scale.steps"


@dataclass(frozen=True, eq=False)
class StateTensor:
    """A tensor of the training state, and a function that makes its initial value. The value of a
    `transient` one means nothing between steps.
    """

    name: str
    type: Type
    initial: Callable[[], Array]
    learns: bool = False  # a weight
    transient: bool = False


class TrainingState:
    """The state tensors of a section `train` and their nodes, in one order for all programs.
    `measured` names the weights that are running statistics (batch_norm). Raises Fault for a weight
    with the name of another state tensor.
    """

    def __init__(self, model: Model, training: Training, measured: Sequence[str]) -> None:
        self.model, self.training = model, training
        self.wide = scalar_type(training)
        self.tensors: dict[str, StateTensor] = {}
        self.nodes: dict[str, Node] = {}
        self.params: dict[Node, Node] = {}  # weights that learn, as state
        self.slots: dict[tuple[Objective, str], dict[str, Node]] = {}
        self.rates: dict[str, dict[str, Rate]] = {}
        self._add_weights(measured)
        self._add_optimizer_slots()
        self.averages: dict[str, Node] = {}  # by the name of the weight
        if training.ema is not None:
            self._add_averages()
        self._add_counters()
        self.carried = CarriedStates.of(model, training, self._zeros, self.transient)

    def _add_weights(self, measured: Sequence[str]) -> None:
        training = self.training
        for name in (*training.learns, *measured):
            weight = training.weights[name]
            first = training.initial.get(name) or self._model_weight(name)
            self.params[weight] = self._add(name, weight.type, first, True, weight.origin)

    def _add_optimizer_slots(self) -> None:
        """Adds the optimizers' state for each weight, such as momentum."""
        for objective in self.training.objectives:
            for name, optimizer in objective.learns.items():
                slots = optimizer.slots(self.training.weights[name].type)
                prefix = state_prefix(objective)
                self.slots[objective, name] = {
                    slot: self._add(f"{prefix}{slot}.{name}", type, _filled(type, value))
                    for slot, (type, value) in slots.items()
                }

    def _add_averages(self) -> None:
        """Adds averages of the weights, in their compute type; they begin equal to the weights."""
        for name, tensor in list(self.tensors.items()):
            if tensor.learns:
                type = Type(tensor.type.dtype.compute, tensor.type.shape)
                self.averages[name] = self._add(f"{PREFIX}{name}", type, _converted(tensor, type))

    def averaged(self) -> dict[Node, Node]:
        """The averages by the node of the weight that they replace, cast to its type."""
        weights = self.training.weights
        return {
            weights[name]: build.cast(average, weights[name].type.dtype)
            for name, average in self.averages.items()
        }

    def next_averages(self, following: Mapping[str, Node], step: Node) -> dict[str, Node]:
        """The next values of the averages by name, from the next values of the weights. `step` is
        the number of steps done, a float scalar.
        """
        ema, nodes = self.training.ema, self.nodes
        if ema is None:
            return {}
        share = ema.share(self.training.elaboration(), step)
        return {
            f"{PREFIX}{name}": ema.following(
                old, following.get(name, nodes[name]), share, nodes[STEP]
            )
            for name, old in self.averages.items()
        }

    def _add_counters(self) -> None:
        """Adds the counter of steps, the run's length, learning rates and the loss scale."""
        training, scalar = self.training, Type(self.wide)
        self._add(STEP, Type(DType.I64), _filled(Type(DType.I64), 0))
        optimizers = [o for objective in training.objectives for o in objective.learns.values()]
        if any(optimizer.rate.covers_run for optimizer in optimizers):
            self._add(LENGTH, scalar, _filled(scalar, 0.0))
        if training.scale is not None and training.scale.dynamic:
            type = Type(DType.F32)
            self._add(SCALE, type, _filled(type, training.scale.initial))
            self._add(GROWN, Type(DType.I64), _filled(Type(DType.I64), 0))
        for objective in training.objectives:
            rates = self.rates[objective.name] = dict[str, Rate]()
            for optimizer in sorted(objective.learns.values(), key=lambda one: bool(one.group)):
                if optimizer.rate not in rates.values():
                    name = f"{state_prefix(objective)}lr{f'.{len(rates)}' if rates else ''}"
                    rates[name] = optimizer.rate
                    self._add(name, scalar, _filled(scalar, optimizer.rate.base))

    def _zeros(self, name: str, type: Type) -> Node:
        return self._add(name, type, _filled(type, 0))

    def transient(self, name: str, type: Type) -> Node:
        """Adds a transient tensor, initially zero. Raises Fault for a name that a weight has."""
        self._check_name(name)
        self.tensors[name] = StateTensor(name, type, _filled(type, 0), transient=True)
        self.nodes[name] = build.param(name, type.dtype, type.shape, "state")
        return self.nodes[name]

    def _model_weight(self, name: str) -> Callable[[], Array]:
        """Reads a weight of the model. It is copied into the state, so it is not cached as well."""
        weights = self.model.weights
        if isinstance(weights, LazyArrays):
            return lambda: np.asarray(weights.read_once(name))
        return lambda: np.asarray(weights[name])

    def _add(
        self,
        name: str,
        type: Type,
        initial: Callable[[], Array],
        learns: bool = False,
        origin: Origin | None = None,
    ) -> Node:
        if not learns:
            self._check_name(name)
        self.tensors[name] = StateTensor(name, type, initial, learns)
        self.nodes[name] = build.param(name, type.dtype, type.shape, "state", origin)
        return self.nodes[name]

    def _check_name(self, name: str) -> None:
        """Raises Fault where a weight of the model has this name."""
        weight = self.training.weights.get(name)
        if weight is not None:
            span = weight.origin.span if weight.origin else self.training.place.key
            problem = (
                f"{name!r} is a weight of the model, "
                "and what training keeps beside its weights is called so"
            )
            raise Fault("XL1021", problem, span, f"another name than {name.partition('.')[0]!r}")


def state_prefix(objective: Objective) -> str:
    """The prefix of the names of state tensors that belong to one objective."""
    return f"optimizer.{objective.name}." if objective.name else "optimizer."


def _converted(tensor: StateTensor, type: Type) -> Callable[[], Array]:
    return lambda: np.asarray(tensor.initial()).astype(type.dtype.numpy)


def _filled(type: Type, value: float) -> Callable[[], Array]:
    return lambda: np.full(tuple(int(n) for n in type.shape), value).astype(type.dtype.numpy)  # type: ignore[arg-type]
