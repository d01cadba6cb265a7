"""A value that may have the leading axis."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.leading import with_axis


@dataclass(frozen=True)
class Along:
    """What a node is now: along the leading axis, if it is `mapped`."""

    node: Node
    mapped: bool

    def spread(self, size: Dim) -> Node:
        """Along the axis in any case."""
        return self.node if self.mapped else with_axis(self.node, size)
