"""Registry of builders of ONNX operators: by domain, name and version of the operator set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from xlac.frontends.onnx.graph.call import OperatorCall
    from xlac.frontends.onnx.graph.values import Value

Builder = Callable[["OperatorCall"], "Value | tuple[Value, ...]"]
B = TypeVar("B", bound=Builder)  # a type variable, so that decorators keep a function's type

ML = "ai.onnx.ml"
MICROSOFT = "com.microsoft"
NEWEST = {"": 28, "ai.onnx": 28, ML: 5, MICROSOFT: 1}
"""The newest operator sets that the operators were written for."""


@dataclass(frozen=True, slots=True)
class Version:
    """A builder and the first version of the operator set that it implements.

    With `elementwise`, element i of every output depends only on element i of the inputs (which
    broadcast), so the operator also accepts ragged tensors.
    """

    since: int
    builder: Builder
    elementwise: bool


OPERATORS: dict[tuple[str, str], list[Version]] = {}
"""(domain, name) -> its versions, newest first."""


def operator(
    name: str, since: int = 1, domain: str = "", *, elementwise: bool = False
) -> Callable[[B], B]:
    """Registers the builder of an operator from a version of its domain's operator set on."""

    def register(builder: B) -> B:
        versions = OPERATORS.setdefault((domain, name), [])
        if any(known.since == since for known in versions):
            raise ValueError(f"{domain}.{name} of version {since} is registered twice")
        versions.append(Version(since, builder, elementwise))
        versions.sort(key=lambda version: -version.since)
        return builder

    return register


def find(domain: str, name: str, version: int) -> Version | None:
    """The builder of an operator in the given version of its domain."""
    for known in OPERATORS.get((domain, name), ()):
        if known.since <= version:
            return known
    return None
