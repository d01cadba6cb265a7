"""The arguments of functions of keras.ops, which a file may give of any type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from xlac.frontends.keras.registry import Results
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError

Function = Callable[..., Results]
ONE = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)  # kinds of one argument


def check_arguments(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises ShapeError for an argument that is missing, unknown or not of its parameter's type."""
    parameters = signature(function)
    try:
        given = parameters.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise ShapeError(f"its arguments do not fit: {error}") from error
    for name, adapter in _types(function).items():
        if name not in given:
            continue
        if adapter is None:
            if not isinstance(given[name], Node):
                raise ShapeError(f"{name} is {given[name]!r}"[:200] + ", not a tensor")
            continue
        try:
            adapter.validate_python(_lists(given[name]), strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise ShapeError(f"{name} is {given[name]!r}"[:200] + f": {reason}") from error


@cache
def _types(function: Function) -> dict[str, TypeAdapter[Any] | None]:
    """What checks the values of each parameter that says its type; None for one that is a tensor.

    Parameters that take several (`*xs`, `**rest`), sequences of tensors, and those without a type
    are left to the function.
    """
    hints = get_type_hints(function)
    kinds = {
        name: hints.get(name, Any)
        for name, parameter in signature(function).parameters.items()
        if parameter.kind in ONE
    }
    return {
        name: None if kind is Node else TypeAdapter(kind)
        for name, kind in kinds.items()
        if kind is not Any and Node not in get_args(kind)
    }


def _lists(value: Any) -> Any:
    """The value with lists in the place of tuples: files have either."""
    return [_lists(part) for part in value] if isinstance(value, list | tuple) else value
