"""The arguments by which a function is differentiated (`wrt`): names, and positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xlac.frontends.arguments import Arguments
from xlac.frontends.gradients.variables import is_float
from xlac.frontends.pytree import PyTree, flatten, paths, unflatten
from xlac.frontends.tracing import Number, Tensor
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import nearest

Wrt = int | str | Sequence[int | str]
"""A position or a name: the derivative for it alone; or several, for a tuple of derivatives."""


class WrtArgument(NamedTuple):
    """An argument of a call: its position, or its name if it was passed by keyword."""

    at: int | str
    name: str


def wrong(message: str, hint: str = "") -> SourceError:
    """The error for an argument that cannot be differentiated with respect to."""
    return SourceError(Diagnostic("XL2041", message, hint=hint))


def checked(function: str, arguments: Arguments, wrt: Wrt) -> None:
    """Raises SourceError for a `wrt` that no call of the function could satisfy."""
    for one in _listed(wrt):
        if isinstance(one, bool) or not isinstance(one, int | str):
            raise wrong(f"wrt holds {one!r}: it names arguments, or gives their positions")
        if isinstance(one, str) and one not in arguments.names and not arguments.more:
            raise wrong(
                f"wrt names {one!r}, but {function}() has no such argument",
                nearest(one, arguments.names),
            )
        count = len(arguments.positional)
        if isinstance(one, int) and not arguments.rest and not -count <= one < count:
            raise wrong(f"wrt is {one}, but {function}() has {count} arguments by position")
    if not _listed(wrt):
        raise wrong("wrt is empty: it names the arguments to differentiate with respect to")


def chosen(
    function: str, arguments: Arguments, wrt: Wrt, args: Sequence[Any], named: dict[str, Any]
) -> list[WrtArgument]:
    """The arguments of one call that `wrt` selects, in its order. Raises SourceError for one that
    is not passed, or selected twice.
    """
    selected: list[WrtArgument] = []
    for one in _listed(wrt):
        one_of = _argument(function, arguments, one, args, named)
        if one_of in selected:
            raise wrong(f"wrt names the argument {one_of.name!r} of {function}() twice")
        selected.append(one_of)
    return selected


def _argument(
    function: str, arguments: Arguments, one: int | str, args: Sequence[Any], named: dict[str, Any]
) -> WrtArgument:
    places = arguments.positional
    if isinstance(one, str):
        if one in named:
            return WrtArgument(one, one)
        if one in places and places.index(one) < len(args):
            return WrtArgument(places.index(one), one)
        raise wrong(f"{function}() was called without the argument {one!r}, which wrt names")
    at = one + max(len(places), len(args)) if one < 0 else one
    if 0 <= at < len(args):
        return WrtArgument(at, arguments.name(at))
    if 0 <= at < len(places) and places[at] in named:
        return WrtArgument(places[at], places[at])
    place = f" ({places[at]!r})" if 0 <= at < len(places) else ""
    raise wrong(f"{function}() was called without the argument {one}{place}, which wrt names")


def single(wrt: Wrt) -> bool:
    """Whether `wrt` is a single argument, not a sequence."""
    return isinstance(wrt, int | str)


def _listed(wrt: Wrt) -> Sequence[int | str]:
    if isinstance(wrt, int | str):
        return (wrt,)
    if not isinstance(wrt, tuple | list):
        raise wrong(f"wrt is {wrt!r}: it names arguments, or gives their positions")
    return wrt


class Leaves:
    """The float leaves of the arguments of one call that `wrt` selects; the call can be repeated
    with others. Raises SourceError for an argument that has no floats or other leaves besides.
    """

    def __init__(
        self,
        function: str,
        arguments: Arguments,
        wrt: Wrt,
        args: Sequence[Any],
        named: dict[str, Any],
    ) -> None:
        self._args, self._named = args, named
        self._chosen = chosen(function, arguments, wrt, args, named)
        self.tensors: list[Any] = []
        self._trees: list[PyTree] = []
        for one in self._chosen:
            value = args[one.at] if isinstance(one.at, int) else named[one.at]
            before = len(self.tensors)
            self._trees.append(flatten(value, self.tensors))
            if len(self.tensors) == before:
                raise wrong(
                    f"the argument {one.name!r} of {function}() holds no array or number to "
                    "differentiate by"
                )
            for path, number in paths(self._trees[-1], one.name):
                _floating(function, path, self.tensors[number])

    def called(self, call: Callable[..., Any], tensors: Sequence[Any]) -> Any:
        """The function's result with other leaves."""
        args, named = list(self._args), dict(self._named)
        for one, nest in zip(self._chosen, self.nests(tensors), strict=True):
            if isinstance(one.at, int):
                args[one.at] = nest
            else:
                named[one.at] = nest
        return call(*args, **named)

    def nests(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """Pytrees with the structure of each argument, of other leaves."""
        return tuple(unflatten(tree, leaves) for tree in self._trees)


def _floating(function: str, path: str, leaf: Any) -> None:
    if not isinstance(leaf, Tensor):
        raise wrong(
            f"{path} of {function}() is of type {type(leaf).__name__}, which has no derivative"
        )
    if not is_float(leaf):
        number = isinstance(leaf, Number)
        kind = "an integer" if number else str(leaf.node.type)
        raise wrong(
            f"{path} of {function}() is {kind}, and only floats have derivatives",
            "write it with a point, 3.0" if number else "cast it, or leave it out of wrt",
        )
