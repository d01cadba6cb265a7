"""Checks blocks and operations that nothing uses: their text must be valid, though their shapes
remain unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.spec.elaborate.arithmetic import parsed
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.operations import LITERALS, find
from xlac.spec.report import Attempts, Fault, Place, nearest
from xlac.spec.schema import schema


def check_unused(context: Elaboration) -> None:
    """Reports invalid expressions, and unknown operations and blocks."""
    for name, block in context.blocks.items():
        if name not in context.used:
            _section(context, block.spec.graph, block.place.at("graph"))
    for name, op in context.custom.items():
        if f"op {name}" not in context.used:
            _section(context, op.spec.expr, op.place.at("expr"))
            _section(context, op.spec.gradient or {}, op.place.at("gradient"))


def _section(context: Elaboration, section: Mapping[str, Any], place: Place) -> None:
    attempts = Attempts(context.report)
    for key, spec in section.items():
        with attempts.part():
            _entry(context, spec, place.at(key))


def _entry(context: Elaboration, spec: Any, place: Place) -> None:
    match spec:
        case str():
            parsed(spec, place)
        case schema.OpNode(op=str() as name) if (
            "$" not in name and name not in context.custom and name not in (*LITERALS, "call")
        ):
            find(context, name, place.at("op").span)
        case schema.BlockNode(block=str() as name) if (
            "$" not in name and name not in context.blocks
        ):
            raise Fault(
                "XL2011",
                f"unknown block {name!r}",
                place.at("block").span,
                nearest(name, context.blocks),
            )
        case schema.ScanNode() | schema.WhileNode():
            _section(context, spec.body, place.at("body"))
