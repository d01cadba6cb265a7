"""Loops, branches and calls: host steps around the steps of their bodies.

A carry lives in one place for the whole loop; what is sliced or stacked moves with the loop's
counter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlac.fusion.group import Group, Partition, picked
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.memory.places import Places, Readers, Wanted, in_place
from xlac.ops.control.control import Call, Cond, Scan
from xlac.ops.control.control import While as WhileOp
from xlac_sdk.dtypes import DType
from xlac_sdk.programs.program import Argument, Branch, Repeat, Step, While
from xlac_sdk.source import Diagnostic, UnsupportedError

if TYPE_CHECKING:
    from xlac.memory.planner import MemoryPlanner

Move = tuple[Node, Node, Argument]
"""A value carried from one iteration to the next: its parameter, its next value, and its place."""


def control(
    planner: MemoryPlanner,
    group: Group,
    number: int,
    partition: Partition,
    readers: Readers,
    places: Places,
    direct: Places,
) -> list[Step]:
    """The steps of a call, a branch or a loop, around those of its bodies."""
    node = group.anchor
    result_places = results(planner, group, number, readers, places, direct)
    given = [planner.place(i, places) for i in node.inputs]
    for place in (*given, *result_places):
        planner.lifetimes.use(place.slot)
    match node.op:
        case Call():
            body = closed(node.op.body)
            inner = partition.inner[body]
            bound = dict(zip(body.inputs, given, strict=True))
            return list(planner.block(inner, bound, _outputs(body, result_places)))
        case Cond(branches=branches):
            blocks = []
            for branch in branches:
                bound = dict(zip(branch.inputs, given[1:], strict=True))
                # one branch must not free what another reads
                with planner.lifetimes.loop():
                    blocks.append(
                        planner.block(
                            partition.inner[branch], bound, _outputs(branch, result_places)
                        )
                    )
            return [Branch(given[0], tuple(blocks), node.op.alike)]
        case WhileOp():
            return while_loop(planner, node.op, partition, given, result_places)
        case Scan():
            return scan(planner, node.op, partition, given, result_places)
    raise UnsupportedError(
        Diagnostic("XL5010", f"'{node.op.mnemonic}' cannot be lowered", hint=node.name)
    )


def results(
    planner: MemoryPlanner,
    group: Group,
    number: int,
    readers: Readers,
    places: Places,
    direct: Places,
) -> list[Argument]:
    """Places for every result of a control operation, assigned to the nodes that pick them: where
    they are wanted, where an operand is that nothing else reads, or new.
    """
    node = group.anchor
    picks: dict[int, list[Node]] = {}
    for output, index in picked(group):
        picks.setdefault(index, []).append(output)
    operands = dict(in_place(group, planner.lowerings))
    result_places = []
    for index, type in enumerate(node.results):
        mine = picks.get(index, [])
        place = next((direct[n] for n in mine if n in direct), None)
        if place is None and len(mine) == 1 and mine[0] in operands:
            place = planner.reusable(operands[mine[0]], mine[0], number, readers, places)
        place = place or planner.temporary(type, node.origin)
        for pick in mine:
            places[pick] = place
        result_places.append(place)
    return result_places


def while_loop(
    planner: MemoryPlanner,
    op: WhileOp,
    partition: Partition,
    given: list[Argument],
    carry: list[Argument],
) -> list[Step]:
    """The steps of a loop that ends when its condition is false."""
    test, turn = closed(op.cond), closed(op.body)
    steps = planner.copies(list(zip(given, carry, (p.type for p in turn.inputs), strict=True)))
    with planner.lifetimes.loop():
        flag = planner.temporary(
            Type(DType.BOOL, ()), next(iter(test.outputs.values())).origin, is_value=False
        )
        for place in carry:
            planner.lifetimes.use(place.slot)
        known = dict(zip(test.inputs, carry, strict=True))
        condition = planner.block(partition.inner[test], known, _outputs(test, [flag]))
        known = dict(zip(turn.inputs, carry, strict=True))
        body = iteration(planner, partition.inner[turn], known, carry, [])
        planner.lifetimes.use(flag.slot)
    return [*steps, While(condition, flag, body, op.alike)]


def scan(
    planner: MemoryPlanner,
    op: Scan,
    partition: Partition,
    given: list[Argument],
    results: list[Argument],
) -> list[Step]:
    """The steps of a loop over slices."""
    length, turn = op.length, closed(op.body)
    counter = planner.counter()
    carry, stacked = results[: op.carries], results[op.carries :]
    kinds = [p.type for p in turn.inputs[: op.carries]]
    steps = planner.copies(list(zip(given[: op.carries], carry, kinds, strict=True)))

    def slice_of(place: Argument, count: Dim) -> Argument:
        if op.reverse:
            start = place.offset + (length - 1) * count
            return Argument(place.slot, start, (*place.strides, (counter, count * -1)))
        return Argument(place.slot, place.offset, (*place.strides, (counter, count)))

    inner = partition.inner[turn]
    parameters = turn.inputs
    known = dict(zip(parameters, carry, strict=False))
    scanned = parameters[op.carries : op.carries + op.scanned]
    for parameter, place in zip(scanned, given[op.carries :], strict=False):
        known[parameter] = slice_of(place, parameter.type.size)
    invariant = parameters[op.carries + op.scanned :]
    known.update(zip(invariant, given[op.carries + op.scanned :], strict=True))
    outputs = list(turn.outputs.values())[op.carries :]
    wanted = [
        (node, slice_of(place, node.type.size))
        for node, place in zip(outputs, stacked, strict=True)
    ]
    with planner.lifetimes.loop():
        for place in (*known.values(), *stacked):
            planner.lifetimes.use(place.slot)
        body = iteration(planner, inner, known, carry, wanted)
    return [*steps, Repeat(counter, length, body)] if length != 0 else steps


def iteration(
    planner: MemoryPlanner,
    partition: Partition,
    known: Places,
    carry: list[Argument],
    stacked: Wanted,
) -> tuple[Step, ...]:
    """One iteration of a loop: the next value of each carry ends where the carry lives."""
    graph = partition.graph
    moves = list(zip(graph.inputs, graph.outputs.values(), carry, strict=False))
    return advance(planner, partition, known, moves, stacked)


def advance(
    planner: MemoryPlanner, partition: Partition, known: Places, moves: list[Move], others: Wanted
) -> tuple[Step, ...]:
    """The steps of a graph whose results replace the values of `moves`, computed in place where
    that is safe.
    """
    wanted: Wanted = []
    late: Wanted = []
    readers = Readers.of(partition, planner.lowerings)
    replaced: dict[Argument, Node] = {}
    for parameter, node, place in moves:
        if node is not parameter:
            safe = readers.overwritable(parameter, node) and all(node is not w for w, _ in wanted)
            (wanted if safe else late).append((node, place))
            replaced[place] = node
    steps = planner.block(partition, known, [*wanted, *others], replaced)
    return (
        *steps,
        *planner.copies([(planner.place(n, known), place, n.type) for n, place in late]),
    )


def closed(body: Graph | None) -> Graph:
    """The body as a closed graph, which must exist."""
    assert body is not None
    return body


def _outputs(graph: Graph, places: list[Argument]) -> Wanted:
    return list(zip(graph.outputs.values(), places, strict=True))
