"""Names of values computed in a kernel being built; each is valid in the block where it was defined
and nested blocks.
"""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr, Stmt

Key = tuple[Index, Expr | None, Expr | None]
"""The index at which elements were read, and the mask and condition in scope."""


class ValueScope:
    """Named elements of nodes, by index. Names are dropped when their block is closed."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._values: dict[Node, dict[Key, Expr]] = {}
        # the open blocks, and the names that each defined
        self._blocks: list[tuple[list[Stmt], list[tuple[Node, Key]]]] = []

    def of(self, node: Node) -> dict[Key, Expr]:
        """The named elements of a node that are in scope."""
        self._close()
        return self._values.setdefault(node, {})

    def add(self, node: Node, key: Key, value: Expr) -> None:
        """Records a value named in the innermost block."""
        self._close()
        self._values.setdefault(node, {})[key] = value
        self._blocks[-1][1].append((node, key))

    def forget(self, node: Node) -> None:
        """Drops all names of a node, in every block."""
        self._values.pop(node, None)

    def _close(self) -> None:
        """Drops the names of closed blocks."""
        blocks, same = self.builder.open_blocks, 0
        if len(blocks) == len(self._blocks) and blocks[-1] is self._blocks[-1][0]:
            return  # the open blocks are unchanged
        for (block, _), open_block in zip(self._blocks, blocks, strict=False):
            if block is not open_block:
                break
            same += 1
        for _, named in self._blocks[same:]:
            for node, key in named:
                self._values.get(node, {}).pop(key, None)
        del self._blocks[same:]
        self._blocks += [(block, []) for block in blocks[same:]]
