"""Resolves the operands of a contraction: a view of a buffer, a constant computed at compile time,
or a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction.contraction import is_constant
from xlac.codegen.core.lowered_group import (
    FoldedOperand,
    KernelLaunch,
    LoweredGroup,
    LowerPart,
    Scratch,
    Value,
)
from xlac.codegen.schedules.operands import OperandCopy
from xlac.fusion import cost
from xlac.fusion.cluster import is_pointwise
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import Dim, Shape, volume, whole
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops.scalar import convert
from xlac.ops.structure import nodes_text
from xlac.ops.tensor import leaf, view
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True)
class OperandView:
    """A strided view of a value. `folded` describes how a constant's elements are computed from the
    value's.

    If it is `computed`, the value is a node of the group, whose elements are computed as they are
    read, by `computed` operations each.
    """

    value: Value
    strides: Shape
    offset: Dim = 0
    folded: FoldedOperand | None = None
    computed: int = 0

    @property
    def key(self) -> str:
        """What identifies the computation of a constant's elements."""
        return self.folded.key if self.folded else ""

    @property
    def others(self) -> tuple[Node, ...]:
        """The constants from which elements are computed beside the value."""
        return self.folded.others if self.folded else ()

    def elements(self, array: Array, *others: Array) -> Array:
        """A constant's elements, from those of the value and of `others`."""
        return self.folded.compute(array, *others) if self.folded else array


def resolve(node: Node, group: Group, *, prologue: bool = False) -> OperandView | None:
    """The view that a node of the group (or an input) is; None if its elements must be computed
    first. With `prologue`, pointwise nodes are views of computed values.
    """
    if node not in group.members:
        return OperandView(node, row_major(node.shape))
    if prologue and is_pointwise(node):
        return OperandView(
            node,
            row_major(node.shape),
            computed=cost.staged(part(group, (node,), frozenset()).nodes),
        )
    if not isinstance(node.op, view.Reshape | view.Broadcast | view.Transpose | view.Slice):
        return None
    operand = resolve(node.inputs[0], group, prologue=prologue)
    return operand and through(operand, node)


def through(operand: OperandView, node: Node) -> OperandView | None:
    """The view of a node that moves elements, given its operand's view; None if strides cannot
    express it.
    """
    match node.op:
        case view.Transpose(perm=perm):
            return replace(operand, strides=tuple(operand.strides[a] for a in perm))
        case view.Broadcast(axes=axes):
            steps: list[Dim] = [0] * len(node.shape)
            for axis, stride, size in zip(axes, operand.strides, node.inputs[0].shape, strict=True):
                steps[axis] = 0 if size == 1 else stride
            return replace(operand, strides=tuple(steps))
        case view.Slice(starts=starts, steps=steps_):
            start: Dim = 0
            for first, stride in zip(starts, operand.strides, strict=True):
                start = start + first * stride
            strides = tuple(s * k for s, k in zip(operand.strides, steps_, strict=True))
            return replace(operand, strides=strides, offset=operand.offset + start)
        case _:
            strides_ = reshaped(node.inputs[0].shape, operand.strides, node.shape)
            return None if strides_ is None else replace(operand, strides=strides_)


def reshaped(old: Shape, strides: Shape, new: Shape) -> Shape | None:
    """The strides of a reshaped view, or None if strides cannot express it."""
    if volume(old) == 0:
        return row_major(new)
    axes = [(n, s) for n, s in zip(old, strides, strict=True) if n != 1]
    strides_reversed: list[Dim] = []
    size, step = axes.pop() if axes else (volume(()), volume(()))
    for extent in reversed(new):
        if extent == 1:
            strides_reversed.append(0)
            continue
        while size == 1 and axes:
            size, step = axes.pop()
        while whole(size, extent) is None and axes and axes[-1][1] == step * size:
            size = size * axes.pop()[0]
        left = whole(size, extent)
        if left is None:
            return None
        strides_reversed.append(step)
        size, step = left, step * extent
    return tuple(reversed(strides_reversed))


def folded(node: Node, group: Group) -> OperandView | None:
    """An operand that nodes of the group compute from constants, of which at most one is a weight,
    to be folded at compile time.
    """
    if node not in group.members:
        return None
    chain = part(group, (node,), frozenset())
    sources = [n for n in chain.inputs if not isinstance(n.op, leaf.Const)]
    if len(sources) > 1 or not all(is_constant(n) for n in chain.inputs) or not chain.inputs:
        return None
    source = sources[0] if sources else chain.inputs[0]
    others = tuple(n for n in chain.inputs if n is not source)
    number = {n: i for i, n in enumerate((source, *others, *chain.nodes))}

    def compute(*arrays: Array) -> Array:
        known: dict[Node, Array] = dict(zip((source, *others), arrays, strict=True))
        for step in chain.nodes:
            with np.errstate(all="ignore"):
                result = step.op.evaluate(*(known[i] for i in step.inputs))
            assert isinstance(result, np.ndarray)
            known[step] = result
        return known[node]

    key = "; ".join(nodes_text(chain.nodes, number))
    return OperandView(source, row_major(node.shape), 0, FoldedOperand(compute, key, others))


def part(group: Group, outputs: tuple[Node, ...], given: frozenset[Node]) -> Group:
    """The nodes of a group that `outputs` need, as a group of its own; `given` nodes
    become inputs.
    """
    needed: dict[Node, None] = {}
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node in group.members and node not in given and node not in needed:
            needed[node] = None
            stack += node.inputs
    nodes = tuple(n for n in group.nodes if n in needed)
    inputs = tuple(dict.fromkeys(i for n in nodes for i in n.inputs if i not in needed))
    return Group(Kind.ELEMENTWISE, outputs[-1], nodes, inputs, outputs, group.reason)


def with_scratch(
    launches: tuple[KernelLaunch, ...], places: dict[Node, Scratch]
) -> tuple[KernelLaunch, ...]:
    """Launches with some nodes replaced by scratch memory."""
    return tuple(
        replace(
            launch,
            arguments=tuple(
                places.get(a, a) if isinstance(a, Node) else a for a in launch.arguments
            ),
        )
        for launch in launches
    )


def materialize(
    node: Node, group: Group, target: Target, name: str, lower_part: LowerPart
) -> tuple[OperandView, tuple[KernelLaunch, ...]]:
    """A kernel that computes an operand into scratch memory."""
    scratch = Scratch(node.type.dtype, node.type.size, "operand")
    lowered = lower_part(part(group, (node,), frozenset()), target, name)
    launches = with_scratch(lowered.alone, {node: scratch})
    return OperandView(scratch, row_major(node.shape)), launches


def seen(
    node: Node,
    group: Group,
    target: Target,
    name: str,
    lower_part: LowerPart,
    contiguous: bool = False,
) -> tuple[OperandView, tuple[KernelLaunch, ...]]:
    """An operand as a view of what is in memory, or computed into scratch memory by a kernel:
    where strides cannot express it, or it has to be `contiguous` along the last axis and is not.
    """
    view = resolve(node, group)
    if view is None or (contiguous and view.strides[-1] != 1):
        return materialize(node, group, target, name, lower_part)
    return view, ()


def copy(
    node: Node, how: OperandCopy, group: Group, target: Target, name: str, lower_part: LowerPart
) -> tuple[OperandView, tuple[KernelLaunch, ...]]:
    """A kernel that copies an operand into scratch memory, and the operand's view there."""
    converted = node if how.dtype is node.type.dtype else Node.of(convert.Cast(how.dtype), node)
    moves = how.order != tuple(range(len(how.order)))
    moved = Node.of(view.Transpose(how.order), converted) if moves else converted
    copies = tuple(dict.fromkeys(n for n in (converted, moved) if n is not node))
    inputs = (
        group.inputs if node in group.members or node in group.inputs else (*group.inputs, node)
    )
    copied = Group(Kind.ELEMENTWISE, moved, (*group.nodes, *copies), inputs, (moved,), "an operand")
    copied_view, launches = materialize(moved, copied, target, name, lower_part)
    strides = tuple(copied_view.strides[how.order.index(axis)] for axis in range(len(how.order)))
    return replace(copied_view, strides=strides), launches


def apart(
    group: Group,
    anchor: Node,
    alone: Callable[[Group], LoweredGroup],
    target: Target,
    name: str,
    lower_part: LowerPart,
) -> LoweredGroup:
    """The anchor by itself, then everything after it: for groups whose epilogue cannot be fused."""
    kernel = part(group, (anchor,), frozenset())
    first = alone(replace_kind(kernel, group.kind, anchor))
    rest = tuple(n for n in group.outputs if n is not anchor)
    after = lower_part(part(group, rest, frozenset({anchor})), target, f"{name}_epilogue")
    launches = (*first.alone, *after.alone)
    if anchor in group.outputs:
        return LoweredGroup(launches)
    scratch = Scratch(anchor.type.dtype, anchor.type.size, "result")
    return LoweredGroup(with_scratch(launches, {anchor: scratch}))


def replace_kind(group: Group, kind: Kind, anchor: Node) -> Group:
    """The same nodes as a group with another kind and anchor."""
    return Group(kind, anchor, group.nodes, group.inputs, group.outputs, group.reason)
