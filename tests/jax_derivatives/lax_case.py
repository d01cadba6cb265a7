"""One case of JAX's checks of derivatives, and how its arguments are drawn, in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Draw = Callable[[np.random.Generator, tuple[int, ...]], Any]


class Case(NamedTuple):
    """A function and its arguments; `second`: its second derivative is worth comparing."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    second: bool = True


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.normal(size=shape)


def uniform(low: float, high: float) -> Draw:
    return lambda rng, shape: rng.uniform(low, high, shape)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.uniform(0.3, 3.0, shape)


def distinct(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """No two alike."""
    return rng.permutation(int(np.prod(shape))).reshape(shape).astype(np.float64)


def drawn(name: str, shapes: Any, draw: Draw = normal) -> tuple[Any, ...]:
    rng = np.random.default_rng(sum(name.encode()))
    return tuple(draw(rng, tuple(shape)) for shape in shapes)


def case(function: Callable[..., Any], name: str, shapes: Any, draw: Draw = normal) -> Case:
    """A function and arguments of these shapes, drawn with `name` as their seed."""
    return Case(function, drawn(name, shapes, draw))
