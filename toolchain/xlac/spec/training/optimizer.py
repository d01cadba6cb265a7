"""Optimizers as specs declare them: their state for a weight, and its update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.spec.elaborate import arithmetic, type_text
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.entries import elaborate, entries_at
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Scope
from xlac.spec.report import Fault, Place, Report, nearest
from xlac.spec.schema.document import Merged, SpecEntry, read_document
from xlac.spec.schema.fields import LARGEST
from xlac.spec.schema.training import OptimizerSpec, RateSpec, SlotSpec
from xlac.spec.training.needs import FIRST, check_steps, finite, unmet
from xlac_sdk.dtypes import DType


@cache
def built_in() -> Merged:
    """The built-in optimizers and schedules."""
    report = Report()
    found = read_document(Path(__file__).with_name("optimizers.yaml"), report)
    report.finish()
    assert found is not None
    return found


@dataclass(frozen=True, eq=False)
class Rate:
    """A learning rate: `base`, which callers may set between steps, times a factor of `step`."""

    base: float
    entry: SpecEntry[RateSpec] | None  # none: the factor is an expression of the user's
    params: Mapping[str, Any]
    text: Any
    place: Place

    @property
    def covers_run(self) -> bool:
        """Whether the schedule spans the whole run, so that it depends on the number of steps."""
        return self.entry is not None and self.params.get("steps") == 0

    def check(self, context: Elaboration) -> None:
        """Checks that an expression is >= 0 at the first steps. Raises Fault, or Poisoned."""
        if self.entry is None:
            problem = "a learning rate is a number of at least 0"
            made = lambda step: self.factor(context, step, build.like(1000.0, step))
            check_steps(made, FIRST, LARGEST, problem, self.place, "max(…, 0.0); step counts the steps before")  # fmt: skip

    def factor(self, context: Elaboration, step: Node, steps: Node) -> Node:
        """The factor after `step` of the run's `steps`, in their dtype. Raises Fault, or Poisoned."""
        values = {"step": step, "steps": steps}
        text, place = self.text, self.place
        if self.entry is not None:
            text, place = self.entry.spec.factor, self.entry.place.at("factor")
        scope = Scope(context.root, Constants(self.params, {}), "rate.", values=dict(values))
        node = as_node(context, expression(context, scope, text, "rate", place), text, "rate", place, step.type)  # fmt: skip
        if node.shape:
            raise Fault("XL2009", f"a rate is a scalar, and this is {node.type}", place.span)
        return build.cast(node, step.type.dtype)


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
        found: dict[str, tuple[Type, float]] = {}
        constants = self._constants(weight)
        for name, slot in self.entry.spec.state.items():
            at = self.entry.place.at("state", name)
            if not isinstance(slot, SlotSpec):
                found[name] = weight, slot
            elif computed(slot.when, constants, at.at("when")):
                shape = computed(slot.shape, constants, at.at("shape"))
                if not isinstance(shape, list):
                    problem = f"the sizes of {name!r} are a list, and this is {shape!r}"
                    raise Fault("XL2006", problem, at.at("shape").span, "shape[:-1] + [1]")
                sizes = [type_text.size_value(size, at.at("shape")) for size in shape]
                found[name] = weight.with_shape(tuple(sizes)), slot.init
        return found

    def update(
        self, context: Elaboration, weight: Node, gradient: Node, rate: Node, step: Node, kept: Mapping[str, Node]
    ) -> dict[str, Node]:  # fmt: skip
        """The next values of the weight (`w`) and of its state `kept`. Raises Fault, or Poisoned."""
        spec, place = self.entry.spec, self.entry.place
        path = f"{weight.name}.{self.name}"
        wide = weight.type.dtype.compute
        scalars = {"lr": build.cast(rate, wide), "step": build.cast(step, wide)}
        values = {"w": build.cast(weight, wide), "g": build.cast(gradient, wide), **scalars}
        for name in spec.state:
            values[name] = build.cast(kept[name], wide) if name in kept else build.constant(0.0, wide)  # fmt: skip
        context = replace(context, blocks=self.owner.blocks, custom=self.owner.ops)
        constants = self._constants(weight.type)
        scope = Scope(context.root, constants, f"{path}.", values=dict(values))
        elaborate(context, scope, entries_at(spec.expr, place.at("expr")))
        if context.weights:
            problem = (
                f"optimizer {self.name!r} has weights of its own: {', '.join(context.weights)}"
            )
            raise Fault("XL2012", problem, place.at("expr").key, "what it keeps is its state")
        found: dict[str, Node] = {}
        for name, old in {"w": weight, **kept}.items():
            if name not in spec.next:
                hint = f"next: {{{name}: …}}"
                raise Fault("XL2007", f"optimizer {self.name!r} needs the next value of {name!r}", place.at("next").key, hint)  # fmt: skip
            at, text = place.at("next", name), spec.next[name]
            node = as_node(context, expression(context, scope, text, f"{path}.{name}", at), text, f"{path}.{name}", at, values[name].type)  # fmt: skip
            if node.shape != old.shape:
                raise Fault("XL2013", f"{name!r} is {old.type}, and becomes {node.type}", at.span)
            found[name] = build.cast(node, old.type.dtype)
        for name in spec.next:
            if name != "w" and name not in spec.state:
                raise Fault("XL2002", f"{name!r} is not kept", place.at("next", name).key, nearest(name, ["w", *spec.state]))  # fmt: skip
        return found


def resolution(dtype: DType) -> float:
    """The machine epsilon of a float type: the distance from 1 to the next number."""
    return {DType.F64: 2.0**-52, DType.F32: 2.0**-23, DType.F16: 2.0**-10, DType.BF16: 2.0**-7}[dtype]  # fmt: skip


def computed(text: Any, constants: Constants, place: Place) -> Any:
    """The value of an expression over hyperparameters, or of each element of a list. Raises Fault."""
    if isinstance(text, list):
        return [computed(part, constants, place.at(i)) for i, part in enumerate(text)]
    if not isinstance(text, str):
        return text
    return arithmetic.compute(arithmetic.parsed(text, place), constants, place)


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


def filled(
    owner: str,
    defaults: Mapping[str, Any],
    given: Mapping[str, Any],
    constants: Constants,
    place: Place,
    apart: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Hyperparameters with their defaults, without those in `apart`. Raises Fault for unknown,
    missing and wrong ones; `owner` names the declaration in messages.
    """
    params: dict[str, Any] = {}
    for key in given:
        if key not in defaults and key not in apart:
            hint = nearest(key, [*defaults, *apart])
            raise Fault("XL2005", f"unknown key {key!r} for {owner}", place.at(key).key, hint)
    for key, default in defaults.items():
        if key in apart:
            continue
        value = arithmetic.value(given[key], constants, place.at(key)) if key in given else default
        if value is None:
            raise Fault("XL2007", f"{owner} needs {key!r}", place.key)
        if not _same_kind(value, default):
            kind = _KINDS[type(default)]
            if isinstance(default, list):
                kind = f"a list of {len(default)} numbers"
            raise Fault("XL1012", f"{key!r} of {owner} is {kind}, found {value!r}", place.at(key).span)  # fmt: skip
        if not finite(value):
            problem = f"{key!r} of {owner} is {value!r}, which is no finite number of f32"
            raise Fault("XL1012", problem, place.at(key).span)
        params[key] = value
    return params


_KINDS = {bool: "true or false", float: "a number", int: "a whole number", list: "a list", str: "text"}  # fmt: skip


def _same_kind(value: Any, default: Any) -> bool:
    """Whether a value has the type of the default (any, if that is None): an integer passes for a
    float, and a list has the default's length.
    """
    if isinstance(default, list) and default:
        if not isinstance(value, list) or len(value) != len(default):
            return False
        return all(_same_kind(*pair) for pair in zip(value, default, strict=True))
    if default is None or type(value) is type(default):
        return True
    return isinstance(default, float) and type(value) is int


def rate_of(merged: Merged, asked: Any, constants: Constants, place: Place) -> Rate:
    """Reads a number, an expression of `step`, or a schedule with parameters. Raises Fault."""
    known = {**built_in().rates, **merged.rates}
    if isinstance(asked, dict):
        if len(asked) != 1:
            raise Fault("XL1012", "a rate is one schedule with its parameters", place.span, "lr: {cosine: {peak: 1e-3}}")  # fmt: skip
        ((name, given),) = asked.items()
        at = place.at(name)
        if name not in known:
            raise Fault("XL2001", f"unknown schedule {name!r}", at.key, nearest(name, known))
        if not isinstance(given, dict):
            given, at = {next(iter(known[name].spec.params)): given}, place
        entry = known[name]
        params = filled(f"schedule {name!r}", entry.spec.params, given, constants, at)
        for key, default in entry.spec.params.items():
            if default is None and (isinstance(params[key], bool) or not isinstance(params[key], int | float)):  # fmt: skip
                problem = f"{key!r} of schedule {name!r} is a number, found {params[key]!r}"
                raise Fault("XL1012", problem, at.at(key).span)
        first = next(iter(params))
        base = positive(params[first], at.at(first))
        wrong = unmet(entry.spec.needs, Constants(params, {}), params, entry.place, at)
        if wrong is not None:
            raise Fault("XL2048", wrong[1], wrong[2].span)
        return Rate(base, entry, params, None, at)
    value = arithmetic.value(asked, constants, place)
    if isinstance(value, str):
        return Rate(1.0, None, dict(constants.params), value, place)
    return Rate(positive(value, place), known["constant"], {"value": value}, None, place)


def positive(value: Any, place: Place) -> float:
    """A learning rate as a float. Raises Fault for anything but a finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:  # fmt: skip
        raise Fault("XL1012", f"a learning rate is a number of at least 0, found {value!r}", place.span)  # fmt: skip
    return float(value)
