"""Functions that build nodes of primitives more conveniently than `Node.of`: broadcasting,
keepdims, short arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlac.ir.dims import Dim, Shape, volume
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ir.types import Type
from xlac.ops.checks import dims, undivided
from xlac.ops.reduction import contraction, order, reduction
from xlac.ops.scalar import arithmetic, comparison, exponential
from xlac.ops.tensor import extend, gather, leaf, view
from xlac.ops.values import (
    Value,
    as_node,
    broadcast_shapes,
    broadcast_to,
    cast,
    promoted,
    results,
    spread,
    unify,
)
from xlac_sdk.dtypes import DType


def add(x: Value, y: Value) -> Node:
    """x + y, of any shapes that broadcast and types that promote."""
    return Node.of(arithmetic.Add(), *unify(x, y))


def sub(x: Value, y: Value) -> Node:
    """x - y, of any shapes that broadcast and types that promote."""
    return Node.of(arithmetic.Sub(), *unify(x, y))


def mul(x: Value, y: Value) -> Node:
    """x * y, of any shapes that broadcast and types that promote."""
    return Node.of(arithmetic.Mul(), *unify(x, y))


def div(x: Value, y: Value) -> Node:
    """x / y, of any shapes that broadcast and types that promote."""
    return Node.of(arithmetic.Div(), *unify(x, y))


def maximum(x: Value, y: Value) -> Node:
    """The larger of x and y, element by element."""
    return Node.of(arithmetic.Max(), *unify(x, y))


def minimum(x: Value, y: Value) -> Node:
    """The smaller of x and y, element by element."""
    return Node.of(arithmetic.Min(), *unify(x, y))


def compare(x: Value, direction: str, y: Value) -> Node:
    """Compares x and y by `direction` (lt le gt ge eq ne), element by element."""
    return Node.of(comparison.Compare(direction), *unify(x, y))


def select(condition: Value, x: Value, y: Value) -> Node:
    """x where the condition holds, else y; all three broadcast."""
    x, y = unify(x, y)
    test = as_node(condition, DType.BOOL)
    shape = broadcast_shapes([test.shape, x.shape])
    return Node.of(comparison.Select(), *(broadcast_to(n, shape) for n in (test, x, y)))


def exp(x: Node, flush: bool = False) -> Node:
    """e to the power x; with `flush`, 0 where that is below the smallest normal number."""
    return Node.of(exponential.Exp(flush), x)


def log(x: Node) -> Node:
    """The natural logarithm of x."""
    return Node.of(exponential.Log(), x)


def sqrt(x: Node) -> Node:
    """The square root of x."""
    return Node.of(arithmetic.Sqrt(), x)


# ---- views -----------------------------------------------------------------------------------


def quotient(size: Dim, by: Dim) -> Dim:
    """The exact quotient of two sizes. Raises ValueError where it is known not to be exact."""
    numeric = isinstance(size, int) and not isinstance(by, int)
    part: Dim = 0 if numeric else size // by  # type: ignore[operator]
    if part * by != size:
        raise ValueError(f"{size} cannot be divided by {by}")
    return part


def reshape(x: Node, shape: Sequence[Dim]) -> Node:
    """x in another shape; one extent may be -1, for the remaining elements."""
    wanted = tuple(shape)
    if wanted.count(-1) == 1:
        known = volume(tuple(d for d in wanted if d != -1))
        size = x.type.size
        try:
            left: Dim = quotient(size, known)
        except (ValueError, ZeroDivisionError):
            left = -1
        if left == -1 or left * known != size:
            why = f"{size} elements do not divide into 0"
            if known:
                why = undivided(size, "elements", f"{known}")
            raise ShapeError(f"cannot reshape {x.type} to {dims(wanted)}: {why}", attribute="shape")
        wanted = tuple(left if d == -1 else d for d in wanted)
    return x if wanted == x.shape else Node.of(view.Reshape(wanted), x)


def along(x: Node, axis: int, rank: int, shape: Shape | None = None) -> Node:
    """A vector as a tensor of `rank` with its elements along one axis; spread over `shape` when
    given.
    """
    if shape is not None:
        return spread(x, shape, (axis,))
    return reshape(x, [*[1] * axis, x.shape[0], *[1] * (rank - axis - 1)])


def transpose(x: Node, perm: Sequence[int] | None = None) -> Node:
    """Axes reordered; without `perm`, reversed."""
    rank = x.type.rank
    wanted = (
        tuple(reversed(range(rank))) if perm is None else tuple(normal_axis(p, rank) for p in perm)
    )
    return x if wanted == tuple(range(rank)) else Node.of(view.Transpose(wanted), x)


def slice_(
    x: Node, starts: Sequence[Dim], stops: Sequence[Dim], steps: Sequence[int] | None = None
) -> Node:
    """A slice of x with one start, stop and step per axis, exactly as the primitive."""
    by = tuple(steps or [1] * len(starts))
    sliced = Node.of(view.Slice(tuple(starts), tuple(stops), by), x)
    return x if sliced.shape == x.shape and all(k == 1 for k in by) else sliced


def cut(x: Node, axis: int, start: Dim, stop: Dim, step: int = 1) -> Node:
    """A slice along one axis of x."""
    rank = x.type.rank
    starts: list[Dim] = [0] * rank
    stops, steps = list(x.shape), [1] * rank
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return slice_(x, starts, stops, steps)


def pad(
    x: Node,
    value: Value,
    low: Sequence[Dim],
    high: Sequence[Dim],
    interior: Sequence[int] | None = None,
) -> Node:
    """x padded, exactly as the primitive."""
    between = tuple(interior or [0] * x.type.rank)
    if not any((*low, *high, *between)):
        return x
    return Node.of(extend.Pad(tuple(low), tuple(high), between), x, as_node(value, x.type.dtype))


def concat(xs: Sequence[Node], axis: int = 0) -> Node:
    """Tensors one after another; element types promote."""
    if not xs:
        raise ShapeError("concat needs at least one operand")
    dtype = promoted(xs)
    nodes = [cast(x, dtype) for x in xs]
    return (
        nodes[0]
        if len(nodes) == 1
        else Node.of(extend.Concat(normal_axis(axis, nodes[0].type.rank)), *nodes)
    )


# ---- reductions and contractions -------------------------------------------------------------


def axes_of(axes: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the start, sorted; None means all."""
    if axes is None:
        return tuple(range(rank))
    counted = sorted(normal_axis(a, rank) for a in ((axes,) if isinstance(axes, int) else axes))
    if len(set(counted)) != len(counted):
        raise ShapeError(
            f"axes {list(axes) if not isinstance(axes, int) else axes} name an axis twice",
            attribute="axis",
        )
    return tuple(counted)


def reduce(
    x: Node, combine: str, axes: int | Sequence[int] | None = None, keepdims: bool = False
) -> Node:
    """All elements along axes combined."""
    chosen = axes_of(axes, x.type.rank)
    result = Node.of(reduction.Reduce(chosen, combine), x) if chosen else x
    return restore(result, x.shape, chosen) if keepdims else result


def restore(x: Node, shape: Shape, axes: Sequence[int]) -> Node:
    """A reduced value with its reduced axes put back, with extent 1."""
    return reshape(x, [1 if a in axes else size for a, size in enumerate(shape)])


def back(x: Node, shape: Shape, axes: Sequence[int]) -> Node:
    """A reduced value broadcast to the shape it was reduced from."""
    return spread(x, shape, [a for a in range(len(shape)) if a not in axes])


def dot(
    lhs: Node,
    rhs: Node,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    out_dtype: DType | None = None,
) -> Node:
    """The general dot product."""
    op = contraction.Dot(
        tuple(batch[0]), tuple(batch[1]), tuple(contract[0]), tuple(contract[1]), out_dtype
    )
    return Node.of(op, lhs, rhs)


def iota(shape: Sequence[Dim], axis: int, dtype: DType = DType.I64) -> Node:
    """Counts from 0 along an axis."""
    return Node.of(leaf.Iota(tuple(shape), axis, dtype))


def take(x: Node, indices: Node, axis: int) -> Node:
    """Slices of x along an axis, at indices of any shape, clamped into range."""
    rank, count = x.type.rank, indices.type.rank
    op = gather.Gather(
        offset_dims=(*range(axis), *range(axis + count, rank - 1 + count)),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=count,
        slice_sizes=tuple(1 if a == axis and size != 0 else size for a, size in enumerate(x.shape)),
    )
    return Node.of(op, x, indices)


def sort(
    xs: Sequence[Node], axis: int, descending: bool = False, keys: int = 1, kept: int | None = None
) -> tuple[Node, ...]:
    """Tensors sorted together by the first `keys` of them; the first `kept` elements along the
    axis.
    """
    return results(Node.of(order.Sort(axis, descending, keys, kept=kept), *xs))


# ---- bodies ----------------------------------------------------------------------------------


def graph(name: str, types: Sequence[Type], body: Callable[..., Node | Sequence[Node]]) -> Graph:
    """A closed graph from a Python function of its inputs."""
    inputs = tuple(Node.of(leaf.Param(f"x{n}", t)) for n, t in enumerate(types))
    results = body(*inputs)
    outputs = (results,) if isinstance(results, Node) else tuple(results)
    return Graph(name, inputs, {f"y{n}": node for n, node in enumerate(outputs)})
