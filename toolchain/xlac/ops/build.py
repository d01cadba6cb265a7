"""Makes nodes as users write them. `apply` makes any operation by name; the rest are the usual ones
as functions.

How numbers, element types and shapes meet is said in `values`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlac.ir.dims import Dim, Sym, bounds
from xlac.ir.graph import Node
from xlac.ir.op import OPS, Op, ShapeError, arity, normal_axis
from xlac.ops.checks import FLOATS
from xlac.ops.nodes import (
    add,
    along,
    axes_of,
    back,
    compare,
    concat,
    cut,
    div,
    dot,
    exp,
    graph,
    iota,
    log,
    maximum,
    minimum,
    mul,
    pad,
    reduce,
    reshape,
    restore,
    select,
    slice_,
    sort,
    sqrt,
    sub,
    take,
    transpose,
)
from xlac.ops.reduction import cumulative, order
from xlac.ops.scalar import arithmetic, comparison
from xlac.ops.tensor import leaf
from xlac.ops.values import (
    Value,
    Weak,
    as_node,
    broadcast_shapes,
    broadcast_to,
    cast,
    compute,
    constant,
    floating,
    full,
    like,
    param,
    pick,
    promote,
    promoted,
    results,
    spread,
    unify,
)
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

__all__ = [
    "FORMS", "Value", "Weak", "add", "along", "apply", "apply1", "as_node", "axes_of", "back", "broadcast_shapes", "broadcast_to", "cast",
    "compare", "compute", "concat", "constant", "cut", "div", "dot", "exp", "floating", "from_end", "full", "graph", "index", "iota", "like",
    "log", "make", "maximum", "minimum", "mul", "pad", "param", "pick", "promote", "promoted", "python_slice", "reduce",
    "reshape", "restore", "results", "select", "slice_", "sort", "spread", "sqrt", "sub", "take", "transpose", "unify",
]  # fmt: skip


def apply(
    mnemonic: str, *inputs: Value, origin: Origin | None = None, **attributes: Any
) -> Node | tuple[Node, ...]:
    """The named operation; a tuple of nodes when it has several results.

    Scalar operations broadcast and promote; views accept short forms. Numbers and arrays become
    constants. Raises ShapeError, and KeyError for an unknown name.
    """
    if mnemonic in FORMS:
        return told(placed(FORMS[mnemonic](*inputs, **attributes), origin))
    cls = OPS[mnemonic]
    if issubclass(cls, arithmetic.Scalar | comparison.Compare):
        least, most = arity(cls)
        if not least <= len(inputs) <= (most or len(inputs)):
            raise ShapeError(f"{mnemonic} takes {least} operands, got {len(inputs)}")
        nodes = unify(*inputs)
        if issubclass(cls, arithmetic.Scalar) and cls.accepts == FLOATS:
            nodes = tuple(floating(n) for n in nodes)
    elif hasattr(cls, "prepare"):  # it says itself how values are made to fit
        least, most = arity(cls)
        if not least <= len(inputs) <= (most or len(inputs)):
            raise ShapeError(f"{mnemonic} takes {counted(least, most)}, got {len(inputs)}")
        nodes = cls.prepare(inputs)
    else:
        nodes = tuple(as_node(i) for i in inputs)
    return told(make(cls, nodes, attributes, origin))


def apply1(mnemonic: str, *inputs: Value, **attributes: Any) -> Node:
    """`apply` for an operation that has one result."""
    found = apply(mnemonic, *inputs, **attributes)
    assert isinstance(found, Node)
    return found


def told(node: Node) -> Node | tuple[Node, ...]:
    """An operation and the types of its inputs, for a message."""
    return node if len(node.results) == 1 else results(node)


def make(
    cls: type[Op], nodes: Sequence[Node], attributes: dict[str, Any], origin: Origin | None = None
) -> Node:
    """A node of an operation from exact operands; attributes given as lists become tuples."""
    least, most = arity(cls)
    op = cls(**{name: frozen(value) for name, value in attributes.items()})
    if len(nodes) < least:
        raise ShapeError(f"{cls.mnemonic} takes {counted(least, most)}, got {len(nodes)}")
    if most is not None and len(nodes) > most:
        learned = op.parameters(*(n.type for n in nodes[:most]))
        if len(nodes) > most + len(learned):
            raise ShapeError(f"{cls.mnemonic} takes {counted(least, most)}, got {len(nodes)}")
    return Node.of(op, *nodes, origin=origin)


def counted(least: int, most: int | None) -> str:
    """How many operands an operation takes, for a message."""
    few = (
        f"{least}"
        if least == most
        else f"at least {least}"
        if most is None
        else f"{least} to {most}"
    )
    return f"{few} operand{'s' if few != '1' else ''}"


def frozen(value: Any) -> Any:
    """Lists inside an attribute as tuples."""
    return tuple(frozen(v) for v in value) if isinstance(value, list | tuple) else value


def placed(node: Node, origin: Origin | None) -> Node:
    """The node with an origin, unless it has one of its own."""
    if origin is None or node.origin is not None or isinstance(node.op, leaf.Param):
        return node
    return Node(node.op, node.inputs, node.types, origin)


def _transpose(x: Value, perm: Sequence[int] | None = None) -> Node:
    return transpose(as_node(x), perm)


def _reshape(x: Value, shape: Sequence[Dim] = ()) -> Node:
    return reshape(as_node(x), shape)


def _broadcast(x: Value, shape: Sequence[Dim] = (), axes: Sequence[int] | None = None) -> Node:
    node = as_node(x)
    return broadcast_to(node, shape) if axes is None else spread(node, tuple(shape), axes)


def _concat(*xs: Value, axis: int = 0) -> Node:
    return concat([as_node(x) for x in xs], axis)


def _slice(
    x: Value,
    starts: Sequence[Dim] | Dim,
    stops: Sequence[Dim | None] | Dim,
    steps: Sequence[int] | int | None = None,
    axes: Sequence[int] | int | None = None,
) -> Node:
    """Bounds an axis as Python writes them: negative ones count from the end, too large ones are
    cut off.
    """
    node = as_node(x)
    rank = node.type.rank
    many = [
        [v] if isinstance(v, int) or not isinstance(v, Sequence) else list(v)
        for v in (starts, stops)
    ]
    chosen = (
        list(range(len(many[0])))
        if axes is None
        else [axes]
        if isinstance(axes, int)
        else list(axes)
    )
    step = (
        [1] * len(chosen) if steps is None else [steps] if isinstance(steps, int) else list(steps)
    )
    if not len(many[0]) == len(many[1]) == len(step) == len(chosen):
        raise ShapeError("slice needs as many starts as stops, steps and axes", attribute="starts")
    first: list[Dim] = [0] * rank
    last: list[Dim] = list(node.shape)
    by = [1] * rank
    for axis, start, stop, k in zip(chosen, many[0], many[1], step, strict=True):
        spot = normal_axis(axis, rank)
        first[spot], last[spot], by[spot] = python_slice(start, stop, k, node.shape[spot])
    return slice_(node, first, last, by)


def python_slice(start: Dim | None, stop: Dim | None, step: int, size: Dim) -> tuple[Dim, Dim, int]:
    """Bounds of a Python slice of an axis as the primitive wants them."""
    if step == 0:
        raise ShapeError("the step of a slice is 0", attribute="steps")
    if isinstance(size, int) and not isinstance(start, Sym) and not isinstance(stop, Sym):
        low, high, step = slice(start, stop, step).indices(size)
        empty = low >= high if step > 0 else low <= high
        return (0, 0, 1) if empty else (low, high, step)
    if start is None:
        start = 0 if step > 0 else size - 1
    elif isinstance(start, int) and start < 0:
        start = size + start
    if stop is None:
        stop = size if step > 0 else -1
    elif isinstance(stop, int) and stop < 0:
        stop = size + stop
    if isinstance(stop, int) and bounds(size)[0] < stop and bounds(size)[1] <= stop:
        stop = size
    return start, stop, step


def _select(condition: Value, x: Value, y: Value) -> Node:
    return select(condition, x, y)


def _cast(x: Value, dtype: DType) -> Node:
    return cast(as_node(x), dtype)


def _cumulative(x: Value, axis: int = 0, **attributes: Any) -> Node:
    node = as_node(x)
    return Node.of(cumulative.Cumulative(normal_axis(axis, node.type.rank), **attributes), node)


def _sort(*xs: Value, axis: int = -1, **attributes: Any) -> Node:
    nodes = [as_node(x) for x in xs]
    if not nodes:
        raise ShapeError("sort needs at least one tensor")
    return Node.of(order.Sort(normal_axis(axis, nodes[0].type.rank), **attributes), *nodes)


FORMS: dict[str, Callable[..., Node]] = {
    "transpose": _transpose, "reshape": _reshape, "broadcast": _broadcast, "concat": _concat, "slice": _slice,
    "select": _select, "cast": _cast, "cumulative": _cumulative, "sort": _sort,
}  # fmt: skip
"""Primitives that users write in a shorter form than the graph holds."""


# ---- indexing as Python writes it --------------------------------------------------------------


def index(x: Node, key: Any) -> Node:
    """`x[key]`: integers, slices, None, an ellipsis, and one integer tensor (negative entries count
    from the end).

    Raises ShapeError whose `operand` is the number of the entry at fault.
    """
    entries = list(key) if isinstance(key, tuple) else [key]
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > x.type.rank or entries.count(Ellipsis) > 1:
        raise ShapeError(f"{used} indices do not fit {x.type}")
    if Ellipsis not in entries:
        entries.append(Ellipsis)
    spot = entries.index(Ellipsis)
    entries[spot : spot + 1] = [slice(None)] * (x.type.rank - used)
    return _shaped(x, entries)


def _shaped(x: Node, entries: Sequence[Any]) -> Node:
    first: list[Dim] = []
    last: list[Dim] = []
    steps: list[int] = []
    tensors: list[tuple[int, Node]] = []  # axis of x, indices
    axis = 0
    for number, entry in enumerate(entries):
        if entry is None:
            continue
        size = x.shape[axis]
        if isinstance(entry, slice):
            start, stop, step = python_slice(entry.start, entry.stop, entry.step or 1, size)
        elif isinstance(entry, Node) and entry.type.dtype.is_integer:
            tensors.append((axis, entry))
            start, stop, step = 0, size, 1
        elif isinstance(entry, int | Sym):
            if isinstance(entry, int) and isinstance(size, int) and not -size <= entry < size:
                raise ShapeError(
                    f"index {entry} is out of range for axis {axis} of {x.type}", operand=number
                )
            start = entry if isinstance(entry, Sym) or entry >= 0 else size + entry
            stop, step = start + 1, 1
        else:
            raise ShapeError(f"cannot index with {entry}", operand=number)
        first, last, steps, axis = [*first, start], [*last, stop], [*steps, step], axis + 1
    if len(tensors) > 1:
        raise ShapeError("only one index may be a tensor; use gather for more")
    found = slice_(x, first, last, steps)
    for axis, indices in tensors:
        found = take(found, from_end(indices, found.shape[axis]), axis)
    shape: list[Dim] = []
    axis = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
        elif isinstance(entry, Node):
            shape += found.shape[axis : axis + entry.type.rank]
            axis += entry.type.rank
        else:
            shape += [found.shape[axis]] if isinstance(entry, slice) else []
            axis += 1
    return reshape(found, shape)


def from_end(indices: Node, size: Dim) -> Node:
    """Indices whose negative entries count from the end, as plain ones."""
    if not indices.type.dtype.is_signed:
        return indices
    if not isinstance(size, int):
        raise ShapeError(f"indices into an axis of symbolic size {size} must be unsigned")
    wide = cast(indices, DType.I64)
    return select(compare(wide, "lt", 0), add(wide, size), wide)
