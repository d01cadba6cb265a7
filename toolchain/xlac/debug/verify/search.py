"""Searches by hill climbing for the inputs with the largest error of some group relative to its
bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from xlac.debug.verify.nodes import GroupJudge
from xlac.debug.verify.subject import VerifiedProgram, states_of
from xlac.ir.op import Array
from xlac_sdk.dtypes import DType

Inputs = dict[str, Array]
Generator = np.random.Generator


def worst_inputs(
    program: VerifiedProgram,
    start: Mapping[str, Array],
    steps: int,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[Inputs, float]:
    """The worst inputs found in `steps` random changes, each kept where it increases the largest
    error of a group relative to its bound, and that ratio; above 1 is wrong. Needs a program with
    taps.
    """
    generator = np.random.default_rng(seed)
    best = {name: np.array(array) for name, array in start.items()}
    most = share(program, best)
    for number in range(steps):
        tried = changed(best, generator)
        part = share(program, tried)
        if part > most:
            best, most = tried, part
            tell(f"step {number + 1} of {steps}: {most:.3f} of the bound")
        if most > 1:
            break
    return best, most


def share(program: VerifiedProgram, inputs: Mapping[str, Array]) -> float:
    """The largest error of a group's result, divided by its bound."""
    given = {**inputs, **states_of(program.model.graph)}
    _, left = program.tapped_run(given)
    judge = GroupJudge(program.lowered, given, left, program.promise)
    return max((node.own.share for node in judge.all()), default=0.0)


def changed(inputs: Mapping[str, Array], generator: Generator) -> Inputs:
    """The inputs with some elements of one array changed."""
    moved = {name: array.copy() for name, array in inputs.items()}
    names = [n for n, a in moved.items() if a.size and DType.of(a.dtype).is_float]
    if not names:
        return moved
    array = moved[names[int(generator.integers(len(names)))]]
    where = generator.random(array.shape) < generator.choice((0.02, 0.2, 1.0))
    with np.errstate(all="ignore"):
        changed_array = CHANGES[int(generator.integers(len(CHANGES)))](array, generator)
    array[where] = changed_array.astype(array.dtype)[where]
    return moved


def _scaled(array: Array, generator: Generator) -> Array:
    return np.asarray(array.astype(np.float64) * 2.0 ** generator.integers(-4, 5))


def _drawn(array: Array, generator: Generator) -> Array:
    return generator.standard_normal(array.shape)


def _nudged(array: Array, generator: Generator) -> Array:
    wide = array.astype(np.float64)
    return np.asarray(wide * (1 + generator.integers(-8, 9, array.shape) * 2.0**-23))


def _negated(array: Array, generator: Generator) -> Array:
    return np.asarray(-array.astype(np.float64))


def _levelled(array: Array, generator: Generator) -> Array:
    chosen = array.reshape(-1)[int(generator.integers(array.size))]
    return np.full(array.shape, np.float64(chosen))


CHANGES = (_scaled, _drawn, _nudged, _negated, _levelled)
"""Changes of elements: scaled, drawn anew, moved by a few ulp, negated, all equal."""
