"""Exponential moving averages of weights: `train: {ema: …}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.evaluate import as_node, expression
from xlac.spec.elaborate.scope import Scope
from xlac.spec.report import Fault, Place, Poisoned
from xlac.spec.schema.training import EmaSpec
from xlac.spec.training.needs import ANY, check_steps
from xlac_sdk.dtypes import DType

PREFIX = "ema."
"""The prefix of the names of averages, before the weight's name."""


@dataclass(frozen=True, eq=False)
class ExponentialAverage:
    """An exponential moving average of every weight that learns or is a running statistic."""

    decay: float | str  # a number, or an expression of `step`
    spec: EmaSpec
    constants: Constants
    place: Place

    def share(self, context: Elaboration, step: Node) -> Node:
        """1 - decay: the share of the weight in its average after a step; a scalar of the dtype of
        `step`, the number of steps done. Raises Fault, or Poisoned.
        """
        before = build.maximum(build.sub(step, float(self.spec.after)), 0.0)
        decay: Node = (
            build.like(self.decay, step)
            if isinstance(self.decay, float)
            else self._computed(context, step)
        )
        if self.spec.warmup:
            decay = build.minimum(decay, build.div(build.add(before, 1.0), build.add(before, 10.0)))
        return build.sub(1.0, decay)

    def _computed(self, context: Elaboration, step: Node) -> Node:
        scope = Scope(context.root, self.constants, "ema.", values={"step": step})
        text, at = self.decay, self.place.at("decay")
        value = expression(context, scope, text, "ema", at)
        if isinstance(value, int | float):
            _check_decay(value, at)
        node = as_node(context, value, text, "ema", at, step.type)
        if node.shape:
            raise Fault("XL2009", f"a decay is a scalar, and this is {node.type}", at.span)
        return build.cast(node, step.type.dtype)

    def check(self, context: Elaboration) -> None:
        """Checks that a decay given as an expression is in 0..1 at every step. Raises Fault, or
        Poisoned.
        """
        if isinstance(self.decay, str):
            problem = "a decay is from 0 to 1"
            hint = "decay: min((1 + step) / (10 + step), 0.999)"
            check_steps(
                lambda step: self._computed(context, step),
                ANY,
                1.0,
                problem,
                self.place.at("decay"),
                hint,
            )

    def following(self, average: Node, weight: Node, share: Node, count: Node) -> Node:
        """The next value of an average, given the next value of the weight; `count` is the number
        of steps done, i64.
        """
        new = build.cast(weight, average.type.dtype)
        moved = build.mul(build.sub(new, average), build.cast(share, average.type.dtype))
        following = build.add(average, moved)
        done = build.add(count, 1)
        if self.spec.after:
            following = build.select(build.compare(done, "le", self.spec.after), new, following)
        if self.spec.every > 1:
            turn = build.compare(build.apply1("rem", done, self.spec.every), "eq", 0)
            following = build.select(turn, following, average)
        return following


def _check_decay(decay: Any, at: Place) -> None:
    """Raises Fault unless a decay is a number in 0 <= decay < 1."""
    if isinstance(decay, bool) or not isinstance(decay, int | float) or not 0 <= decay < 1:
        problem = f"a decay is at least 0 and less than 1, and this is {decay}"
        raise Fault("XL1012", problem, at.span, "ema: {decay: 0.999}")


def read_average(
    spec: EmaSpec, context: Elaboration, constants: Constants, place: Place
) -> ExponentialAverage | None:
    """Reads `ema`. Mistakes go to the report, and give None."""
    at = place.at("decay")
    try:
        decay: Any = arithmetic.value(spec.decay, constants, at)
        if not isinstance(decay, str):
            _check_decay(decay, at)
        ema = ExponentialAverage(
            decay if isinstance(decay, str) else float(decay), spec, constants, place
        )
        ema.share(context, build.param("step", DType.F32))  # raises for mistakes in an expression
        ema.check(context)
        return ema
    except Fault as fault:
        context.report.fault(fault)
    except Poisoned:
        pass
    return None
