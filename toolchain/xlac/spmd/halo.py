"""Convolutions and windows over an axis of which ranks have parts: each rank is sent the elements
beyond its part that it reads, its halo, by its neighbours. And rolls, which move parts on, and
reshapes that merge or split an axis into parts that begin elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xlac.ir.graph import Node, apply
from xlac.ops import build
from xlac.ops.collective.exchanges import CollectivePermute
from xlac.ops.numeric import identity
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.window import Window
from xlac.spmd.assignment import Assignment
from xlac.spmd.mesh import AxisNames, Mesh, Sharding
from xlac.spmd.reshard import Local, Resharder
from xlac.spmd.rules.reach import HaloAxis, HaloSpan
from xlac.spmd.rules.rule import ShardingRule
from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.ir.op import Op


def with_halos(
    op: Op, value: Local, halos: Mapping[AxisNames, HaloAxis], resharder: Resharder, reason: str
) -> tuple[Op, Node]:
    """The operation of one rank, and the part of x with all that it reads: `halos` has the axes of
    the mesh by which each axis is divided.
    """
    assert isinstance(op, Conv | Window)
    combine = op.combine if isinstance(op, Window) else "add"
    low, high = list(op.low), list(op.high)
    rank = value.node.type.rank
    low, high = low or [0] * rank, high or [0] * rank
    for names, halo in halos.items():
        span = halo.span(resharder.mesh.parts(names))
        assert span is not None
        node = resharder.masked(value, halo.axis, "add")
        node = extended(node, halo.axis, span, names, resharder, reason)
        if combine != "add":
            node = _outside(node, halo, span, names, resharder, combine, value)
        value = replace(value, node=node, dirty=value.dirty - {halo.axis})
        low[halo.place], high[halo.place] = span.low, span.high
    return replace(op, low=tuple(low), high=tuple(high)), value.node


def extended(
    own: Node, axis: int, span: HaloSpan, names: AxisNames, to: Resharder, reason: str
) -> Node:
    """A part with what neighbours have of what a rank reads."""
    count, size = to.mesh.parts(names), own.shape[axis]
    assert isinstance(size, int)
    pieces = [own]

    def sent(start: int, stop: int, pairs: list[tuple[int, int]]) -> Node:
        permute = CollectivePermute(to.mesh.axes, names, tuple(pairs))
        return to.collective(permute, build.cut(own, axis, start, stop), reason)

    for far, taken in enumerate(_pieces(span.left, size), 1):
        pairs = [(rank, rank + far) for rank in range(count - far)]
        pieces.insert(0, sent(size - taken, size, pairs))
    for far, taken in enumerate(_pieces(span.right, size), 1):
        pairs = [(rank + far, rank) for rank in range(count - far)]
        pieces.append(sent(0, taken, pairs))
    whole = build.concat(pieces, axis) if len(pieces) > 1 else own
    begin = span.left + span.first
    if not span.later:
        return build.cut(whole, axis, begin, begin + span.taken)
    starts = [apply("const", value=np.zeros((), np.int32))] * own.type.rank
    starts[axis] = build.add(to.start(names, span.later), begin)
    sizes = (*whole.shape[:axis], span.taken, *whole.shape[axis + 1 :])
    return apply("dyn_slice", whole, *starts, sizes=sizes)


def _pieces(wanted: int, size: int) -> list[int]:
    """How much of some elements is the nearest part's, the next one's, and so on."""
    return [min(size, wanted - start) for start in range(0, wanted, size)]


def _outside(
    node: Node,
    halo: HaloAxis,
    span: HaloSpan,
    names: AxisNames,
    to: Resharder,
    combine: str,
    value: Local,
) -> Node:
    """What is read, with what its combination ignores in the place of what is no element of x."""
    count = apply("iota", shape=node.shape, axis=halo.axis, dtype=DType.I32)
    own = value.node.shape[halo.axis]
    assert isinstance(own, int)
    place = build.add(build.add(count, to.start(names, own + span.later)), span.first)
    there = build.apply1(
        "and", build.compare(place, "ge", 0), build.compare(place, "lt", halo.size)
    )
    nothing = build.as_node(identity(combine, node.type.dtype), node.type.dtype)
    return build.select(there, node, nothing)


def rolled(
    own: Node, axis: int, shift: int, names: AxisNames, resharder: Resharder, reason: str
) -> Node:
    """A rank's part of what is moved on by `shift` along an axis of equal parts: the end of one
    rank's part, and the begin of the next one's.
    """
    parts, size = resharder.mesh.parts(names), own.shape[axis]
    assert isinstance(size, int)
    ranks, within = divmod(shift % (parts * size), size)

    def sent(piece: Node, by: int) -> Node:
        if by % parts == 0:
            return piece
        pairs = tuple((rank, (rank + by) % parts) for rank in range(parts))
        permute = CollectivePermute(resharder.mesh.axes, names, pairs)
        return resharder.collective(permute, piece, reason)

    if not within:
        return sent(own, ranks)
    end = sent(build.cut(own, axis, size - within, size), ranks + 1)
    begin = sent(build.cut(own, axis, 0, size - within), ranks)
    return build.concat((end, begin), axis)


def regrouped(own: Node, rule: ShardingRule, axes: Assignment, to: Resharder, reason: str) -> Node:
    """What a reshape of one rank takes, from the rank's part of its operand. Axes that are merged
    or split into other parts become one, of which neighbours exchange the elements by which parts
    before and after differ.
    """
    runs = [(run, names) for f, run in rule.regroups.items() if (names := axes.get(f))]
    for run, names in sorted(runs, key=lambda one: -one[0].start):
        parts = to.mesh.parts(names)
        if not run.even(parts):
            sizes = (*own.shape[: run.start], run.own(parts), *own.shape[run.stop :])
            line = apply("reshape", own, shape=sizes)
            own = extended(line, run.start, run.span(parts), names, to, reason)
    return own


def unfit(rule: ShardingRule, sharding: Sharding, mesh: Mesh) -> str:
    """Why axes that are merged or split are not divided as the operand is; empty where they are."""
    for axis, factor in enumerate(rule.operands[0] if rule.regroups else ()):
        parts = mesh.parts(sharding[axis])
        run = None if factor is None else rule.regroups.get(factor)
        if run and parts > 1 and not (run.fits(parts) or run.even(parts)):
            what = f"{run.before} rows that become {run.after}"
            return f": of {what}, {parts} ranks need more than their neighbours have"
    return ""
