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

BACK = ".backward"  # suffix of an operation's name for its derivative


def of_onnx(op: RegisteredOp) -> Callable[[OperatorCall], tuple[Node, ...]]:
    """Builds nodes of ONNX in the operation's domain."""

    def build(call: OperatorCall) -> tuple[Node, ...]:
        return op.nodes([*call], {key: plain(value) for key, value in call.attributes.items()})

    return build


def of_stablehlo(op: RegisteredOp) -> Callable[[OperationSite], list[Node]]:
    """Builds a StableHLO composite, or a custom call whose backend configuration has the
    attributes.
    """

    def build(site: OperationSite) -> list[Node]:
        given = site.get("composite_attributes") or site.get("mhlo.backend_config") or {}
        if not given and isinstance(site.get("backend_config"), dict):
            given = site.get("backend_config")
        attributes = {key: plain(value) for key, value in given.items()}
        operands = [site.number(n) for n in range(len(site.operands))]
        return [*op.nodes(operands, attributes)]

    return build


def plain(value: Any) -> Any:
    """An attribute as specs have it: a number or a string."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value.item() if isinstance(value, np.ndarray | np.generic) and value.size == 1 else value
