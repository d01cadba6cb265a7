"""`xlac.from_jax`: a function of JAX, compiled here."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xlac.compiler import compile
from xlac.frontends.jax import Lowered, lower
from xlac.model import Model


class JaxFunction:
    """Takes and gives nests of arrays as the function does; its results are NumPy arrays.

    A donated argument that is a `jax.Array` is deleted after the call, as JAX does.
    """

    def __init__(self, function: Callable[..., Any], lowered: Lowered, static: Static, options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self.lowered, self._static = lowered, static
        self.program = compile(lowered.model, **options)

    @property
    def model(self) -> Model:
        return self.lowered.model

    def __call__(self, *args: Any, **named: Any) -> Any:
        leaves = self.lowered.flat(*self._static.without(args, named))
        found = self.program(*self.lowered.inputs(leaves))
        arrays = list(found.values()) if isinstance(found, dict) else [found]
        for number in self.lowered.donated:
            if hasattr(leaves[number], "delete"):
                leaves[number].delete()
        return self.lowered.results(arrays)


class Static:
    """Which arguments `jax.jit` was told to take as constants: they are part of the program, and left out of calls."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.numbers, self.names = (_listed(options.get(key)) for key in ("static_argnums", "static_argnames"))

    def without(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        gone = {n % len(args) for n in self.numbers if args}
        kept = tuple(a for n, a in enumerate(args) if n not in gone)
        return kept, {name: value for name, value in named.items() if name not in self.names}


def _listed(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,) if isinstance(value, int | str) else tuple(value)


def from_jax(
    function: Callable[..., Any], *example_args: Any, jit: Mapping[str, Any] | None = None, target: str = "cpu", threads: int | None = None,
    **example_named: Any,
) -> JaxFunction:  # fmt: skip
    """A function of JAX compiled for arguments like the examples: arrays, nests of them, or `jax.ShapeDtypeStruct`s.

    `jit` are options of `jax.jit`, such as static_argnums and donate_argnums; a function that is jitted already brings
    its own. Sizes of `jax.export.symbolic_shape` stay open. Needs JAX: pip install 'xlac[jax]'. Raises SourceError.
    """
    options = dict(jit or {})
    lowered = lower(function, example_args, example_named, options)
    return JaxFunction(function, lowered, Static(options), {"target": target} | ({} if threads is None else {"threads": threads}))
