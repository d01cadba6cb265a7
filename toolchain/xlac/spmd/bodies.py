"""Loops, branches and calls with collectives inside: each body is partitioned as a graph of its
own, so that values are divided there as they are around it.

All ranks take as many steps, and the same branches: what decides is a scalar, which every rank has
whole. A sum over ranks that a loop only adds to a carried value is done once, after the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xlac.ir.dims import Dim, size_hint
from xlac.ir.graph import Graph, Node, pick, walk, zeros
from xlac.ops import build
from xlac.ops.collective.group import Collective, MeshAxes
from xlac.ops.collective.sums import AllReduce
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.scalar.arithmetic import Add
from xlac.spmd.cost import NetworkLink
from xlac.spmd.mesh import AxisNames, Sharding
from xlac.spmd.reshard import Local, Resharder, describe
from xlac.spmd.rules.indexing import is_zeros
from xlac.spmd.run_time import TURNS
from xlac.spmd.same_ways import axes_of, differing
from xlac.spmd.sums.move import SumFlow, carried_sums, move_sums, of_first_rank
from xlac_sdk.source import VerifyError

Hints = tuple[Sharding, ...]
"""How the operands of a node are divided, as far as it is known."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalBody:
    """A body of one rank: `takes` says how what it is given is divided, `gives` how its results."""

    graph: Graph
    takes: tuple[Sharding, ...]
    gives: tuple[Local, ...]
    reasons: Mapping[Node, str]
    mesh: MeshAxes
    link: NetworkLink


@dataclass(frozen=True, slots=True, eq=False)
class BodyRequest:
    """What a body is partitioned for. `takes` and `gives` are hints of how its parameters and its
    results are divided; `fixed`: the parameters are divided so. `links` are numbers of parameters
    and of the results that are their next values; `wanted` how results must be divided.
    """

    takes: tuple[Sharding, ...]
    gives: tuple[Sharding, ...] = ()
    fixed: bool = False
    links: tuple[tuple[int, int], ...] = ()
    wanted: tuple[Sharding, ...] | None = None


Divide = Callable[[Graph, BodyRequest], LocalBody]


@dataclass(frozen=True, slots=True, eq=False)
class DividedControl:
    """A loop, a branch or a call of one rank: how its operands and its results are divided. `sums`:
    the carried values that are partial sums, and over which axes of the mesh.
    """

    op: Scan | While | Cond | Call
    operands: tuple[Sharding, ...]
    results: tuple[Local, ...]  # the node is that of the body
    reasons: Mapping[Node, str]
    sums: Mapping[int, AxisNames] = field(default_factory=dict)


def divided_control(
    node: Node, takes: Hints, gives: Hints, divide: Divide
) -> DividedControl | None:
    """A loop, a branch or a call with its bodies partitioned; None for one without any. `takes` and
    `gives` are hints of how operands and results are divided.
    """
    match node.op:
        case Scan(body=Graph()):
            return _scan(node.op, takes, gives, divide)
        case While(cond=Graph(), body=Graph()):
            return _while(node.op, takes, gives, divide)
        case Cond(branches=branches) if branches:
            return _cond(node.op, takes, gives, divide)
        case Call(body=Graph() as body):
            made = _with_sums_moved(divide(body, BodyRequest(takes, gives)))
            op = replace(node.op, body=made.graph)
            return DividedControl(op, made.takes, made.gives, made.reasons)
    return None


def _scan(op: Scan, takes: Hints, gives: Hints, divide: Divide) -> DividedControl:
    assert op.body is not None
    count, end = op.carries, op.carries + op.scanned
    inner = (*takes[:count], *(s[1:] for s in takes[count:end]), *takes[end:])
    yielded = tuple(s[1:] for s in gives[count:])
    added = _added(op.body, count)
    asked = BodyRequest(
        _without(inner, added),
        (*_without(gives[:count], added), *yielded),
        links=tuple((n, n) for n in range(count)),
    )
    made = divide(op.body, asked)
    made, sums = _summed_later(made, count, op.length)
    shifted = tuple(((), *s) for s in made.takes[count:end])
    return DividedControl(
        replace(op, body=made.graph),
        (*made.takes[:count], *shifted, *made.takes[end:]),
        (*made.gives[:count], *map(_stacked, made.gives[count:])),
        made.reasons,
        sums,
    )


def _stacked(value: Local) -> Local:
    """What a step yields, with the axis of the steps."""
    dirty = frozenset(axis + 1 for axis in value.dirty)
    return replace(value, sharding=((), *value.sharding), dirty=dirty)


def _while(op: While, takes: Hints, gives: Hints, divide: Divide) -> DividedControl:
    assert op.body is not None and op.cond is not None
    links = tuple((n, n) for n in range(len(takes)))
    added = _added(op.body, len(takes))
    asked = BodyRequest(_without(takes, added), _without(gives, added), links=links)
    made = divide(op.body, asked)
    test = _with_sums_moved(divide(op.cond, BodyRequest(made.takes, fixed=True)))
    there = set(walk(test.graph.outputs.values()))
    read = {n for n, param in enumerate(test.graph.inputs) if param in there}
    made, sums = _summed_later(made, len(takes), TURNS, read)
    bodies = (test.graph, made.graph)
    new = replace(op, cond=bodies[0], body=bodies[1], alike=op.alike or _exchange(bodies))
    reasons = {**test.reasons, **made.reasons}
    return DividedControl(new, made.takes, made.gives, reasons, sums)


def _cond(op: Cond, takes: Hints, gives: Hints, divide: Divide) -> DividedControl:
    """Operands are divided as they are; the first branch says how results are."""
    asked = BodyRequest(takes[1:], gives, fixed=True)
    first = divide(op.branches[0], asked)
    wanted = tuple(value.sharding for value in first.gives)
    others = [divide(b, replace(asked, wanted=wanted)) for b in op.branches[1:]]
    made = [_with_sums_moved(one) for one in (first, *others)]
    results = tuple(
        replace(same[0], dirty=frozenset().union(*(value.dirty for value in same)))
        for same in zip(*(one.gives for one in made), strict=True)
    )
    branches = tuple(one.graph for one in made)
    new = replace(op, branches=branches, alike=op.alike or _exchange(branches))
    reasons = {node: why for one in made for node, why in one.reasons.items()}
    return DividedControl(new, ((), *first.takes), results, reasons)


def _exchange(bodies: Sequence[Graph]) -> bool:
    """Whether ranks exchange values inside of bodies."""
    for body in bodies:
        for node in body.nodes():
            if isinstance(node.op, Collective) or _exchange(node.op.bodies()):
                return True
    return False


def _without(hints: Hints, numbers: set[int]) -> Hints:
    """The hints but those of some values."""
    return tuple(((),) * len(s) if n in numbers else s for n, s in enumerate(hints))


def _added(body: Graph, carries: int) -> set[int]:
    """The carried values that a body only adds to. Where they are wanted in parts, their sums over
    ranks are done so after the loop, and not in each step.
    """
    uses = Counter(i for node in body.nodes() for i in node.inputs)
    outputs = list(body.outputs.values())
    uses.update(outputs)
    return {
        n
        for n, (param, node) in enumerate(zip(body.inputs[:carries], outputs, strict=False))
        if isinstance(node.op, Add) and param in node.inputs and uses[param] == uses[node] == 1
    }


def _with_sums_moved(made: LocalBody) -> LocalBody:
    """A body whose sums over ranks are where they take the least time."""
    return _summed_later(made, 0, 1)[0]


def _summed_later(
    made: LocalBody, carries: int, turns: Dim, read: frozenset[int] | set[int] = frozenset()
) -> tuple[LocalBody, dict[int, AxisNames]]:
    """The body with its sums over ranks where so many turns take the least time; carried values are
    summands of each rank from one turn to the next, but those that are `read` elsewhere; and over
    which axes these are to be summed.
    """
    body, names = made.graph, list(made.graph.outputs)
    given = {node: axes_of(s) for node, s in zip(body.inputs, made.takes, strict=True)}
    try:
        differs = differing(body, given)
    except VerifyError:  # ranks may take different ways, which is reported of the whole graph
        return made, {}
    links = {body.inputs[n]: names[n] for n in range(carries) if n not in read}
    found = carried_sums(body, differs, links, size_hint(turns), made.link)
    carried = {node: AllReduce(made.mesh, axes) for node, axes in found.items()}
    kept = {links[node]: op for node, op in carried.items()}
    flow = SumFlow(body, differs, kept, carried, made.link)
    graph, reasons = move_sums(flow, made.reasons, made.mesh)
    sums = {n: found[node] for n, node in enumerate(body.inputs[:carries]) if node in found}
    return replace(made, graph=graph, reasons=reasons), sums


def results_of(
    divided: DividedControl,
    node: Node,
    operands: Sequence[Local],
    wanted: Sequence[Sharding],
    resharder: Resharder,
) -> list[Local]:
    """The results of `node` for one rank, given what it has of the operands. Sums that were left to
    be done after a loop are done here: of what a loop adds to zeros, and its first value after it;
    or, where that value is scaled, too, of what the first rank begins with it.
    """
    what = describe(node.origin, node.op.mnemonic)
    begun = {n for n in divided.sums if not is_zeros(node.inputs[n])}
    added = _added(divided.op.bodies()[-1], len(divided.operands)) & begun
    parts = []
    for number, (value, sharding) in enumerate(zip(operands, divided.operands, strict=True)):
        if number in added:
            parts.append(zeros(divided.op.bodies()[-1].inputs[number].type))
            continue
        own = resharder.to(value, sharding, f"{what} needs its operand so").node
        if number in begun:
            own = of_first_rank(own, resharder.mesh.axes, divided.sums[number])
        parts.append(own)
    local = Node.of(divided.op, *parts, origin=node.origin)
    found = []
    for number, like in enumerate(divided.results):
        own = local if len(node.results) == 1 else pick(local, number)
        value = replace(like, node=own, shape=node.results[number].shape)
        if number in divided.sums:
            axes = divided.sums[number]
            along = f"{what} adds up parts along {', '.join(axes)}"
            value = resharder.total(value, axes, "add", wanted[number], along)
        if number in added:
            first = resharder.to(operands[number], value.sharding, f"{what} begins with it")
            value = replace(value, node=build.add(first.node, value.node))
        found.append(value)
    return found
