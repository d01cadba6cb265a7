"""What cannot be differentiated."""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ir.verify import describe


class NoDerivativeError(ValueError):
    """An operation whose derivative was needed and does not exist, or is not known. `node` is the
    one at fault; whoever knows the model's file points there.
    """

    def __init__(self, node: Node, why: str, hint: str = "") -> None:
        super().__init__(f"{describe(node)} {why}")
        self.node, self.hint = node, hint
