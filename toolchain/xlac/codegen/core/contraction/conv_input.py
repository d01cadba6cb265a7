"""The input of a convolution as its windows read it: a view, or a padded copy."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core import operands
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction.contraction import Edge
from xlac.codegen.core.contraction.conv_input_choice import Borders, borders
from xlac.codegen.core.contraction.phases import Phase
from xlac.codegen.core.lowered_group import KernelLaunch, LowerPart, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.schedules.operands import ConvInputSchedule
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import Dim, size_hint
from xlac.ir.graph import Node
from xlac.ir.op import frozen_array
from xlac.ops.checks import extent
from xlac.ops.tensor import leaf, view
from xlac.ops.tensor.extend import Concat, Pad
from xlac_sdk.target import Target


def windowed_input(
    group: Group,
    target: Target,
    name: str,
    lower_part: LowerPart,
    schedule: ConvInputSchedule,
    phases: Sequence[Phase],
) -> tuple[OperandView, dict[str, Edge], tuple[KernelLaunch, ...]]:
    """x as the windows read it, the borders where windows leave it, and the kernels that copy it,
    if a copy is needed.
    """
    x, around = group.anchor.inputs[0], borders(group.anchor, phases)
    if schedule.order is not None:
        padded, launches = _padded(group, schedule.order, around, target, f"{name}_pad", lower_part)
        return padded, {}, launches
    seen, launches = operands.seen(x, group, target, f"{name}_x", lower_part)
    start = seen.offset
    for n, stride in zip(around.low, seen.strides, strict=True):
        start = start - stride * n
    return OperandView(seen.value, seen.strides, start), around.edges, launches


def _moves(perm: tuple[int, ...], seen: OperandView) -> bool:
    """Whether a permutation of axes changes their order in memory."""
    strides = [seen.strides[axis] for axis in perm if seen.strides[axis] != 0]
    return strides != sorted(strides, key=lambda stride: -size_hint(stride))


def _padded(
    group: Group,
    perm: tuple[int, ...],
    around: Borders,
    target: Target,
    name: str,
    lower_part: LowerPart,
) -> tuple[OperandView, tuple[KernelLaunch, ...]]:
    """A copy of x with its padding, its axes permuted."""
    x = group.anchor.inputs[0]
    shape = [x.shape[axis] for axis in perm]
    low: list[Dim] = [around.low[axis] for axis in perm]
    high: list[Dim] = [around.high[axis] for axis in perm]
    gaps = [around.gaps[axis] for axis in perm]
    steps = row_major(
        tuple(
            n + extent(n - 1) * g + (a + b)
            for a, b, g, n in zip(low, high, gaps, shape, strict=True)
        )
    )
    # axes without padding are merged with the row
    while len(shape) > 1 and not (low[-1] or high[-1] or gaps[-1] or gaps[-2]):
        if not isinstance(shape[-1], int) and (low[-2] or high[-2]):
            break  # the padding of the merged axis would not be static
        size = shape.pop()
        shape[-1] = shape[-1] * size
        for n in (low, high):
            n.pop()
            n[-1] = n[-1] * size
        gaps.pop()
    turned = Node.of(view.Transpose(perm), x)
    zero = Node.of(leaf.Const(value=frozen_array(0, x.type.dtype.numpy)))
    made_of: tuple[Node, ...] = (turned,)
    turns = operands.resolve(x, group)
    crosses = turns is not None and _moves(perm, turns)
    if any(low) or any(high) or any(gaps):
        row = Node.of(view.Reshape(tuple(shape)), turned)
        if x.type.dtype.nbytes > 1 and not any(gaps) and _around(low, high, target):
            made_of = (turned, row, *_framed(row, zero, low, high))
        else:
            padding = Pad(low=tuple(low), high=tuple(high), interior=tuple(gaps))
            made_of = (turned, row, Node.of(padding, row, zero))
    copy = made_of[-1]
    strides = tuple(steps[perm.index(axis)] for axis in range(len(perm)))
    if len(made_of) > 1 and crosses and x.type.dtype.nbytes == 1:
        copied, launches = _turned_first(group, made_of, zero, target, name, lower_part)
        return OperandView(copied.value, strides), launches
    wide = Group(
        Kind.ELEMENTWISE,
        copy,
        (*group.nodes, *made_of),
        (*group.inputs, *([zero] if len(made_of) > 1 else [])),
        (copy,),
        "pads the input",
    )
    copied, launches = operands.materialize(copy, wide, target, name, lower_part)
    return OperandView(copied.value, strides), launches


def _around(low: Sequence[Dim], high: Sequence[Dim], target: Target) -> bool:
    """Whether the padding can be written piece by piece: static sizes, and a CPU, where pieces cost
    no launch.
    """
    return target.device != "gpu" and all(isinstance(n, int) and n >= 0 for n in (*low, *high))


def _framed(x: Node, zero: Node, low: Sequence[Dim], high: Sequence[Dim]) -> Sequence[Node]:
    """x with zeros concatenated along each axis, from the last to the first. Pieces are written
    separately, so that the copy of x is a plain one, or a transposition done in registers.
    """
    nodes: list[Node] = []
    for axis in reversed(range(len(x.shape))):
        if not (low[axis] or high[axis]):
            continue
        before, after = (
            [Node.of(view.Broadcast((*x.shape[:axis], many, *x.shape[axis + 1 :])), zero)]
            if many
            else []
            for many in (low[axis], high[axis])
        )
        x = Node.of(Concat(axis=axis), *before, x, *after)
        nodes += [*before, *after, x]
    return nodes


def _turned_first(
    group: Group,
    made_of: tuple[Node, ...],
    zero: Node,
    target: Target,
    name: str,
    lower_part: LowerPart,
) -> tuple[OperandView, tuple[KernelLaunch, ...]]:
    """Transposes bytes in registers first, then pads them by rows; a single kernel for both could
    do neither well.
    """
    turned, *after = made_of
    first = Group(
        Kind.ELEMENTWISE, turned, (*group.nodes, turned), group.inputs, (turned,), "an operand"
    )
    seen, before = operands.materialize(turned, first, target, f"{name}_turned", lower_part)
    assert isinstance(seen.value, Scratch)
    copy = after[-1]
    then = Group(Kind.ELEMENTWISE, copy, tuple(after), (turned, zero), (copy,), "pads the input")
    padded, launches = operands.materialize(copy, then, target, name, lower_part)
    return padded, (*before, *operands.with_scratch(launches, {turned: seen.value}))
