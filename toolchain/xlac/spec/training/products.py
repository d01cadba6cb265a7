"""The operations that are matrix products or convolutions, which half precision makes faster."""

from __future__ import annotations

from xlac.ir.graph import Node, walk
from xlac_sdk.dtypes import DType

PRODUCTS = frozenset(
    "attention attention_with_cache attention_with_past conv conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d "
    "conv_transpose3d dot einsum gru_cell linear lstm_cell matmul rnn_cell".split()
)


def multiplies(root: Node, dtype: DType) -> bool:
    """Whether a value depends on a product of a dtype, also inside loops and branches."""
    return any(is_product(node, dtype) for node in walk([root])) or any(
        multiplies(end, dtype)
        for node in walk([root])
        for body in node.op.bodies()
        for end in body.outputs.values()
    )


def is_product(node: Node, dtype: DType) -> bool:
    """Whether a node is a product whose float operands all have a dtype."""
    if node.op.mnemonic not in PRODUCTS:
        return False
    return {i.type.dtype for i in node.inputs if i.type.dtype.is_float} == {dtype}
