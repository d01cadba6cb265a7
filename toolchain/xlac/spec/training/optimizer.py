"""Optimizers as specs declare them: their state for a weight, and its update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.spec.elaborate import type_text
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.entries import elaborate, entries_at
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Scope
from xlac.spec.report import Fault, Place, nearest
from xlac.spec.schema.document import Merged, SpecEntry
from xlac.spec.schema.training import OptimizerSpec, SlotSpec
from xlac.spec.training.needs import unmet
from xlac.spec.training.rates import Rate, built_in, computed, filled, rate_of
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, eq=False)
class Optimizer:
    """An optimizer with its hyperparameters. `place` is where the spec names it."""

    name: str
    entry: SpecEntry[OptimizerSpec]
    params: Mapping[str, Any]
    rate: Rate
    place: Place
    owner: Merged  # the spec that declares it
    group: str = ""  # the pattern of the weights that it is for, where it is not for all

    def _constants(self, weight: Type) -> Constants:
        """The constants that expressions of the declaration see, for a weight of a type."""
        own = {
            "shape": list(weight.shape),
            "rank": weight.rank,
            "epsilon": resolution(weight.dtype),
        }
        return Constants({**own, **self.params}, {})

    def check(self, name: str, weight: Type) -> None:
        """Raises Fault where the weight's type or the hyperparameters violate `needs`."""
        constants = self._constants(weight)
        wrong = unmet(self.entry.spec.needs, constants, self.params, self.entry.place, self.place)
        if wrong is None:
            return
        text, problem, place = wrong
        if not any(word in text for word in ("shape", "rank")):
            raise Fault("XL2048", problem, place.key if place is self.place else place.span)
        pattern = f"*.{name.rpartition('.')[2]}" if "." in name else name
        hint = f'another optimizer for it, such as groups: {{"{pattern}": {{adamw: {{lr: 1e-3}}}}}}'
        raise Fault("XL2048", f"{problem}, and {name!r} is {weight}", self.place.key, hint)

    def slots(self, weight: Type) -> dict[str, tuple[Type, float]]:
        """The optimizer state for a weight: types and initial values by name. Raises Fault."""
        slots: dict[str, tuple[Type, float]] = {}
        constants = self._constants(weight)
        for name, slot in self.entry.spec.state.items():
            at = self.entry.place.at("state", name)
            if not isinstance(slot, SlotSpec):
                slots[name] = weight, slot
            elif computed(slot.when, constants, at.at("when")):
                shape = computed(slot.shape, constants, at.at("shape"))
                if not isinstance(shape, list):
                    problem = f"the sizes of {name!r} are a list, and this is {shape!r}"
                    raise Fault("XL2006", problem, at.at("shape").span, "shape[:-1] + [1]")
                sizes = [type_text.size_value(size, at.at("shape")) for size in shape]
                slots[name] = weight.with_shape(tuple(sizes)), slot.init
        return slots

    def update(
        self,
        context: Elaboration,
        weight: Node,
        gradient: Node,
        rate: Node,
        step: Node,
        kept: Mapping[str, Node],
    ) -> dict[str, Node]:
        """The next values of the weight (`w`) and its state `kept`. Raises Fault, Poisoned."""
        spec, place = self.entry.spec, self.entry.place
        path = f"{weight.name}.{self.name}"
        wide = weight.type.dtype.compute
        scalars = {"lr": build.cast(rate, wide), "step": build.cast(step, wide)}
        values = {"w": build.cast(weight, wide), "g": build.cast(gradient, wide), **scalars}
        for name in spec.state:
            values[name] = (
                build.cast(kept[name], wide) if name in kept else build.constant(0.0, wide)
            )
        context = replace(context, blocks=self.owner.blocks, custom=self.owner.ops)
        constants = self._constants(weight.type)
        scope = Scope(context.root, constants, f"{path}.", values=dict(values))
        elaborate(context, scope, entries_at(spec.expr, place.at("expr")))
        if context.weights:
            problem = (
                f"optimizer {self.name!r} has weights of its own: {', '.join(context.weights)}"
            )
            raise Fault("XL2012", problem, place.at("expr").key, "what it keeps is its state")
        updated: dict[str, Node] = {}
        for name, old in {"w": weight, **kept}.items():
            if name not in spec.next:
                hint = f"next: {{{name}: …}}"
                raise Fault(
                    "XL2007",
                    f"optimizer {self.name!r} needs the next value of {name!r}",
                    place.at("next").key,
                    hint,
                )
            at, text = place.at("next", name), spec.next[name]
            node = as_node(
                context,
                expression(context, scope, text, f"{path}.{name}", at),
                text,
                f"{path}.{name}",
                at,
                values[name].type,
            )
            if node.shape != old.shape:
                raise Fault("XL2013", f"{name!r} is {old.type}, and becomes {node.type}", at.span)
            updated[name] = build.cast(node, old.type.dtype)
        for name in spec.next:
            if name != "w" and name not in spec.state:
                raise Fault(
                    "XL2002",
                    f"{name!r} is not kept",
                    place.at("next", name).key,
                    nearest(name, ["w", *spec.state]),
                )
        return updated


def resolution(dtype: DType) -> float:
    """The machine epsilon of a float type: the distance from 1 to the next number."""
    return {DType.F64: 2.0**-52, DType.F32: 2.0**-23, DType.F16: 2.0**-10, DType.BF16: 2.0**-7}[
        dtype
    ]


def optimizer(
    merged: Merged,
    name: str,
    given: Mapping[str, Any],
    constants: Constants,
    place: Place,
    group: str = "",
) -> Optimizer:
    """The optimizer that a spec names, its own or a built-in one. Raises Fault."""
    known = optimizers(merged)
    if name not in known:
        raise Fault("XL2001", f"unknown optimizer {name!r}", place.key, nearest(name, known))
    entry = known[name]
    owner = merged if name in merged.optimizers else built_in()
    params = filled(f"optimizer {name!r}", entry.spec.params, given, constants, place, ("lr",))
    asked = given.get("lr", entry.spec.params.get("lr"))
    at = place.at("lr") if "lr" in given else place
    if asked is None:
        raise Fault("XL2007", f"optimizer {name!r} needs 'lr'", place.key, "lr: 1e-3")
    return Optimizer(
        name, entry, params, rate_of(merged, asked, constants, at), place, owner, group
    )


def optimizers(merged: Merged) -> dict[str, SpecEntry[OptimizerSpec]]:
    """The optimizers that a spec may name: built-in ones and its own, which take precedence."""
    return {**built_in().optimizers, **merged.optimizers}


def replacement(merged: Merged, named: str, own: Mapping[str, Any]) -> str:
    """The optimizer that a group sets in place of the one `named`; "" where the group sets only
    hyperparameters.
    """
    if len(own) != 1:
        return ""
    ((key, given),) = own.items()
    known = optimizers(merged)
    taken = key == "lr" or (named in known and key in known[named].spec.params)
    return key if key in known and isinstance(given, dict) and not taken else ""
