"""Exports what a graph says of ranks."""

from __future__ import annotations

from typing import Any

from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter, rule
from xlac.ir.graph import Node
from xlac.ops.collective.shard import named


@rule("shard")
def shard(w: StableHloWriter, node: Node, x: SsaValue) -> SsaValue:
    """A sharding constraint; the value itself where the module has no mesh."""
    op: Any = node.op
    return w.divided(x, [*map(named, op.axes)]) if w.mesh else x
