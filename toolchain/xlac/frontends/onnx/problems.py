"""Import problems as diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xlac.frontends.importing.model_inputs import no_input
from xlac.frontends.importing.operator_importer import UnsupportedOperator
from xlac.frontends.onnx import registry
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import similar


def place(node: Any) -> str:
    """What the model calls a node."""
    return (
        f"node '{node.name}' ({node.op_type})"
        if node.name
        else f"{node.op_type} giving '{', '.join(node.output)[:200]}'"
    )


def unsupported(domain: str, name: str, version: int) -> UnsupportedOperator:
    """The error for an unknown operator, with operators of similar names as a hint."""
    if not version:
        return UnsupportedOperator(
            f"the model imports no operator set of domain '{domain or 'ai.onnx'}'"
        )
    near = similar(name, [n for d, n in registry.OPERATORS if d == domain], 3)
    full = f"{domain}.{name}" if domain else name
    hint = f"nearest: {', '.join(near)}" if near else ""
    return UnsupportedOperator(
        f"operator {full} (operator set {version}) is not supported", hint=hint
    )


def unknown(given: Iterable[str], inputs: Sequence[str]) -> None:
    """Refuses values for inputs that the model does not have."""
    for name in given:
        if name not in inputs and name.partition(".")[0] not in inputs:
            raise no_input(name, inputs)


def check_versions(model: Any) -> None:
    """Refuses operator sets that are newer than those that the operators here were written for."""
    for entry in model.opset_import:
        newest = registry.NEWEST.get(entry.domain)
        if newest is not None and entry.version > newest:
            name = entry.domain or "ai.onnx"
            raise SourceError(
                Diagnostic(
                    "XL7009",
                    f"the model uses operator set {entry.version} of {name}; the newest known is "
                    f"{newest}",
                )
            )


def check_text(*names: str | bytes) -> None:
    """Refuses names that are not UTF-8, which the protobuf library gives as bytes."""
    for name in names:
        if isinstance(name, bytes):
            raise SourceError(
                Diagnostic("XL7001", f"the model has a name that is not UTF-8 text: {name!r}")
            )
