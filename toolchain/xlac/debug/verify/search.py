"""The worst inputs that hill climbing finds: those for which some group is nearest to its bound."""

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
    """Inputs changed step by step, each change kept where it brings a result of a group nearer to
    its bound (or beyond), and how near that is: above 1 is wrong. Needs a program with taps.
    """
    generator = np.random.default_rng(seed)
    best = {name: np.array(array) for name, array in start.items()}
    most = share(program, best)
    for number in range(steps):
        tried = changed(best, generator)
        found = share(program, tried)
        if found > most:
            best, most = tried, found
            tell(f"step {number + 1} of {steps}: {most:.3f} of the bound")
        if most > 1:
            break
    return best, most


def share(program: VerifiedProgram, inputs: Mapping[str, Array]) -> float:
    """The greatest error of a group's result, as a part of its bound."""
    given = {**inputs, **states_of(program.model.graph)}
    _, left = program.tapped_run(given)
    judge = GroupJudge(program.lowered, given, left, program.promise)
    return max((node.own.share for node in judge.all()), default=0.0)


def changed(inputs: Mapping[str, Array], generator: Generator) -> Inputs:
    """The inputs with some elements of one of them changed."""
    found = {name: array.copy() for name, array in inputs.items()}
    names = [n for n, a in found.items() if a.size and DType.of(a.dtype).is_float]
    if not names:
        return found
    array = found[names[int(generator.integers(len(names)))]]
    where = generator.random(array.shape) < generator.choice((0.02, 0.2, 1.0))
    with np.errstate(all="ignore"):
        made = CHANGES[int(generator.integers(len(CHANGES)))](array, generator)
    array[where] = made.astype(array.dtype)[where]
    return found


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
"""What may become of elements: all of one scale, drawn anew, a few ulp off, negative, equal."""
