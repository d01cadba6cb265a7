"""Errors for what a format cannot express."""

from __future__ import annotations

from collections.abc import Mapping

from xlac.ir.graph import Node
from xlac_sdk.source import Diagnostic, UnsupportedError


class Unsaid(Exception):
    """Raised by a rule of an exporter: the reason why the format cannot express an operation."""


def refuse(problems: Mapping[Node, str], code: str, what: str) -> None:
    """Raises UnsupportedError with every node that a format cannot express, if there are any."""
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
