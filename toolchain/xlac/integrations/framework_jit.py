"""Functions that equinox (`filter_jit`) and flax (`nnx.jit`) have jitted, compiled by xlac.

Both split their arguments into arrays and static values, call a function of `jax.jit` on these, and
put its results together. That function is replaced by a program of xlac; the rest is theirs.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from typing import Any

from xlac_sdk.host.array_values import wrong

INNER = {"equinox._jit": "_cached", "flax.nnx.transforms.compilation": "jitted_fn"}
"""Where the wrappers of a module hold the function of `jax.jit`."""


def is_wrapper(function: Any) -> bool:
    """Whether a function is jitted by one of these."""
    name = INNER.get(type(function).__module__)
    return name is not None and hasattr(getattr(function, name, None), "lower")


class WrappedJaxFunction:
    """Such a function, compiled for the arrays and static values of each call. It takes and returns
    what the function does, arrays as `jax.Array`s, and updates the modules of nnx in place.
    """

    def __init__(self, function: Any, compiled: Callable[..., Any]) -> None:
        update_wrapper(self, function, updated=())
        self._name = getattr(function, "__name__", type(function).__name__)
        name = INNER[type(function).__module__]
        inner, self._call = getattr(function, name), copy.copy(function)
        self._inner = compiled(*_of_its_own(inner, function, self._call))
        object.__setattr__(self._call, name, self._inner)  # equinox's are frozen

    @property
    def programs(self) -> int:
        """The number of cached programs, one for each set of types and static values."""
        count: int = self._inner.programs
        return count

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name}; {self.programs} programs)"

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        return self._call(*args, **named)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)


def _of_its_own(inner: Any, function: Any, clone: Any) -> tuple[Any, Mapping[str, Any]]:
    """The function of `jax.jit`, and the options to jit it with: a function of nnx knows its
    wrapper by a tag, which the clone needs to be.
    """
    wrapped = inner.__wrapped__
    if getattr(wrapped, "ctxtag", None) is not function:
        return inner, {}
    info = inner._jit_info  # JAX offers no other access to it
    options = {name: getattr(info, name) for name in ("static_argnums", "static_argnames")}
    return dataclasses.replace(wrapped, ctxtag=clone), options


def refuse_examples(name: str) -> None:
    """Raises SourceError: these functions split their arguments themselves, at each call."""
    problem = f"{name} is jitted by equinox or flax, whose functions are compiled when called"
    raise wrong("XL6001", problem, "give from_jax the function alone, without examples or options")
