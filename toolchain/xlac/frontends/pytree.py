"""Pytrees: nests of tuples, lists and dicts with arrays at their leaves, which Python functions
take and return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np

from xlac_sdk.source import Diagnostic, SourceError

DEEPEST = 200  # nesting of lists
PyTree = Any
"""The structure of a pytree, hashable: ("tuple", (…)), ("list", (…)), (a namedtuple's class, (…)),
("dict", ((key, …), …)), ("leaf", number), ("static", value).
"""


LEAF = ("leaf", 0)
"""The structure of one leaf alone."""


class Static:
    """An opaque value inside a pytree, equal only to itself."""


STATIC = (str, bytes, bool, type(None), Enum, type, np.dtype, Static)


def flatten(value: Any, leaves: list[Any]) -> PyTree:
    """The structure of a pytree; its arrays and numbers are appended to `leaves`. Raises
    SourceError for a list or dict that contains itself.
    """
    return _flatten(value, leaves, 0)


def endless() -> SourceError:
    """The error for an argument of infinite depth."""
    problem = "an argument is nested too deeply, or holds itself"
    return SourceError(Diagnostic("XL6002", problem))


def _flatten(value: Any, leaves: list[Any], depth: int) -> PyTree:
    if depth > DEEPEST:
        raise endless()
    if isinstance(value, tuple | list):
        kind = (
            type(value)
            if hasattr(value, "_fields")
            else "tuple"
            if isinstance(value, tuple)
            else "list"
        )
        return kind, tuple([_flatten(v, leaves, depth + 1) for v in value])
    if isinstance(value, dict):
        return "dict", tuple([(k, _flatten(v, leaves, depth + 1)) for k, v in value.items()])
    if isinstance(value, STATIC):
        return "static", value
    leaves.append(value)
    return "leaf", len(leaves) - 1


def unflatten(tree: Any, leaves: Sequence[Any]) -> Any:
    """The pytree rebuilt with other leaves, which are indexed by their numbers."""
    kind, content = tree
    match kind:
        case "tuple":
            return tuple(unflatten(t, leaves) for t in content)
        case "list":
            return [unflatten(t, leaves) for t in content]
        case "dict":
            return {key: unflatten(t, leaves) for key, t in content}
        case "leaf":
            return leaves[content]
        case "static":
            return content
    return kind(*[unflatten(t, leaves) for t in content])


def paths(tree: PyTree, name: str) -> Iterator[tuple[str, int]]:
    """The path of each leaf of a pytree called `name`, such as `name['w'][0]`, and its number."""
    kind, content = tree
    if kind == "leaf":
        yield name, content
    elif kind == "dict":
        for key, inner in content:
            yield from paths(inner, f"{name}[{key!r}]")
    elif kind != "static":
        for number, inner in enumerate(content):
            yield from paths(inner, f"{name}[{number}]")


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A pytree with `change` applied to every leaf."""
    leaves: list[Any] = []
    return unflatten(flatten(value, leaves), [change(leaf) for leaf in leaves])


def is_number(value: Any) -> bool:
    """Whether a leaf is a Python number, whose type is weak; NumPy scalars have a type of their
    own.
    """
    return isinstance(value, int | float) and not isinstance(value, np.generic)
