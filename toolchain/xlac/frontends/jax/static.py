"""JAX itself, and the options of `jax.jit`: which arguments are static, which are donated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from xlac_sdk.source import Diagnostic, SourceError


def required() -> Any:
    """JAX. Raises SourceError where it is not installed."""
    try:
        import jax
        import jax.export
    except ImportError:
        raise SourceError(
            Diagnostic("XL7213", "xlac.from_jax needs JAX", hint="pip install 'xlac[jax]'")
        ) from None
    return jax


class StaticArguments(NamedTuple):
    """Arguments that an option of `jax.jit` names, by place (negative ones from the end) and by
    name.
    """

    numbers: tuple[int, ...]
    names: frozenset[str]

    def positions(self, count: int) -> list[int]:
        """The positions among `count` arguments."""
        return sorted({n + count if n < 0 else n for n in self.numbers if -count <= n < count})


def jitted(
    function: Callable[..., Any], options: Mapping[str, Any], places: Sequence[str]
) -> tuple[Any, StaticArguments]:
    """The function under `jax.jit` with these options, or unchanged if it is jitted already, and
    its static arguments.

    Static and donated arguments may be named by position or by name; `places` are the names of the
    positional parameters. Raises SourceError for options that JAX refuses.
    """
    jax = required()
    theirs = type(function).__module__.partition(".")[0] in ("jax", "jaxlib")
    if theirs and hasattr(function, "lower") and not options:
        jit_info = getattr(function, "_jit_info", None)  # JAX offers no other access to it
        return function, StaticArguments(
            tuple(getattr(jit_info, "static_argnums", ())),
            frozenset(getattr(jit_info, "static_argnames", ())),
        )
    every = dict(options)
    for kind in ("static", "donate"):
        numbers, names = f"{kind}_argnums", f"{kind}_argnames"
        if kind == "static" or numbers in options or names in options:
            chosen = _both(_listed(options.get(numbers)), _listed(options.get(names)), places)
            every[numbers], every[names] = chosen.numbers, tuple(sorted(chosen.names))
    try:
        jitted_function = jax.jit(function, **every)
    except (TypeError, ValueError) as error:
        raise SourceError(
            Diagnostic("XL6007", f"jax.jit does not take these options: {error}")
        ) from None
    return jitted_function, StaticArguments(
        tuple(every["static_argnums"]), frozenset(every["static_argnames"])
    )


def _both(numbers: Sequence[int], names: Sequence[str], places: Sequence[str]) -> StaticArguments:
    """Arguments given by position or name, as both where they have both."""
    at = {n + len(places) if n < 0 else n for n in numbers} | {
        places.index(n) for n in names if n in places
    }
    return StaticArguments(
        tuple(sorted(at)), frozenset(names) | {places[n] for n in at if 0 <= n < len(places)}
    )


def _listed(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,) if isinstance(value, int | str) else tuple(value)
