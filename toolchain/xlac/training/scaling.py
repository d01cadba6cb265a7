"""Loss scaling for f16: the factor of the loss in the backward pass, and how it is adapted, as
torch.amp.GradScaler does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

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
    return _all(flags)


def squares_finite(gradients: Sequence[Node]) -> Node:
    """Whether the squares of all elements are finite, a bool scalar: optimizers keep sums of them,
    and a norm, which is checked where gradients are clipped, is computed from them.
    """
    flags = []
    for gradient in map(build.compute, gradients):
        most = math.sqrt(np.finfo(gradient.type.dtype.numpy).max)
        flags.append(build.compare(build.apply1("abs", gradient), "lt", most))
    return _all(flags)


def _all(flags: Sequence[Node]) -> Node:
    """Whether all elements of all flags are true, a bool scalar."""
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


class FiniteFlags:
    """Whether a step is finite: the losses, the running statistics that it writes, and the
    gradients that it checks. With `in_turn` each loss is computed from weights that the one before
    has updated.
    """

    def __init__(self, in_turn: bool) -> None:
        self._in_turn = in_turn
        self._every: list[Node] = []
        self._forward: list[Node] = []

    @property
    def every(self) -> Node:
        """Whether all are finite, a bool scalar."""
        return together(self._every)

    @property
    def forward(self) -> Node:
        """Whether losses and statistics are, which no loss scale changes. One that was computed
        from weights that a non-finite update of an earlier loss has spoiled counts as finite.
        """
        return together(self._forward)

    def add(self, flags: Sequence[Node]) -> None:
        """Adds the flags of an update, that of its loss first; none where it only adds to sums."""
        for own in flags[:1]:
            if self._in_turn and self._every:
                own = build.apply1("or", own, build.apply1("not", together(self._every)))
            self._forward.append(own)
        self._every += flags

    def add_statistics(self, following: Sequence[Node]) -> None:
        """Adds that of the next values of running statistics, if there are any."""
        if following:
            self.add([all_finite(following)])


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
