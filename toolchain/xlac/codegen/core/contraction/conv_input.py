"""The input of a convolution as its windows move over it: a view, or a copy with its padding."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core import operands
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction.contraction import Edge
from xlac.codegen.core.contraction.phases import Phase
from xlac.codegen.core.lowered_group import KernelLaunch, LowerPart
from xlac.codegen.core.operands import OperandView
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import Dim, size_hint, upper_bound, volume
from xlac.ir.graph import Node
from xlac.ir.op import frozen_array
from xlac.ops.checks import extent
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor import leaf, view
from xlac.ops.tensor.extend import Pad
from xlac_sdk.target import Target


def windowed_input(
    group: Group,
    target: Target,
    name: str,
    lower_part: LowerPart,
    padded: bool,
    phases: Sequence[Phase] = (),
) -> tuple[OperandView, dict[str, Edge], list[KernelLaunch]]:
    """x as the window moves over it, where windows leave it, and the kernels that copy it, if it
    needs a copy.

    When `padded`, it is copied with its padding where windows leave it, and spread, unless its
    windows go over it in `phases`.
    """
    anchor, (x, _) = group.anchor, group.anchor.inputs
    op = anchor.op
    assert isinstance(op, Conv)
    letters, shape = op.layout[0], x.shape
    taps = dict(zip(op.layout[1], anchor.inputs[1].shape, strict=True))
    result = dict(zip(op.layout[2], anchor.shape, strict=True))
    low, high, gaps = [0] * len(shape), [0] * len(shape), [0] * len(shape)
    edges: dict[str, Edge] = {}
    for axis, letter in enumerate(op.spatial):
        at = letters.index(letter)
        low[at], gaps[at] = op.low[axis], op.lhs_dilation[axis] - 1
        high[at] = op.high[axis]
        if phases and letter in phases[0]:
            low[at], stop = reached(letter, phases)
            gaps[at], high[at] = 0, stop - upper_bound(shape[at])
            if low[at] > 0 or high[at] > 0:
                edges[letter] = Edge(low[at], shape[at])
            continue
        size, places, many = shape[at], result[letter], taps[letter]
        # no more than windows see
        if isinstance(size, int) and isinstance(places, int) and isinstance(many, int):
            spread = size + max(0, size - 1) * gaps[at]
            seen = (places - 1) * op.strides[axis] + (many - 1) * op.rhs_dilation[axis] + 1
            high[at] = min(op.high[axis], seen - low[at] - spread) if seen > 0 else op.high[axis]
        if low[at] > 0 or high[at] > 0:
            edges[letter] = Edge(low[at], shape[at])
    found = operands.resolve(x, group)
    launches: list[KernelLaunch] = []
    if not padded:
        if found is None:
            found, made = operands.materialize(x, group, target, f"{name}_x", lower_part)
            launches += made
    elif edges or any(gaps) or x.type.size == 0 or _crosses(anchor, found):
        found = None
    if found is not None:
        start = found.offset
        for n, stride in zip(low, found.strides, strict=True):
            start = start - stride * n
        return OperandView(found.value, found.strides, start), edges, launches
    found, made = _padded(group, low, high, gaps, target, f"{name}_pad", lower_part)
    return found, {}, [*launches, *made]


def reached(letter: str, phases: Sequence[Phase]) -> tuple[int, int]:
    """How far before x the first window begins along an axis, and where the last one stops."""
    along = [p[letter] for p in phases if p[letter].taps]
    if not along:
        return 0, 0
    return -min(a.start for a in along), max(a.stop for a in along)


def _padded(
    group: Group,
    before: list[int],
    after: list[int],
    spread: list[int],
    target: Target,
    name: str,
    lower_part: LowerPart,
) -> tuple[OperandView, tuple[KernelLaunch, ...]]:
    """A copy of x with its padding, its axes in the order in which x lies so that rows are copied
    as rows.
    """
    x = group.anchor.inputs[0]
    found = operands.resolve(x, group)
    perm = _memory_order(found, len(x.shape))
    if _crosses(group.anchor, found):
        letters, spatial = group.anchor.op.layout[0], group.anchor.op.spatial  # type: ignore[attr-defined]
        perm = tuple(letters.index(letter) for letter in f"NC{spatial}")
    shape = [x.shape[axis] for axis in perm]
    low: list[Dim] = [before[axis] for axis in perm]
    high: list[Dim] = [after[axis] for axis in perm]
    gaps = [spread[axis] for axis in perm]
    steps = row_major(
        tuple(
            n + extent(n - 1) * g + (a + b)
            for a, b, g, n in zip(low, high, gaps, shape, strict=True)
        )
    )
    # what is not padded joins its row
    while len(shape) > 1 and not (low[-1] or high[-1] or gaps[-1] or gaps[-2]):
        if not isinstance(shape[-1], int) and (low[-2] or high[-2]):
            break  # its padding would not be a number
        size = shape.pop()
        shape[-1] = shape[-1] * size
        for n in (low, high):
            n.pop()
            n[-1] = n[-1] * size
        gaps.pop()
    turned = Node.of(view.Transpose(perm), x)
    zero = Node.of(leaf.Const(value=frozen_array(0, x.type.dtype.numpy)))
    made_of: tuple[Node, ...] = (turned,)
    if any(low) or any(high) or any(gaps):
        row = Node.of(view.Reshape(tuple(shape)), turned)
        padding = Pad(low=tuple(low), high=tuple(high), interior=tuple(gaps))
        made_of = (turned, row, Node.of(padding, row, zero))
    copy = made_of[-1]
    wide = Group(
        Kind.ELEMENTWISE,
        copy,
        (*group.nodes, *made_of),
        (*group.inputs, *([zero] if zero in copy.inputs else [])),
        (copy,),
        "pads the input",
    )
    found, made = operands.materialize(copy, wide, target, name, lower_part)
    return OperandView(
        found.value, tuple(steps[perm.index(axis)] for axis in range(len(perm)))
    ), made


LONG = 64  # places of a window from which its rows repay to be turned around


def _crosses(anchor: Node, found: OperandView | None) -> bool:
    """Whether each product of a long sum would read another line of memory: a window of many places
    over an x whose neighbours in memory are summed apart, as in gradients for weights of maps whose
    channels come last. Then x is copied with its rows as lines.
    """
    op = anchor.op
    assert isinstance(op, Conv)
    if found is None or not op.spatial:
        return False
    letters = op.layout[0]
    taps = dict(zip(op.layout[1], anchor.inputs[1].shape, strict=True))
    lines = found.strides[letters.index(op.spatial[-1])]
    channels = found.strides[letters.index("C")] if taps["I"] != 1 else 0
    many = size_hint(volume(tuple(taps[letter] for letter in op.spatial))) >= LONG
    return many and lines != 1 and channels != 1 and size_hint(taps[op.spatial[-1]]) > 1


def _memory_order(found: OperandView | None, rank: int) -> tuple[int, ...]:
    """The axes of a view from the one with the longest stride to the one with the shortest."""
    return tuple(
        sorted(range(rank), key=lambda axis: -size_hint(found.strides[axis]) if found else axis)
    )
