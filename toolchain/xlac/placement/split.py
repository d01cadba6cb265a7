"""Divides stages of a cut where one part could be computed beside a stage that the other part waits
for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from xlac.ir.graph import Node
from xlac.placement.automatic import DeviceLimits
from xlac.placement.cut import DeviceStage, nbytes
from xlac.placement.timeline import CopyLink

WORTH = 100e-6
"""Seconds that must be saved by a stage more: calling it takes some, and fusion ends with it."""


def split(
    stages: Sequence[DeviceStage], tied: Sequence[AbstractSet[Node]] = ()
) -> list[DeviceStage]:
    """The stages in an order in which they can run, some of them in two parts: the first has what
    does not depend on the last stage of another target that the whole waits for. What that saves is
    the shorter of both, less copies of what passes between the parts, at the rates of a device of
    which nothing was said. Nodes that are `tied`, as they read and change a state, stay together.
    """
    parts = list(stages)
    at = 0
    while at < len(parts):
        found = _divided(parts, at, tied)
        if found is None:
            at += 1
            continue
        before, early, late = found
        parts[at] = late
        parts.insert(before, early)
        at = before  # the first part may have a part of its own
    return parts


def _divided(
    stages: Sequence[DeviceStage], at: int, tied: Sequence[AbstractSet[Node]]
) -> tuple[int, DeviceStage, DeviceStage] | None:
    """Where to insert the first part of a stage, and both parts; None where it stays whole."""
    whole = stages[at]
    needs = _latest(stages[:at], whole.nodes)
    last = max((n for n in needs.values() if stages[n].target != whole.target), default=-1)
    early = {node: None for node in whole.nodes if needs[node] < last}
    late = [node for node in whole.nodes if node not in early]
    if not early or any(_is_divided(group, early, late) for group in tied):
        return None
    rates, link = DeviceLimits(), CopyLink()
    crossing = {given for node in late for given in node.inputs if given in early}
    saved = min(sum(map(rates.seconds, early)), sum(map(rates.seconds, stages[last].nodes)))
    copies = sum(2 * link.seconds(nbytes(node)) for node in crossing)
    if saved < WORTH + copies:
        return None
    return last, DeviceStage(whole.target, tuple(early)), DeviceStage(whole.target, tuple(late))


def _latest(stages: Sequence[DeviceStage], nodes: Sequence[Node]) -> dict[Node, int]:
    """The last of the stages that each node needs, itself or by other nodes; -1 for none."""
    stage_of = {node: n for n, stage in enumerate(stages) for node in stage.nodes}
    found: dict[Node, int] = {}
    for node in nodes:
        own = (found.get(given, stage_of.get(given, -1)) for given in node.inputs)
        found[node] = max(own, default=-1)
    return found


def _is_divided(group: AbstractSet[Node], early: Mapping[Node, None], late: Sequence[Node]) -> bool:
    return any(node in group for node in early) and any(node in group for node in late)
