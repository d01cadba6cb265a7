"""The valid numbers of a model's integer inputs: class labels of a loss, rows of an embedding.
Operations clamp numbers out of range; in training data they are reported as mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlac.ir.graph import Graph
from xlac.ops.nn.class_loss import Classes
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.choose import Embedding
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.training.data.column import IndexRange, fault

VIEWS = (Broadcast, Cast, Reshape, Slice, Transpose)


def index_ranges(graph: Graph) -> dict[str, IndexRange]:
    """The valid numbers of each such input by name: the intersection over all its uses."""
    ranges: dict[str, IndexRange] = {}
    for node in graph.nodes():
        if isinstance(node.op, Classes):
            indices, count = node.inputs[1], node.inputs[0].type.shape[node.op.axis]
            ignored = node.op.ignore
        elif isinstance(node.op, Embedding):
            indices, count, ignored = node.inputs[0], node.op.count, None
        else:
            continue
        if not isinstance(count, int):
            continue
        while isinstance(indices.op, VIEWS) and indices.inputs[0].type.dtype.is_integer:
            indices = indices.inputs[0]
        leaf = indices.op
        if isinstance(leaf, Param) and leaf.kind == "input" and indices.type.dtype.is_integer:
            own = IndexRange(0, count - 1, frozenset() if ignored is None else frozenset([ignored]))
            ranges[leaf.name] = own & ranges.get(leaf.name, own)
    return ranges


def in_range(arrays: Mapping[str, Any], ranges: Mapping[str, IndexRange]) -> Mapping[str, Any]:
    """The arrays of a batch, by input. Raises SourceError for the first integer that is not in the
    range of its input; values of other types are not looked at.
    """
    for name, held in ranges.items():
        numbers = np.asarray(arrays.get(name, ()))
        at = held.first_outside(numbers) if numbers.dtype.kind in "iu" else None
        if at is not None:
            where = f" at {list(at)}" if at else ""
            problem = f"input '{name}' is {numbers[at]}{where}, and its range is {held}"
            raise fault("XL6307", f"{problem}")
    return arrays
