"""Scatters and updates of slices overwrite their operand where it lies, unless their kernel also
reads it at other elements: then all of it is copied first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from xlac.fusion import cost
from xlac.fusion.cluster import MAX_NODES, is_pointwise
from xlac.ir.graph import Node
from xlac.ops.tensor import leaf, view
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.gather import is_lookup
from xlac.ops.tensor.scatter import Scatter

MOST = 4 * MAX_NODES  # that are looked at


def memory_needed(anchor: Node, node: Node, home: Collection[Node], body: bool) -> str:
    """Why a scatter or an update reads an operand from memory; "" where its kernel may compute it.
    Nodes of `home` are in a cluster; parameters of a loop's `body` may be overwritten.
    """
    if _would_copy(anchor, node, home, body):
        return f"it reads what {anchor.op.mnemonic} overwrites where it lies"
    x = _memory(node)
    if isinstance(anchor.op, Scatter) and node is anchor.inputs[0] and x is not node:
        return (
            "what is scattered into is memory" if x in home or isinstance(x.op, leaf.Param) else ""
        )
    return ""


def _would_copy(anchor: Node, node: Node, home: Collection[Node], body: bool) -> bool:
    """Whether computing an operand inside the kernel would read the larger tensor that is
    overwritten, which need not be kept otherwise.
    """
    x = _memory(anchor.inputs[0])
    kept = isinstance(x.op, leaf.Param) and x.op.kind != "state" and not body
    if node is x or kept or cost.elements(node) >= cost.elements(x):
        return False
    return reads_elsewhere(anchor, node, lambda i: i not in home)


def reads_elsewhere(anchor: Node, node: Node, inline: Callable[[Node], bool]) -> bool:
    """Whether an operand of a scatter or an update, where it is computed by the same kernel, reads
    the tensor that is overwritten at other elements than at the one that is written then.
    """
    x = _memory(anchor.inputs[0])
    aligned = isinstance(anchor.op, DynUpdate) and node is anchor.inputs[1]
    left, seen = [(node, aligned)], {(node, aligned)}
    while left and len(seen) < MOST:
        reader, aligned = left.pop()
        own = aligned and _reads_slice(reader, anchor)
        if not own and any(_memory(i) is x for i in reader.inputs):
            return True
        aligned = aligned and is_pointwise(reader) and not is_lookup(reader)
        more = [(i, aligned) for i in reader.inputs if _memory(i) is not x and inline(i)]
        left += [pair for pair in more if pair not in seen]
        seen.update(more)
    return bool(left)


def _memory(node: Node) -> Node:
    """The value whose memory a node has, which reshapes rename."""
    while isinstance(node.op, view.Reshape):
        node = node.inputs[0]
    return node


def _reads_slice(node: Node, update: Node) -> bool:
    """Whether a node is the slice that an update replaces."""
    starts = update.inputs[2:]
    return (
        isinstance(node.op, DynSlice)
        and node.inputs[0] is update.inputs[0]
        and node.shape == update.inputs[1].shape
        and len(starts) == len(node.inputs) - 1
        and all(a is b for a, b in zip(node.inputs[1:], starts, strict=True))
    )
