"""The values that a kernel being built has names for: each holds in the block where it was named
and those inside.
"""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Expr, Stmt

Key = tuple[Index, Expr | None, Expr | None]
"""Where elements were read, and under which mask and condition."""


class ValueScope:
    """Elements of nodes by where they were read. What a block named is forgotten when it is
    closed.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._values: dict[Node, dict[Key, Expr]] = {}
        # those open, and what each named
        self._blocks: list[tuple[list[Stmt], list[tuple[Node, Key]]]] = []

    def of(self, node: Node) -> dict[Key, Expr]:
        """The elements of a node that are in scope."""
        self._close()
        return self._values.setdefault(node, {})

    def add(self, node: Node, key: Key, value: Expr) -> None:
        """A value named in the innermost block."""
        self._close()
        self._values.setdefault(node, {})[key] = value
        self._blocks[-1][1].append((node, key))

    def forget(self, node: Node) -> None:
        """Drops what is known of a node, in every block."""
        self._values.pop(node, None)

    def _close(self) -> None:
        """Drops what closed blocks named."""
        blocks, same = self.builder.open_blocks, 0
        if len(blocks) == len(self._blocks) and blocks[-1] is self._blocks[-1][0]:
            return  # a stack with the same top
        for (block, _), open_block in zip(self._blocks, blocks, strict=False):
            if block is not open_block:
                break
            same += 1
        for _, named in self._blocks[same:]:
            for node, key in named:
                self._values.get(node, {}).pop(key, None)
        del self._blocks[same:]
        self._blocks += [(block, []) for block in blocks[same:]]
