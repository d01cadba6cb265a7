"""Groups that are steps of the host: composites that a target claims, and collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlac.fusion.group import Group, Kind
from xlac.ir.op import attributes
from xlac.memory.places import Places
from xlac.ops.collective.group import Collective
from xlac.ops.control.control import Pick
from xlac.ops.tensor.leaf import Const, Param
from xlac_sdk.programs.program import (
    Call,
    CollectiveDone,
    CollectiveStart,
    RankExchange,
    Slot,
    Step,
)

if TYPE_CHECKING:
    from xlac.memory.planner import MemoryPlanner


def claimed(planner: MemoryPlanner, group: Group, places: Places, direct: Places) -> Call:
    """The call of a composite that the target claims whole."""
    planner.lifetimes.tick()
    for output in group.outputs:
        places[output] = direct.get(output) or planner.temporary(output.type, output.origin)
    anchor = group.anchor
    taken = {n.op.index if isinstance(n.op, Pick) else 0: n for n in group.outputs}
    results = [
        planner.place(taken[number], places)
        if number in taken
        else planner.temporary(type, anchor.origin, is_value=False)  # nobody reads it
        for number, type in enumerate(anchor.results)
    ]
    arguments = (*(planner.place(n, places) for n in anchor.inputs), *results)
    for argument in arguments:
        planner.lifetimes.use(argument.slot)
    shapes = tuple(type.shape for type in (*(n.type for n in anchor.inputs), *anchor.results))
    return Call(anchor.op.mnemonic, arguments, shapes, attributes(anchor.op), anchor.origin)


class Flight:
    """The collectives of a block that are under way: each is started where its group stands, and
    done before the first group that touches its memory. So what is between hides it.
    """

    def __init__(self, planner: MemoryPlanner) -> None:
        self.planner = planner
        self.open: list[CollectiveStart] = []

    def start(self, group: Group, places: Places, direct: Places) -> CollectiveStart:
        """Begins the collective of a group."""
        planner, node = self.planner, group.anchor
        op = node.op
        assert isinstance(op, Collective)
        planner.lifetimes.tick()
        (output,) = group.outputs
        place = direct.get(output)
        if place is not None and place.strides:
            place = None  # a start and its done name one place
        places[output] = target = place or planner.temporary(output.type, output.origin)
        source = planner.place(node.inputs[0], places) if node.inputs else target
        for argument in (source, target):
            planner.lifetimes.use(argument.slot)
        exchange = RankExchange(
            planner.exchanges,
            op.kind,
            op.axes,
            getattr(op, "combine", "add"),
            getattr(op, "root", 0),
            getattr(op, "pairs", ()),
        )
        planner.exchanges += 1
        sent = node.inputs[0].type.size if node.inputs else output.type.size
        step = CollectiveStart(exchange, source, target, sent, output.type.size, node.origin)
        self.open.append(step)
        return step

    def before(self, group: Group, alias: bool, places: Places, direct: Places) -> list[Step]:
        """Ends the collectives whose memory a group reads or writes; a loop or a branch ends
        all.
        """
        if not self.open or alias:
            return []
        if group.kind is Kind.CONTROL:
            return self.done()
        touched: set[Slot] = {direct[o].slot for o in group.outputs if o in direct}
        for node in group.inputs:
            if node in places:
                touched.add(places[node].slot)
            elif isinstance(node.op, Const | Param):
                touched.add(self.planner.constants.slot(node))
        return self.done(touched)

    def done(self, touched: set[Slot] | None = None) -> list[Step]:
        """Ends the collectives of some memory, or all of them, in the order of their starts."""
        ended: list[Step] = []
        left: list[CollectiveStart] = []
        for step in self.open:
            slots = {step.source.slot, step.target.slot}
            if touched is not None and not slots & touched:
                left.append(step)
                continue
            self.planner.lifetimes.tick()
            for argument in (step.source, step.target):
                self.planner.lifetimes.use(argument.slot)
            ended.append(CollectiveDone(step.exchange, step.source, step.target))
        self.open = left
        return ended
