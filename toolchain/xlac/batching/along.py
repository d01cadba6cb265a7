"""A value that may have the batch axis."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.leading import with_axis


@dataclass(frozen=True)
class Along:
    """The batched counterpart of a node: with a leading batch axis if `mapped`; else the value is
    the same for all examples.
    """

    node: Node
    mapped: bool

    def spread(self, size: Dim) -> Node:
        """The node with the batch axis of `size`: broadcast if it is not mapped."""
        return self.node if self.mapped else with_axis(self.node, size)
