"""Batching: how attributes and operands change when an operation gets a new leading axis that it
does not touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.op import OPS, Op
from xlac.ir.types import Type

AXES, BATCH, SIZE = "axes", "batch", "size"
"""What becomes of an attribute. AXES: each axis number grows by one; negative ones and None stay.
BATCH: as AXES, and 0 is put before them. SIZE: the size of the new axis is put before it. A number:
that number is put before it.
"""


def widened(op: Op, size: Dim) -> Op:
    """The operation for operands that all have a leading axis of `size`, as its `leading`
    declares.
    """
    assert op.leading is not None
    return replace(
        op, **{name: _changed(getattr(op, name), how, size) for name, how in op.leading.items()}
    )


def _changed(value: Any, how: str | int, size: Dim) -> Any:
    if how == AXES:
        if value is None or isinstance(value, int):
            return value if value is None or value < 0 else value + 1
        return tuple(_changed(axis, AXES, size) for axis in value)
    if how == BATCH:
        return (0, *_changed(value, AXES, size))
    return (size if how == SIZE else how, *value)


def widened_axes(axes: Sequence[int]) -> tuple[int, ...]:
    """Axis numbers, each one greater."""
    return tuple(axis + 1 for axis in axes)


def with_axis(node: Node, size: Dim) -> Node:
    """A node broadcast along a new leading axis."""
    rank = node.type.rank
    return apply("broadcast", node, shape=(size, *node.shape), axes=tuple(range(1, rank + 1)))


def all_mapped(inputs: Sequence[Node], mapped: Sequence[bool], size: Dim) -> list[Node]:
    """The inputs, those without the leading axis broadcast along it."""
    return [i if on else with_axis(i, size) for i, on in zip(inputs, mapped, strict=True)]


def one_by_one(
    node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
) -> Sequence[Node]:
    """The results of a node with a leading axis, computed slice by slice in a loop: for operations
    that have no batched form.
    """
    param: Any = OPS["param"]
    scan: Any = OPS["scan"]
    given = [(i, of.type) for i, of, on in zip(inputs, node.inputs, mapped, strict=True) if on]
    fixed = [(i, of.type) for i, of, on in zip(inputs, node.inputs, mapped, strict=True) if not on]
    params = [Node.of(param(f"x{n}", t)) for n, (_, t) in enumerate([*given, *fixed])]
    first, rest = iter(params[: len(given)]), iter(params[len(given) :])
    inner = node.with_inputs(tuple(next(first if on else rest) for on in mapped))
    body = Graph(
        node.op.mnemonic, tuple(params), {f"y{n}": r for n, r in enumerate(results(inner))}
    )
    op = scan(body, size, 0, len(given))
    return results(Node.of(op, *(i for i, _ in given), *(i for i, _ in fixed), origin=node.origin))


def results(node: Node) -> list[Node]:
    """All results of a node."""
    if isinstance(node.types, Type):
        return [node]
    pick: Any = OPS["pick"]
    return [Node(pick(n), (node,), t, node.origin) for n, t in enumerate(node.types)]


def folded(
    node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim, count: int = 1
) -> Sequence[Node] | None:
    """Batching by merging the leading axis into axis 0. For an operation whose first `count`
    operands, and whose result, have independent examples along axis 0. None where other operands
    are mapped.
    """
    if any(mapped[count:]):
        return None
    xs = [
        apply("reshape", x, shape=(size * x.shape[1], *x.shape[2:]))
        for x in all_mapped(inputs[:count], mapped[:count], size)
    ]
    new = Node.of(node.op, *xs, *inputs[count:], origin=node.origin)
    return [apply("reshape", new, shape=(size, *node.shape))]


def with_initial_scalars(
    node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
) -> Sequence[Node]:
    """Batches an operation whose second half of operands are initial scalars of its body, which
    stay scalars. Where one is mapped, slices are computed one by one.
    """
    half = len(inputs) // 2
    if any(mapped[half:]):
        return one_by_one(node, inputs, mapped, size)
    xs = all_mapped(inputs[:half], mapped[:half], size)
    return results(Node.of(widened(node.op, size), *xs, *inputs[half:]))
