"""Checks of the hyperparameters of optimizers and schedules, and of the resulting rates."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.spec.elaborate.arithmetic import Constants, compute, parsed
from xlac.spec.report import Fault, Place
from xlac.spec.schema.fields import LARGEST
from xlac_sdk.dtypes import DType

FIRST = range(10)
"""The steps at which a learning-rate expression is checked."""
ANY = (*range(17), *(n for k in range(5, 41) for n in (2**k - 1, 2**k, 3 * 2**k)))
"""A sample of steps of runs of any length."""


def unmet(
    needs: Mapping[str, str],
    constants: Constants,
    params: Mapping[str, Any],
    declared: Place,
    asked: Place,
) -> tuple[str, str, Place] | None:
    """The first condition of `needs` (expression -> problem) that does not hold: the expression,
    the problem, and the place of the parameter at fault, if there is one, else `asked`. Raises
    Fault for a mistake in an expression.
    """
    for text, problem in needs.items():
        expression = parsed(text, declared.at("needs", text))
        if compute(expression, constants, declared.at("needs", text)):
            continue
        named = {node.id for node in ast.walk(expression.tree) if isinstance(node, ast.Name)}
        about = sorted(named & params.keys())
        if len(about) != 1:
            return text, problem, asked
        (name,) = about
        return text, f"{problem}, found {params[name]!r}", asked.at(name)
    return None


def finite(value: Any) -> bool:
    """Whether all numbers of a parameter are finite in f32."""
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, int | float) or -LARGEST <= value <= LARGEST


def check_steps(
    scalar_at: Callable[[Node], Node],
    steps: Iterable[int],
    most: float,
    problem: str,
    place: Place,
    hint: str = "",
) -> None:
    """Checks, by interpreting it, that a function of the step, `scalar_at`, is in 0..`most` at some
    steps. Raises Fault, and what `scalar_at` raises.
    """
    step = build.param("step", DType.F64)
    graph = Graph("at a step", (step,), {"found": scalar_at(step)})
    for number in steps:
        with np.errstate(all="ignore"):
            value = float(interpret(graph, {"step": np.asarray(float(number))})["found"])
        if math.isnan(value) or not 0 <= value <= most:
            raise Fault(
                "XL1012", f"{problem}, and at step {number} this is {value:g}", place.span, hint
            )
