"""The error for operations without a derivative."""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ir.verify import describe


class NoDerivativeError(ValueError):
    """An operation whose derivative is needed has none. `node` is the one at fault; callers turn
    its origin into a diagnostic with file and line.
    """

    def __init__(self, node: Node, why: str, hint: str = "") -> None:
        super().__init__(f"{describe(node)} {why}")
        self.node, self.hint = node, hint
