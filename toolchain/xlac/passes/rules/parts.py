"""Merges slices, pads and concatenations with each other, and moves slices before other views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.permutations import inverse
from xlac.ops.tensor.extend import Concat, Pad
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.passes.rewrite.rule import Parameter, Site, constant, rule
from xlac.passes.rules.views import Ints, broadcast, integers, reshape, transpose, units_added

Span = tuple[int, int, int]  # start, stop, step


def cut(x: Node, starts: Ints, stops: Ints, steps: Ints = ()) -> Node:
    """A slice of x."""
    return Node.of(Slice(starts, stops, steps or (1,) * len(starts)), x)


def pad(x: Node, low: Ints, high: Ints, value: float = 0.0) -> Node:
    """x padded with one number."""
    return Node.of(Pad(low, high, (0,) * len(low)), x, Node.of(Const(np.array(value, np.float32))))


def concat(axis: int, *xs: Node) -> Node:
    """An example: values joined along an axis."""
    return Node.of(Concat(axis), *xs)


@rule(
    Slice,
    examples=[
        lambda p: cut(p(3, 4), (0, 0), (3, 4)),
        lambda p: cut(cut(p(9, 4), (1, 0), (9, 4), (2, 1)), (1, 1), (4, 3)),
        lambda p: cut(cut(p(9), (8,), (-1,), (-1,)), (1,), (7,), (2,)),
        lambda p: cut(cut(p(9), (1,), (8,), (3,)), (2,), (-1,), (-1,)),
        lambda p: cut(broadcast(p(4), (3, 4), (1,)), (1, 2), (3, 4)),
        lambda p: cut(transpose(p(3, 4), 1, 0), (1, 0), (3, 2)),
        lambda p: cut(concat(1, p(2, 3), p(2, 4)), (0, 4), (2, 6)),
        lambda p: cut(concat(0, p(2), p(4)), (0,), (2,)),
        lambda p: cut(pad(p(4), (2,), (3,)), (2,), (5,)),
        lambda p: cut(reshape(p(4, 5), 1, 4, 1, 5), (0, 1, 0, 4), (1, 3, 1, -1), (1, 1, 1, -2)),
    ],
)
def merge_slice(node: Node, site: Site) -> Node | None:
    """Removes a full slice, merges slices of slices, and moves a slice before a view where less
    data is moved then.
    """
    assert isinstance(node.op, Slice)
    op, (x,) = node.op, node.inputs
    if x.shape == node.shape and all(step == 1 for step in op.steps):
        return x
    starts, stops, shape = integers(op.starts), integers(op.stops), integers(node.shape)
    if starts is None or stops is None or shape is None:
        return None
    spans = list(zip(starts, stops, op.steps, strict=True))
    if isinstance(x.op, Slice) and (firsts := integers(x.op.starts)) is not None:
        return site.make(_inside(firsts, x.op.steps, spans, shape), x.inputs[0])
    if isinstance(x.op, Broadcast):
        inner = [
            spans[a] if size != 1 else (0, 1, 1)
            for a, size in zip(x.op.axes, x.inputs[0].shape, strict=True)
        ]
        return site.make(Broadcast(node.shape, x.op.axes), _sliced(x.inputs[0], inner, site))
    if isinstance(x.op, Transpose):
        return site.make(
            x.op, _sliced(x.inputs[0], [spans[x.op.perm.index(a)] for a in range(len(spans))], site)
        )
    kept = units_added(x.inputs[0].shape, x.shape) if isinstance(x.op, Reshape) else None
    if kept is not None and all(span[0] < span[1] for a, span in enumerate(spans) if a not in kept):
        return site.make(Reshape(node.shape), _sliced(x.inputs[0], [spans[a] for a in kept], site))
    if isinstance(x.op, Concat):
        return _slice_of_concat(spans, x, x.op.axis, site)
    lows = integers(x.op.low) if isinstance(x.op, Pad) and not any(x.op.interior) else None
    if lows is not None and (sizes := integers(x.inputs[0].shape)) is not None:
        moved = []
        for (start, stop, step), low, size in zip(spans, lows, sizes, strict=True):
            least, most = (start, stop) if step > 0 else (stop + 1, start + 1)
            if not (least - low >= 0 and most - low <= size):
                return None
            moved.append((start - low, stop - low, step))
        return _sliced(x.inputs[0], moved, site)
    return None


def _sliced(x: Node, spans: Sequence[Span], site: Site) -> Node:
    starts, stops, steps = (tuple(span[i] for span in spans) for i in range(3))
    return site.make(Slice(starts, stops, steps), x)


def _inside(firsts: Ints, strides: Ints, spans: Sequence[Span], shape: Ints) -> Slice:
    """One slice equal to a slice (`spans`, giving `shape`) of a slice (`firsts`, `strides`)."""
    composed: list[Span] = []
    for first, stride, (inner, _, step), count in zip(firsts, strides, spans, shape, strict=True):
        start, by = first + inner * stride, step * stride
        last = start + (count - 1) * by
        composed.append((start, last + 1 if by > 0 else last - 1, by) if count else (0, 0, 1))
    starts, stops, steps = (tuple(span[i] for span in composed) for i in range(3))
    return Slice(starts, stops, steps)


def _slice_of_concat(spans: Sequence[Span], x: Node, axis: int, site: Site) -> Node | None:
    """A slice that lies within one operand of a concatenation."""
    start, stop, step = spans[axis]
    least, most = (start, stop) if step > 0 else (stop + 1, start + 1)
    offset = 0
    for part in x.inputs:
        size = part.shape[axis]
        if not isinstance(size, int):
            return None
        if offset <= least and most <= offset + size:
            return _sliced(
                part,
                [*spans[:axis], (start - offset, stop - offset, step), *spans[axis + 1 :]],
                site,
            )
        offset += size
    return None


@rule(
    Pad,
    examples=[
        lambda p: pad(p(3, 4), (0, 0), (0, 0)),
        lambda p: pad(pad(p(3), (1,), (2,)), (2,), (0,)),
        lambda p: pad(p(9, 4), (-2, 0), (-3, 0)),
        lambda p: pad(transpose(p(3, 4), 1, 0), (1, 0), (0, 2)),
        lambda p: pad(broadcast(Node.of(Const(np.zeros((), np.float32))), (3,), ()), (2,), (1,)),
    ],
)
def merge_pad(node: Node, site: Site) -> Node | None:
    """Removes an empty pad, merges pads with the same value, moves a pad before a transpose; a pad
    that only crops becomes a slice.
    """
    assert isinstance(node.op, Pad)
    op, (x, value) = node.op, node.inputs
    if x.shape == node.shape and not any((*op.low, *op.high, *op.interior)):
        return x
    low, high, sizes = integers(op.low), integers(op.high), integers(x.shape)
    if any(op.interior) or low is None or high is None or sizes is None:
        return None
    filler = constant(value)
    if (
        filler is not None
        and (inner := constant(x)) is not None
        and inner.tobytes() == filler.tobytes()
    ):
        return site.make(Broadcast(node.shape, ()), value)
    if all(v <= 0 for v in (*low, *high)):
        return _sliced(x, [(-a, n + b, 1) for a, b, n in zip(low, high, sizes, strict=True)], site)
    if isinstance(x.op, Transpose):
        back = inverse(x.op.perm)
        moved = Pad(tuple(low[a] for a in back), tuple(high[a] for a in back), op.interior)
        return site.make(x.op, site.make(moved, x.inputs[0], value))
    if not isinstance(x.op, Pad) or any(x.op.interior):
        return None
    before, behind, again = integers(x.op.low), integers(x.op.high), constant(x.inputs[1])
    same = x.inputs[1] is value or (
        again is not None and filler is not None and again.tobytes() == filler.tobytes()
    )
    if before is None or behind is None or not same or min((0, *low, *high, *before, *behind)) < 0:
        return None
    both = Pad(
        tuple(a + b for a, b in zip(low, before, strict=True)),
        tuple(a + b for a, b in zip(high, behind, strict=True)),
        op.interior,
    )
    return site.make(both, x.inputs[0], value)


def _halves(p: Parameter) -> Node:
    x = p(5, 3)
    return concat(0, cut(x, (0, 0), (2, 3)), cut(x, (2, 0), (5, 3)))


@rule(
    Concat,
    examples=[
        lambda p: concat(0, p(3)),
        lambda p: concat(0, p(0, 2), p(3, 2), p(0, 2)),
        lambda p: concat(1, concat(1, p(2, 3), p(2, 1)), p(2, 2)),
        lambda p: concat(0, transpose(p(2, 3), 1, 0), transpose(p(2, 4), 1, 0)),
        _halves,
    ],
)
def merge_concat(node: Node, site: Site) -> Node | None:
    """Simplifies concatenations of a single operand, of empty ones, of concatenations, of adjacent
    slices, and of transposes.
    """
    assert isinstance(node.op, Concat)
    axis, xs = node.op.axis, list(node.inputs)
    flat: list[Node] = []
    for x in xs:
        nested = (
            isinstance(x.op, Concat) and x.op.axis == axis and site.single(x) and xs.count(x) == 1
        )
        # operands that occur twice are not merged: nested copies double the code each time
        flat += x.inputs if nested else [x]
    kept = [x for x in flat if x.shape[axis] != 0] or flat[:1]
    joined = kept[:1]
    for x in kept[1:]:
        if (one := _adjacent(joined[-1], x, axis, site)) is not None:
            joined[-1] = one
        else:
            joined.append(x)
    if len(joined) == 1:
        return joined[0]
    if joined != xs:
        return site.make(node.op, *joined)
    first = joined[0].op
    if isinstance(first, Transpose) and all(x.op == first for x in joined):
        return site.make(first, site.make(Concat(first.perm[axis]), *(x.inputs[0] for x in joined)))
    return None


def _adjacent(a: Node, b: Node, axis: int, site: Site) -> Node | None:
    """Two adjacent slices of one tensor, as a single slice."""
    if not (isinstance(a.op, Slice) and isinstance(b.op, Slice)) or a.inputs != b.inputs:
        return None
    others = [i for i in range(len(a.op.starts)) if i != axis]
    same = all((a.op.starts[i], a.op.stops[i]) == (b.op.starts[i], b.op.stops[i]) for i in others)
    if not same or set(a.op.steps + b.op.steps) != {1} or a.op.stops[axis] != b.op.starts[axis]:
        return None
    stops = tuple(b.op.stops[i] if i == axis else stop for i, stop in enumerate(a.op.stops))
    return site.make(Slice(a.op.starts, stops, a.op.steps), a.inputs[0])


PARTS = (merge_slice, merge_pad, merge_concat)
