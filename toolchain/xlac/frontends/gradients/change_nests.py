"""Matches pytrees of tangents or cotangents with the pytrees of the values that they belong to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xlac.frontends.gradients.variables import exact, is_float, weak
from xlac.frontends.pytree import PyTree
from xlac.frontends.tracing import Number, Tensor
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError


def fitting(
    what: str, of: str, tree: PyTree, leaves: Sequence[Tensor], given: Any
) -> list[Tensor | None]:
    """The tangent or cotangent for each leaf; None for leaves that have none, such as integers.
    Raises SourceError.
    """
    changes: list[Tensor | None] = [None] * len(leaves)
    for path, number, value in _matched(what, of, tree, given, ""):
        leaf = leaves[number]
        if value is None:
            continue
        wanted = "a number" if isinstance(leaf, Number) else str(leaf.node.type)
        if not is_float(leaf):
            problem = f"the {of}{path} is {wanted}, which has no derivative"
            raise _unfit(problem, f"give None as its {what}")
        if not isinstance(value, Tensor):
            raise _unfit(f"the {what}{path} is {value!r:.60}, not {wanted}")
        if isinstance(value, Number) and (isinstance(leaf, Number) or not leaf.shape):
            changes[number] = value
            continue
        kept = isinstance(leaf, Number) and is_float(value) and not value.shape
        if not kept and (isinstance(value, Number) or value.node.type != exact(leaf).type):
            is_ = "a number" if isinstance(value, Number) else str(value.node.type)
            raise _unfit(
                f"the {what}{path} is {is_}, and the {of} {wanted}: they have the same type"
            )
        changes[number] = weak(build.cast(value.node, DType.F64)) if kept else value
    return changes


def _matched(
    what: str, of: str, tree: PyTree, given: Any, path: str
) -> Iterator[tuple[str, int, Any]]:
    kind, content = tree
    if kind == "leaf":
        yield path, content, given
    elif kind == "dict":
        if not isinstance(given, dict) or set(given) != {key for key, _ in content}:
            keys = ", ".join(repr(key) for key, _ in content)
            raise _unfit(
                f"the {what}{path} is {_described(given)}, and the {of} a dict with {keys}"
            )
        for key, inner in content:
            yield from _matched(what, of, inner, given[key], f"{path}[{key!r}]")
    elif kind != "static":
        if not isinstance(given, tuple | list) or len(given) != len(content):
            raise _unfit(
                f"the {what}{path} is {_described(given)}, and the {of} has {len(content)} parts"
            )
        for number, (inner, one) in enumerate(zip(content, given, strict=True)):
            yield from _matched(what, of, inner, one, f"{path}[{number}]")


def _described(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, dict):
        return f"a dict with {', '.join(map(repr, value)) or 'nothing'}"
    return f"{value!r:.60}"


def _unfit(message: str, hint: str = "") -> SourceError:
    return SourceError(Diagnostic("XL2043", message, hint=hint))
