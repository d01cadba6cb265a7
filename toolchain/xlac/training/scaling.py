"""The scale of a loss: what gradients are multiplied by on their way, and how that changes, as
torch.amp.GradScaler has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.spec.training.loss_scale import LossScale
from xlac.training.state import GROWN, SCALE
from xlac_sdk.dtypes import DType


def scale_of(scale: LossScale | None, nodes: Mapping[str, Node]) -> Node | None:
    """The factor of this step, as an f32 scalar; `nodes` are the state by name."""
    if scale is None:
        return None
    return nodes[SCALE] if scale.dynamic else build.constant(scale.initial, DType.F32)


def unscaled(gradients: Mapping[str, Node], scale: Node) -> dict[str, Node]:
    """Gradients without the factor, computed in f32 or wider."""
    return {
        name: build.cast(
            build.div(build.compute(g), build.cast(scale, g.type.dtype.compute)), g.type.dtype
        )
        for name, g in gradients.items()
    }


def all_finite(values: Sequence[Node]) -> Node:
    """Whether every number of tensors is finite."""
    flags = [
        build.compare(build.apply1("abs", build.compute(v)), "lt", float("inf")) for v in values
    ]
    return together([build.reduce(f, "and") if f.shape else f for f in flags])


def together(flags: Sequence[Node]) -> Node:
    """Whether all of some scalars are true."""
    found = flags[0]
    for flag in flags[1:]:
        found = build.apply1("and", found, flag)
    return found


def any_of(flags: Sequence[Node | None]) -> list[Node]:
    """Whether any of some scalars is true: one flag; none where one of them always is (None)."""
    known = [flag for flag in flags if flag is not None]
    if len(known) < len(flags):
        return []
    found = known[0]
    for flag in known[1:]:
        found = build.apply1("or", found, flag)
    return [found]


def counted(losses: Sequence[Node], before: Sequence[Node]) -> list[Node]:
    """Whether losses are finite, where all that they depend on is that was learned `before` in the
    step; else that they are not says nothing.
    """
    if not before:
        return list(losses)
    spoiled = build.apply1("not", together(before))
    return [build.apply1("or", loss, spoiled) for loss in losses]


def following_scale(
    scale: LossScale, nodes: Mapping[str, Node], finite: Node, loss: Node
) -> dict[str, Node]:
    """The next factor: larger after so many steps in a row that were `finite`, smaller after one
    that was not; unchanged where the `loss` itself was not finite, or would not be as a number.
    """
    now, grown = nodes[SCALE], build.add(nodes[GROWN], 1)
    due = build.compare(grown, "ge", scale.interval)
    more = build.mul(now, scale.growth)
    more = build.select(build.compare(more, "lt", float("inf")), more, now)
    larger, smaller = build.select(due, more, now), build.mul(now, scale.backoff)
    zero = build.like(0, grown)
    return {
        SCALE: build.select(finite, larger, build.select(loss, smaller, now)),
        GROWN: build.select(
            finite, build.select(due, zero, grown), build.select(loss, zero, nodes[GROWN])
        ),
    }
