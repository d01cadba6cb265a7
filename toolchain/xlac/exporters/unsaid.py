"""What a format cannot say."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.ir.graph import Node
from xlac_sdk.source import Diagnostic, UnsupportedError


class Unsaid(Exception):
    """Raised by a rule of an exporter: why the format cannot say an operation."""


def refuse(problems: Mapping[Node, str], code: str, what: str) -> None:
    """Raises UnsupportedError with every node that a format cannot say, if there are any."""
    refused: dict[Diagnostic, None] = {}
    for node, reason in problems.items():
        name = f"{node.name}: " if node.name else ""
        refused[
            Diagnostic(
                code,
                f"{name}{node.op.mnemonic} cannot be written as {what}: {reason}",
                node.origin.span if node.origin else None,
            )
        ] = None
    if refused:
        raise UnsupportedError(*refused)
