"""Windowed reductions (pooling): every result combines the elements under its window.

The last axis of the result is the vector axis. Where the window extends beyond the edge along
another axis, the loops over its positions are clipped, so no element is tested; along the vector
axis, and where x is dilated, a padded copy is made first.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Scratch
from xlac.codegen.core.window_loops import WindowLoops
from xlac.fusion import cost
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Node
from xlac.ir.op import frozen_array
from xlac.ops import numeric
from xlac.ops.control.control import Pick
from xlac.ops.reduction.window import Window
from xlac.ops.tensor import leaf
from xlac.ops.tensor.extend import Pad
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.target import Target


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, windows: type[WindowLoops]
) -> LoweredGroup:
    """The padded copies, if any, then one kernel for the windows and their epilogue, written by
    `windows`.
    """
    anchor = group.anchor
    op = anchor.op
    assert isinstance(op, Window)
    several = len(anchor.results) > 1
    after = None if several else epilogue.of(group, anchor)
    if after is None and not (several and all(isinstance(n.op, Pick) for n in group.outputs)):
        if several:
            return _results_apart(group, target, name, lower_part, windows)
        return operands.apart(
            group,
            anchor,
            lambda alone: lower(alone, target, name, lower_part, windows),
            target,
            name,
            lower_part,
        )
    xs = anchor.inputs if op.body is None else anchor.inputs[: len(anchor.inputs) // 2]
    shape = anchor.results[0].shape
    copied = not all(windows.direct(op, a) for a in range(len(shape)))
    elements = Elements(Builder(), group, target)
    launches: list[KernelLaunch] = []
    if copied:
        xs, launches = _copies(group, elements, xs, target, name, lower_part)
    windows(elements, after, op, xs, copied).write(shape, name, lower_part.decisions)
    launches.append(elements.launch(name, cost.work(group)))
    return LoweredGroup(tuple(launches))


def _copies(
    group: Group,
    elements: Elements,
    xs: Sequence[Node],
    target: Target,
    name: str,
    lower_part: LowerPart,
) -> tuple[tuple[Node, ...], list[KernelLaunch]]:
    """Padded copies of the operands, bound in `elements`."""
    anchor = group.anchor
    op = anchor.op
    assert isinstance(op, Window)
    launches: list[KernelLaunch] = []
    copies: list[Node] = []
    for number, x in enumerate(xs):
        if op.body is None:
            value = numeric.identity(op.combine, x.type.dtype)
            filler = Node.of(leaf.Const(value=frozen_array(value, x.type.dtype.numpy)))
        else:
            filler = anchor.inputs[len(xs) + number]
        gaps = tuple(d - 1 for d in op.base_dilation)
        padded = Node.of(Pad(low=op.low, high=op.high, interior=gaps), x, filler)
        inputs = (
            group.inputs
            if filler in group.members or filler in group.inputs
            else (*group.inputs, filler)
        )
        wide = Group(
            Kind.ELEMENTWISE, padded, (*group.nodes, padded), inputs, (padded,), "pads the input"
        )
        padded_view, more = operands.materialize(
            padded, wide, target, f"{name}_pad{number or ''}", lower_part
        )
        assert isinstance(padded_view.value, Scratch)
        elements.bind(padded, elements.parameter(padded_view.value))
        launches += more
        copies.append(padded)
    return tuple(copies), launches


def _results_apart(
    group: Group, target: Target, name: str, lower_part: LowerPart, windows: type[WindowLoops]
) -> LoweredGroup:
    """For a window with several results and a further epilogue: the results are stored, then the
    epilogue is applied.
    """
    picks = tuple(n for n in group.nodes if isinstance(n.op, Pick) and n.inputs[0] is group.anchor)
    alone = operands.part(group, picks, frozenset())
    first = lower(
        operands.replace_kind(alone, group.kind, group.anchor), target, name, lower_part, windows
    )
    rest = tuple(n for n in group.outputs if n not in picks)
    after = lower_part(operands.part(group, rest, frozenset(picks)), target, f"{name}_epilogue")
    inner = [n for n in picks if n not in group.outputs]
    places = {n: Scratch(n.type.dtype, n.type.size, "result") for n in inner}
    return LoweredGroup(operands.with_scratch((*first.alone, *after.alone), places))
