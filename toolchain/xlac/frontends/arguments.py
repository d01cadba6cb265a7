"""Binds the arguments of a Python function as those of a compiled model are bound, with the same
errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from xlac.frontends.pytree import PyTree, paths
from xlac_sdk.host.call_binding import Parameters, by_name

Kind = inspect._ParameterKind


class Arguments:
    """The parameters of a function. A function without a readable signature accepts every call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self._signature: inspect.Signature | None = inspect.signature(function)
        except (TypeError, ValueError):
            self._signature = None
        self._parameters = None if self._signature is None else _parameters(self._signature)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the function's parameters, in order; none where they are not known."""
        return () if self._parameters is None else self._parameters.names

    @property
    def positional(self) -> tuple[str, ...]:
        """The names of parameters that can be passed by position."""
        return (
            ()
            if self._parameters is None
            else self._parameters.names[: self._parameters.positional]
        )

    @property
    def rest(self) -> bool:
        """Whether further positional arguments are accepted; True if the signature is unknown."""
        return self._parameters is None or self._parameters.rest

    @property
    def more(self) -> bool:
        """Whether further keyword arguments are accepted; True if the signature is unknown."""
        return self._parameters is None or self._parameters.more

    @property
    def needed(self) -> bool:
        """Whether there are arguments that a call must have; True if the signature is unknown."""
        known = self._parameters
        return known is None or known.rest or len(known.optional) < len(known.names)

    def name(self, at: int) -> str:
        """The name of the positional argument `at`, for messages."""
        return self.positional[at] if at < len(self.positional) else f"args[{at}]"

    def leaves(self, tree: PyTree) -> Iterator[tuple[str, int]]:
        """The name of each leaf of a call, for messages, and its number; `tree` is that of the
        positional and the named arguments.
        """
        args, named = tree[1]
        for at, inner in enumerate(args[1]):
            yield from paths(inner, self.name(at))
        for name, inner in named[1]:
            yield from paths(inner, name)

    def checked(self, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        """Raises SourceError for an argument that is missing, unknown or given twice."""
        if self._parameters is not None:
            by_name(self._parameters, args, named)

    def ordered(
        self, args: Sequence[Any], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The same call with every argument that can be positional passed by position. Raises
        SourceError as `checked` does.
        """
        if self._signature is None:
            return tuple(args), dict(named)
        self.checked(args, named)
        bound = self._signature.bind(*args, **named)
        return bound.args, bound.kwargs


def _parameters(signature: inspect.Signature) -> Parameters:
    every = [
        p
        for p in signature.parameters.values()
        if p.kind not in (Kind.VAR_POSITIONAL, Kind.VAR_KEYWORD)
    ]
    kinds = {p.kind for p in signature.parameters.values()}
    return Parameters(
        tuple(p.name for p in every),
        frozenset(p.name for p in every if p.default is not p.empty),
        sum(p.kind is not Kind.KEYWORD_ONLY for p in every),
        sum(p.kind is Kind.POSITIONAL_ONLY for p in every),
        Kind.VAR_POSITIONAL in kinds,
        Kind.VAR_KEYWORD in kinds,
    )
