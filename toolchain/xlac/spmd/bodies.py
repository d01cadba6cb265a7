"""Loops, branches and calls with collectives inside: each body is partitioned as a graph of its
own, so that values are divided there as they are around it.

All ranks take as many steps, and the same branches: what decides is a scalar, which every rank has
whole. A sum over ranks that a loop only adds to a carried value is done once, after the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xlac.ir.graph import Graph, Node, pick, walk, zeros
from xlac.ops import build
from xlac.ops.collective.group import Collective
from xlac.ops.collective.sums import AllReduce
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.scalar.arithmetic import Add
from xlac.ops.tensor.view import Broadcast, Reshape, Slice, Transpose
from xlac.spmd.mesh import AxisNames, Sharding
from xlac.spmd.reshard import Local, Resharder, describe
from xlac.spmd.rules.indexing import is_zeros

Hints = tuple[Sharding, ...]
"""How the operands of a node are divided, as far as it is known."""


@dataclass(frozen=True, slots=True, eq=False)
class LocalBody:
    """A body of one rank: `takes` says how what it is given is divided, `gives` how its results."""

    graph: Graph
    takes: tuple[Sharding, ...]
    gives: tuple[Local, ...]
    reasons: Mapping[Node, str]


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
            made = divide(body, BodyRequest(takes, gives))
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
    body, sums = _summed_later(made, count)
    shifted = tuple(((), *s) for s in made.takes[count:end])
    return DividedControl(
        replace(op, body=body),
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
    test = divide(op.cond, BodyRequest(made.takes, fixed=True))
    there = set(walk(test.graph.outputs.values()))
    read = {n for n, param in enumerate(test.graph.inputs) if param in there}
    body, sums = _summed_later(made, len(takes), read)
    new = replace(op, cond=test.graph, body=body, alike=op.alike or _exchange((test.graph, body)))
    reasons = {**test.reasons, **made.reasons}
    return DividedControl(new, made.takes, made.gives, reasons, sums)


def _cond(op: Cond, takes: Hints, gives: Hints, divide: Divide) -> DividedControl:
    """Operands are divided as they are; the first branch says how results are."""
    asked = BodyRequest(takes[1:], gives, fixed=True)
    first = divide(op.branches[0], asked)
    wanted = tuple(value.sharding for value in first.gives)
    others = [divide(b, replace(asked, wanted=wanted)) for b in op.branches[1:]]
    made = [first, *others]
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


def _summed_later(
    made: LocalBody, carries: int, read: frozenset[int] | set[int] = frozenset()
) -> tuple[Graph, dict[int, AxisNames]]:
    """The body with parts of sums in place of sums over ranks that it only adds to carried values,
    but those that are `read` elsewhere; and over which axes these are.
    """
    body = made.graph
    names, outputs = list(body.outputs), list(body.outputs.values())
    sums: dict[int, AxisNames] = {}
    for number in sorted(_added(body, carries) - read):
        param, node = body.inputs[number], outputs[number]
        first = node.inputs[0] is param
        found = _parts(node.inputs[int(first)])
        if found is not None:
            sums[number], part = found
            outputs[number] = node.with_inputs((param, part) if first else (part, param))
    if not sums:
        return body, {}
    return Graph(body.name, body.inputs, dict(zip(names, outputs, strict=True))), sums


def _parts(node: Node) -> tuple[AxisNames, Node] | None:
    """What a value is the sum over ranks of, and along which axes; None where it is none."""
    op = node.op
    if isinstance(op, AllReduce) and op.combine == "add":
        return op.axes, node.inputs[0]
    if isinstance(op, Reshape | Transpose | Slice | Broadcast):
        found = _parts(node.inputs[0])
        return None if found is None else (found[0], node.with_inputs((found[1],)))
    if isinstance(op, Add):
        one, other = map(_parts, node.inputs)
        if one is not None and other is not None and one[0] == other[0]:
            return one[0], node.with_inputs((one[1], other[1]))
    return None


def results_of(
    divided: DividedControl,
    node: Node,
    operands: Sequence[Local],
    wanted: Sequence[Sharding],
    resharder: Resharder,
) -> list[Local]:
    """The results of `node` for one rank, given what it has of the operands. Sums that were left to
    be done after a loop are done here, of what the loop adds to zeros.
    """
    what = describe(node.origin, node.op.mnemonic)
    begun = {n for n in divided.sums if not is_zeros(node.inputs[n])}
    parts = []
    for number, (value, sharding) in enumerate(zip(operands, divided.operands, strict=True)):
        if number in begun:
            parts.append(zeros(divided.op.bodies()[-1].inputs[number].type))
        else:
            parts.append(resharder.to(value, sharding, f"{what} needs its operand so").node)
    local = Node.of(divided.op, *parts, origin=node.origin)
    found = []
    for number, like in enumerate(divided.results):
        own = local if len(node.results) == 1 else pick(local, number)
        value = replace(like, node=own, shape=node.results[number].shape)
        if number in divided.sums:
            axes = divided.sums[number]
            along = f"{what} adds up parts along {', '.join(axes)}"
            value = resharder.total(value, axes, "add", wanted[number], along)
        if number in begun:
            first = resharder.to(operands[number], value.sharding, f"{what} begins with it")
            value = replace(value, node=build.add(first.node, value.node))
        found.append(value)
    return found
