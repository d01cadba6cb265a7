"""What the bodies of random JAX loops read and draw, and how values become each other's types."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import jax
import numpy as np

jnp = jax.numpy

DTYPES = ("float32",) * 7 + tuple(
    "float64 float64 int32 int32 int64 bool uint32 int8 uint8".split()
)
HALVES = (*DTYPES, "bfloat16", "float16", "bfloat16")
"""Of one program in eight: roundings as large as theirs hide other faults."""
SHAPES = ((), (), (1,), (3,), (5,), (17,), (2, 3), (3, 3), (4, 1), (1, 7), (8, 16), (2, 3, 4), (0,))


@dataclass
class Scope:
    """What a body can read, and the random numbers that choose what it computes. JAX may trace a
    body more than once, so every body begins with a seed of its own.
    """

    random: Random
    values: list[Any]
    depth: int = 0
    differentiable: bool = False
    dtypes: tuple[str, ...] = DTYPES
    most: int = 5  # steps of a body

    def pick(self, accept: Callable[[Any], bool] = lambda v: True) -> Any:
        """One of the values that are accepted, the last ones more often; None if there is none."""
        found = [v for v in self.values if accept(v)]
        recent = found[-5:] if self.random.random() < 0.6 else found
        return self.random.choice(recent) if recent else None

    def inner(self, seed: float, *values: Any) -> Scope:
        """A scope for a body that reads these values too."""
        every = [*self.values, *values]
        return Scope(
            Random(seed), every, self.depth + 1, self.differentiable, self.dtypes, self.most
        )


def is_float(v: Any) -> bool:
    return bool(jnp.issubdtype(v.dtype, jnp.floating))


def is_integer(v: Any) -> bool:
    return bool(jnp.issubdtype(v.dtype, jnp.integer))


def drawn(random: Random, shape: tuple[int, ...], dtype: str) -> Any:
    """An array of NumPy: floats within 1.5, integers from -7 (or 0) to 7."""
    numbers = np.random.default_rng(random.randint(0, 2**31))
    if dtype == "bool":
        return numbers.random(shape) < 0.5
    if jnp.issubdtype(dtype, jnp.integer):
        low = 0 if dtype.startswith("u") else -7
        return numbers.integers(low, 8, shape).astype(dtype)
    return np.asarray(numbers.uniform(-1.5, 1.5, shape).astype(np.float32)).astype(jnp.dtype(dtype))


def fitted(s: Scope, v: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """A value as another shape and dtype."""
    target = jnp.dtype(dtype)
    if v.dtype != target:
        if target == jnp.bool_:
            v = v > 0 if is_float(v) else v % 2 == 1
        elif v.dtype == jnp.bool_:
            v = v.astype(target)
        elif is_float(v) and jnp.issubdtype(target, jnp.integer):
            v = jnp.abs(v * 3).astype(target) if target.kind == "u" else (v * 3).astype(target)
        elif is_integer(v) and not jnp.issubdtype(target, jnp.integer):
            v = (v % 7).astype(target) / 7
        else:
            v = v.astype(target)
    if v.shape == shape:
        return v
    if v.size == math.prod(shape):
        return v.reshape(shape)
    while v.ndim > len(shape) and v.size:
        axis = s.random.randrange(v.ndim)
        v = (
            v.max(axis)
            if target == jnp.bool_ or s.random.random() < 0.5
            else v.sum(axis) / v.shape[axis]
        )
        v = v.astype(target)
    try:
        if np.broadcast_shapes(v.shape, shape) == shape:
            return jnp.broadcast_to(v, shape)
    except ValueError:
        pass
    return jnp.resize(v, shape) if v.size else jnp.zeros(shape, target)


def alike(s: Scope, v: Any) -> Any:
    """Another value as the shape and dtype of v."""
    same = [w for w in s.values if w.shape == v.shape and w.dtype == v.dtype and w is not v]
    if same and s.random.random() < 0.7:
        return s.random.choice(same)
    if s.random.random() < 0.3:
        return jnp.asarray(drawn(s.random, v.shape, v.dtype.name))
    return fitted(s, s.pick(), v.shape, v.dtype)
