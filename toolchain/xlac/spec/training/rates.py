"""Learning rates: schedules by name, or expressions of the step; parameters that are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Scope
from xlac.spec.report import Fault, Place, Report, nearest
from xlac.spec.schema.document import Merged, SpecEntry, read_document
from xlac.spec.schema.fields import LARGEST
from xlac.spec.schema.training import RateSpec
from xlac.spec.training.needs import FIRST, check_steps, finite, unmet


@cache
def built_in() -> Merged:
    """The built-in optimizers and schedules."""
    report = Report()
    document = read_document(Path(__file__).with_name("optimizers.yaml"), report)
    report.finish()
    assert document is not None
    return document


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
            rate_at = lambda step: self.factor(context, step, build.like(1000.0, step))
            check_steps(
                rate_at,
                FIRST,
                LARGEST,
                problem,
                self.place,
                "max(…, 0.0); step counts the steps before",
            )

    def factor(self, context: Elaboration, step: Node, steps: Node) -> Node:
        """The factor after `step` of the run's `steps`, in their dtype. Raises Fault, or
        Poisoned.
        """
        values = {"step": step, "steps": steps}
        text, place = self.text, self.place
        if self.entry is not None:
            text, place = self.entry.spec.factor, self.entry.place.at("factor")
        scope = Scope(context.root, Constants(self.params, {}), "rate.", values=dict(values))
        node = as_node(
            context, expression(context, scope, text, "rate", place), text, "rate", place, step.type
        )
        if node.shape:
            raise Fault("XL2009", f"a rate is a scalar, and this is {node.type}", place.span)
        return build.cast(node, step.type.dtype)


def computed(text: Any, constants: Constants, place: Place) -> Any:
    """The value of an expression over hyperparameters, or of each element of a list. Raises
    Fault.
    """
    if isinstance(text, list):
        return [computed(part, constants, place.at(i)) for i, part in enumerate(text)]
    if not isinstance(text, str):
        return text
    return arithmetic.compute(arithmetic.parsed(text, place), constants, place)


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
            raise Fault(
                "XL1012", f"{key!r} of {owner} is {kind}, found {value!r}", place.at(key).span
            )
        if not finite(value):
            problem = f"{key!r} of {owner} is {value!r}, which is not a finite number of f32"
            raise Fault("XL1012", problem, place.at(key).span)
        params[key] = value
    return params


_KINDS = {
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    list: "a list",
    str: "text",
}


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
            raise Fault(
                "XL1012",
                "a rate is one schedule with its parameters",
                place.span,
                "lr: {cosine: {peak: 1e-3}}",
            )
        ((name, given),) = asked.items()
        at = place.at(name)
        if name not in known:
            raise Fault("XL2001", f"unknown schedule {name!r}", at.key, nearest(name, known))
        if not isinstance(given, dict):
            given, at = {next(iter(known[name].spec.params)): given}, place
        entry = known[name]
        params = filled(f"schedule {name!r}", entry.spec.params, given, constants, at)
        for key, default in entry.spec.params.items():
            if default is None and (
                isinstance(params[key], bool) or not isinstance(params[key], int | float)
            ):
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
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise Fault(
            "XL1012", f"a learning rate is a number of at least 0, found {value!r}", place.span
        )
    return float(value)
