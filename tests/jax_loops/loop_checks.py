"""Runs a random program of loops by JAX and by xlac and compares what they give.

Rounding may lead a program elsewhere: at a branch, an index or a chaotic recurrence. How much it
does is measured by JAX itself, which computes the program again for arguments that are a few
roundings away: results may differ from JAX's by some times that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from loop_programs import Program

import xlac

EPSILON = {"float64": 2.3e-16, "float32": 1.2e-7, "float16": 9.8e-4, "bfloat16": 7.8e-3}
NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}
NEAR = 32  # roundings that a result may differ by when nothing amplifies them
MOVED = 4  # roundings that arguments are moved by
TIMES = 16  # how much further than JAX's moved results a result may be
CHAOS = 0.02  # results that go further when arguments are moved are not compared


class Differs(Exception):
    """The results are not the same."""


class Expected:
    """What JAX gives for a program: arrays, and how far each goes when arguments move by a few
    roundings of the coarsest dtype that the program computes in.
    """

    def __init__(self, program: Program) -> None:
        traced = str(jax.make_jaxpr(program.function)(*program.args))
        found = {NAMES[name] for name in re.findall(r"\b(bf16|f16|f32|f64)\b", traced)}
        self.rounding = max((EPSILON[name] for name in found), default=0.0)
        function = jax.jit(program.function)
        self.arrays = [np.asarray(v) for v in function(*program.args)]
        self.far = [0.0] * len(self.arrays)
        for seed in range(3):
            others = function(*_moved(program.args, self.rounding * MOVED, seed))
            pairs = zip(self.arrays, map(np.asarray, others), strict=True)
            self.far = [
                max(far, distance(*pair)) for far, pair in zip(self.far, pairs, strict=True)
            ]

    @property
    def chaotic(self) -> bool:
        """Whether no result can be compared."""
        return all(far > CHAOS for far in self.far)

    def compare(self, found: Sequence[Any]) -> None:
        """Raises Differs for results that are not JAX's."""
        for n, (want, value) in enumerate(zip(self.arrays, found, strict=True)):
            got = np.asarray(value)
            kind = f"result {n}, {want.dtype}{list(want.shape)}"
            if want.dtype != got.dtype or want.shape != got.shape:
                raise Differs(f"{kind}, is {got.dtype}{list(got.shape)}")
            apart, far = distance(want, got), self.far[n]
            if far <= CHAOS and not apart <= NEAR * self.rounding + TIMES * far:
                moves = f"moved arguments move it by {far:.3g}"
                raise Differs(f"{kind}, is {apart:.3g} from JAX's; {moves}")


def check(program: Program, expected: Expected, target: str, **options: Any) -> None:
    """Compiles a program for a target and compares. Raises Differs."""
    compiled = xlac.from_jax(program.function, *program.args, target=target, **options)
    expected.compare(compiled(*program.args))


def _moved(args: Sequence[Any], by: float, seed: int) -> list[Any]:
    """The arguments, floats larger or smaller by a part of themselves."""
    signs = np.random.default_rng(seed)
    return [
        (a.astype(np.float64) * (1 + by * signs.choice([-1, 1], a.shape))).astype(a.dtype)
        if a.dtype.name in EPSILON
        else a
        for a in args
    ]


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest difference of two arrays, in units of the largest element (at least 1); infinity
    where one is NaN and the other is not, or where integers are not equal.
    """
    if a.dtype.name not in EPSILON:
        return 0.0 if np.array_equal(a, b) else np.inf
    x, y = a.astype(np.float64), b.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.where(same, 0, x - y))
    if np.isnan(apart).any():
        return np.inf
    finite = np.abs(x[np.isfinite(x)])
    return float(apart.max(initial=0)) / max(1.0, float(finite.max(initial=0)))
