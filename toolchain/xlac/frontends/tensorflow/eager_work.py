"""What TensorFlow itself does to run a function: how many operations, in how many scopes of names,
which layers of Keras open, and how many bytes they read and write.
"""

from __future__ import annotations

from typing import Any, NamedTuple

FREE = frozenset({"Placeholder", "Const", "NoOp", "Identity"})
"""Operations of a graph that eager code does not run."""
NO_MEMORY = frozenset({"ReadVariableOp", "Reshape", "Squeeze", "ExpandDims", "Shape"})
"""Operations that move no elements."""


class EagerWork(NamedTuple):
    """Of one call. Operations of functions that others call, and of loops, count once."""

    operations: int
    scopes: int
    moved: int  # bytes


def eager_work(graph: Any) -> EagerWork:
    """The work of a function's graph, as TensorFlow traced it."""
    scopes, count, moved = set(), 0, 0
    for operation in graph.get_operations():
        if operation.type in FREE:
            continue
        count += 1
        scope = operation.name.rpartition("/")[0]
        while scope:
            scopes.add(scope)
            scope = scope.rpartition("/")[0]
        if operation.type not in NO_MEMORY:
            moved += sum(map(_nbytes, (*operation.inputs, *operation.outputs)))
    called = graph.as_graph_def().library.function
    count += sum(node.op not in FREE for function in called for node in function.node_def)
    return EagerWork(count, len(scopes), moved)


def _nbytes(tensor: Any) -> int:
    """The bytes of a tensor; 0 where its sizes are not known, or it has no numbers."""
    size = tensor.shape.num_elements()
    kind = tensor.dtype.base_dtype
    return int(size * kind.size) if size and (kind.is_numpy_compatible) else 0
