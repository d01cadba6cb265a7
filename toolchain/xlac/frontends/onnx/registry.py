"""Which function builds the graph of an ONNX operator: by domain, name and version of the operator set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlac.frontends.onnx.call import Call
    from xlac.frontends.onnx.values import Value

Builder = Callable[["Call"], "Value | tuple[Value, ...]"]

ML = "ai.onnx.ml"
MICROSOFT = "com.microsoft"

OPERATORS: dict[tuple[str, str], list[tuple[int, Builder]]] = {}
"""(domain, name) -> its versions, as (first operator set with this meaning, builder), newest first."""


def operator(name: str, since: int = 1, domain: str = "") -> Callable[[Builder], Builder]:
    """Registers the meaning that an operator has from a version of its domain's operator set on."""

    def register(builder: Builder) -> Builder:
        versions = OPERATORS.setdefault((domain, name), [])
        if any(known == since for known, _ in versions):
            raise ValueError(f"{domain}.{name} of version {since} is registered twice")
        versions.append((since, builder))
        versions.sort(key=lambda entry: -entry[0])
        return builder

    return register


def find(domain: str, name: str, version: int) -> Builder | None:
    """The builder for an operator as the given version of its domain means it."""
    for since, builder in OPERATORS.get((domain, name), ()):
        if since <= version:
            return builder
    return None
