"""Registered operations in imported models: ONNX's custom domains, StableHLO's composites."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from xlac.frontends.onnx.graph.call import OperatorCall
    from xlac.frontends.stablehlo.site import OperationSite
    from xlac.integrations.registered.operation import RegisteredOp
    from xlac.ir.graph import Node

BACK = ".backward"  # after the name of an operation: its derivative


def of_onnx(op: RegisteredOp) -> Callable[[OperatorCall], tuple[Node, ...]]:
    """The builder of a node of the operation's domain."""

    def build(call: OperatorCall) -> tuple[Node, ...]:
        return op.nodes([*call], {key: plain(value) for key, value in call.attributes.items()})

    return build


def of_stablehlo(op: RegisteredOp) -> Callable[[OperationSite], list[Node]]:
    """The builder of a composite, and of a custom call whose configuration has the attributes."""

    def build(site: OperationSite) -> list[Node]:
        found = site.get("composite_attributes") or site.get("mhlo.backend_config") or {}
        if not found and isinstance(site.get("backend_config"), dict):
            found = site.get("backend_config")
        attributes = {key: plain(value) for key, value in found.items()}
        operands = [site.number(n) for n in range(len(site.operands))]
        return [*op.nodes(operands, attributes)]

    return build


def plain(value: Any) -> Any:
    """A number or a word as specs have them."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.ndarray | np.generic) and value.size == 1 else value
