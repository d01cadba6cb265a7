"""Loss scaling for f16: the factor of the loss in the backward pass, and how it is adapted, as
torch.amp.GradScaler does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.spec.training.loss_scale import LossScale
from xlac.training.state import GROWN, SCALE
from xlac_sdk.dtypes import DType


def scale_of(scale: LossScale | None, nodes: Mapping[str, Node]) -> Node | None:
    """The loss scale of this step, an f32 scalar, or None; `nodes` are the state by name."""
    if scale is None:
        return None
    return nodes[SCALE] if scale.dynamic else build.constant(scale.initial, DType.F32)


def unscaled(gradients: Mapping[str, Node], scale: Node) -> dict[str, Node]:
    """Gradients divided by the loss scale, computed in f32 or wider, in their own types."""
    return {
        name: build.cast(
            build.div(build.compute(g), build.cast(scale, g.type.dtype.compute)), g.type.dtype
        )
        for name, g in gradients.items()
    }


def all_finite(values: Sequence[Node]) -> Node:
    """Whether all elements of some tensors are finite, a bool scalar."""
    flags = [
        build.compare(build.apply1("abs", build.compute(v)), "lt", float("inf")) for v in values
    ]
    return together([build.reduce(f, "and") if f.shape else f for f in flags])


def together(flags: Sequence[Node]) -> Node:
    """The conjunction of bool scalars."""
    conjunction = flags[0]
    for flag in flags[1:]:
        conjunction = build.apply1("and", conjunction, flag)
    return conjunction


def any_of(flags: Sequence[Node | None]) -> list[Node]:
    """The disjunction of bool scalars, in a list; empty where one is None, which means true."""
    known = [flag for flag in flags if flag is not None]
    if len(known) < len(flags):
        return []
    disjunction = known[0]
    for flag in known[1:]:
        disjunction = build.apply1("or", disjunction, flag)
    return [disjunction]


def finite_unless_spoiled(losses: Sequence[Node], before: Sequence[Node]) -> list[Node]:
    """Flags that losses are finite, set to true where one of the flags `before` is false: a loss
    computed from weights that an earlier, non-finite update of the step has spoiled says nothing.
    """
    if not before:
        return list(losses)
    spoiled = build.apply1("not", together(before))
    return [build.apply1("or", loss, spoiled) for loss in losses]


def following_scale(
    scale: LossScale, nodes: Mapping[str, Node], finite: Node, loss: Node
) -> dict[str, Node]:
    """The next values of the scale and its counter, by name. The scale is multiplied by `growth`
    after `interval` finite steps in a row, by `backoff` after a step with non-finite gradients. It
    is unchanged where the `loss` itself is not finite, and where it would overflow.
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
