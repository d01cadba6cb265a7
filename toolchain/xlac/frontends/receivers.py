"""The object that a traced method is bound to: its arrays become inputs, everything else that it
holds becomes part of the program.

So the next call sees changes of either: a changed array is passed by value, a changed number or
text selects another program.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from xlac.frontends.arguments import Arguments
from xlac.frontends.pytree import flatten
from xlac.frontends.tracing import Tensor
from xlac_sdk.host.array_values import device_of
from xlac_sdk.source import Diagnostic, SourceError

FIXED = (
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    ModuleType,
    type,
    Enum,
    str,
    bytes,
    bool,
    type(None),
    np.dtype,
)

DICTS = dict, OrderedDict


class Receiver:
    """An object as a hashable structure, `tree`, and the arrays in it, `leaves`, in order, with
    their `paths` for messages. Raises SourceError.
    """

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.leaves: list[Any] = []
        self.paths: list[str] = []
        # objects and containers by id -> their number, to find shared ones
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps the objects alive, so that no id is reused
        self.tree = self._described(owner, type(owner).__name__)

    def rebuilt(self, leaves: Sequence[Any]) -> Any:
        """The same object with its arrays replaced by other leaves."""
        return _Rebuilding(leaves).of(self.owner)

    def _described(self, value: Any, path: str) -> Any:
        if isinstance(value, FIXED):
            return "fixed", type(value), value
        if isinstance(value, int | float | complex) and not isinstance(value, np.generic):
            # repr, since 0.0 equals -0.0 and 0, and NaN does not equal itself
            return "number", type(value), repr(value)
        if is_array(value):
            self.leaves.append(value)
            self.paths.append(path)
            return ("leaf",)
        if id(value) in self._seen:
            return "again", self._seen[id(value)]
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        if isinstance(value, tuple) or type(value) is list:
            return type(value), tuple(
                [self._described(part, f"{path}[{n}]") for n, part in enumerate(value)]
            )
        if type(value) in DICTS:
            return type(value), tuple(
                [
                    (self._described(k, path), self._described(v, f"{path}[{k!r}]"))
                    for k, v in value.items()
                ]
            )
        held = attributes(value)
        if held is not None:
            return type(value), tuple(
                [(name, self._described(v, f"{path}.{name}")) for name, v in held.items()]
            )
        try:
            hash(value)
        except TypeError:
            problem = (
                f"{path} is of type {type(value).__name__}, which cannot be part of a program: its "
                "changes would not be seen"
            )
            raise SourceError(
                Diagnostic("XL6002", problem, hint="pass it as an argument, or keep it elsewhere")
            ) from None
        return "fixed", type(value), value


class _Rebuilding:
    """Walks an object as `Receiver` does, and rebuilds it with the given leaves."""

    def __init__(self, leaves: Sequence[Any]) -> None:
        self._leaves = iter(leaves)
        self._made: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, FIXED) or (
            isinstance(value, int | float | complex) and not isinstance(value, np.generic)
        ):
            return value
        if is_array(value):
            return next(self._leaves)
        if id(value) in self._made:
            return self._made[id(value)]
        if isinstance(value, tuple):
            parts = [self.of(part) for part in value]
            return self._keep(
                value, type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
            )
        if type(value) is list:
            copied = self._keep(value, [])
            copied.extend([self.of(part) for part in value])
            return copied
        if type(value) in DICTS:
            copied = self._keep(value, type(value)())
            copied.update({key: self.of(part) for key, part in value.items()})
            return copied
        held = attributes(value)
        if held is None:
            return value
        receiver = self._keep(value, object.__new__(type(value)))
        for name, part in held.items():
            object.__setattr__(receiver, name, self.of(part))
        return receiver

    def _keep(self, value: Any, receiver: Any) -> Any:
        self._made[id(value)] = receiver
        return receiver


def is_array(value: Any) -> bool:
    """Whether a value is an array of any library."""
    return (
        isinstance(value, np.ndarray | np.generic)
        or hasattr(value, "__dlpack__")
        or hasattr(value, "__array__")
    )


def is_of_class(function: Callable[..., Any]) -> bool:
    """Whether a class defines a function, so that its first argument may be an object."""
    names = getattr(function, "__qualname__", "").split(".")
    return len(names) > 1 and names[-2] != "<locals>"


def received(
    names: Sequence[str], args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The object with which a class's function is called, as through its class or a property, given
    the names of its positional parameters; None where it is called with none; and the other
    arguments.
    """
    if args and is_object(args[0]):
        return args[0], args[1:], named
    if not args and names and is_object(named.get(names[0])):
        return named[names[0]], (), {n: v for n, v in named.items() if n != names[0]}
    return None, args, named


def names_of_leaves(
    arguments: Arguments, receiver: Any, args: tuple[Any, ...], named: dict[str, Any]
) -> Iterator[tuple[int, str]]:
    """The numbers of a call's leaves and their names for messages: those of the arguments, then
    those of the object, if there is one.
    """
    leaves: list[Any] = []
    every = args if receiver is None else (None, *args)  # None has no leaves
    tree = flatten((every, named), leaves)
    yield from ((number, name) for name, number in arguments.leaves(tree))
    if receiver is not None:
        with suppress(SourceError):
            yield from enumerate(Receiver(receiver).paths, len(leaves))


def is_object(value: Any) -> bool:
    """Whether a value is an object of a class written in Python, and nothing that is an argument:
    an array, a number, a constant or a container.
    """
    argument = isinstance(value, (*FIXED, int, float, complex, tuple, list, dict, Tensor))
    return not (argument or is_array(value) or device_of(value)) and attributes(value) is not None


def attributes(value: Any) -> dict[str, Any] | None:
    """The attributes of an object of a class written in Python, by name; None for any other
    object.
    """
    if (
        getattr(type(value), "__new__", None) is not object.__new__
        or type(value).__module__ == "builtins"
    ):
        return None
    slots = [
        n
        for cls in type(value).__mro__
        for n in _listed(cls.__dict__.get("__slots__", ()))
        if n not in ("__dict__", "__weakref__")
    ]
    return {
        **{n: getattr(value, n) for n in slots if hasattr(value, n)},
        **getattr(value, "__dict__", {}),
    }


def _listed(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def unchanged(name: str, before: Any, traced: Callable[[Any], Any]) -> Any:
    """The result of `traced`. Raises SourceError if it changes the object, since a compiled call
    would not.
    """
    first = _Held(before)
    result = traced(before)
    now = _Held(before)
    if first.parts != now.parts:
        changed = next(
            (
                path
                for path in {**first.parts, **now.parts}
                if first.parts.get(path) != now.parts.get(path)
            ),
            "its object",
        )
        problem = f"{name}() changes {changed}, which a call of the compiled function would not"
        raise SourceError(
            Diagnostic("XL2034", problem, hint="return the new value, and assign it outside")
        )
    return result


class _Held:
    """The identity of every part of an object, by path."""

    def __init__(self, owner: Any) -> None:
        self.parts: dict[str, int] = {}
        self._kept: dict[int, Any] = {}  # keeps the objects alive, so that no id is reused
        self._visit("self", owner)

    def _visit(self, path: str, value: Any) -> None:
        if path != "self":
            self.parts[path] = id(value)
        if id(value) in self._kept:
            return
        self._kept[id(value)] = value
        if isinstance(value, tuple | list):
            for number, part in enumerate(value):
                self._visit(f"{path}[{number}]", part)
        elif isinstance(value, dict):
            for key, part in value.items():
                self._visit(f"{path}[{key!r}]", part)
        elif not isinstance(value, FIXED) and not is_array(value):
            for name, part in (attributes(value) or {}).items():
                self._visit(f"{path}.{name}", part)
