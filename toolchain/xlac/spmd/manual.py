"""Manual computations among ranks: what a program writes for one rank is what each of them does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from xlac.ir.graph import Graph, Node, map_bodies
from xlac.ops.collective.group import Collective
from xlac.ops.collective.manual import Division, ManualComputation
from xlac.ops.collective.ranks import AxisIndex, Varying
from xlac.ops.control.control import Cond, Pick, While
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.reshard import Local, Resharder, describe
from xlac.spmd.same_ways import Axes, check_ways
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError, VerifyError

SAID = "in the model"


def sharding_of_division(division: Division, mesh: Mesh) -> Sharding:
    """How ranks hold what a computation divides so: along axes of several ranks."""
    sizes = mesh.sizes
    return tuple(tuple(name for name in names if sizes[name] > 1) for names in division)


def computations(graph: Graph) -> Iterator[Node]:
    """The manual computations of a graph, but for those inside of others."""
    for node in graph.nodes():
        if isinstance(node.op, ManualComputation):
            yield node
            continue
        for body in node.op.bodies():
            yield from computations(body)


def check_computations(graph: Graph, mesh: Mesh) -> None:
    """Raises SourceError for a computation over another mesh than that of the ranks."""
    for node in computations(graph):
        assert isinstance(node.op, ManualComputation)
        if node.op.mesh != mesh.axes:
            own = Mesh(node.op.mesh)
            problem = f"the model computes by hand on the mesh {own}, and not on {mesh}"
            span = node.origin.span if node.origin else None
            raise SourceError(Diagnostic("XL7805", problem, span, f"take --mesh {own}"))


def check_outside(graph: Graph) -> None:
    """Raises UnsupportedError for a collective that is in no manual computation."""
    for node in graph.nodes():
        if isinstance(node.op, Collective) and node.op.group > 1:
            raise node.op.alone()
        if not isinstance(node.op, ManualComputation):
            for body in node.op.bodies():
                check_outside(body)


def check_manual_ways(
    whole: Graph, own: Graph, shardings: Mapping[str, Sharding]
) -> dict[Node, list[Axes]]:
    """`check_ways` for the graph of a rank. Raises UnsupportedError where the whole graph computes
    by hand, so that a user decides who takes which way, and VerifyError where only xlac does.
    """
    try:
        return check_ways(own, shardings)
    except VerifyError as error:
        node = next(computations(whole), None)
        if node is None:
            raise
        span = node.origin.span if node.origin else None
        hint = "a rank that takes another way leaves those waiting that exchange values"
        raise UnsupportedError(Diagnostic("XL7822", str(error), span, hint)) from None


def inlined(node: Node, values: Sequence[Local], resharder: Resharder) -> list[Local]:
    """The results of a computation: its operands are divided as it says, and each rank has what the
    body gives it.
    """
    assert isinstance(node.op, ManualComputation) and node.op.body is not None
    what = f"{describe(node.origin, node.op.mnemonic)} needs its operand so"
    inputs = [
        resharder.to(value, sharding_of_division(division, resharder.mesh), what).node
        for value, division in zip(values, node.op.takes, strict=True)
    ]
    found = _Inliner(resharder).results(node.op.body, inputs)
    return [
        Local(result, type.shape, sharding_of_division(division, resharder.mesh))
        for result, type, division in zip(found, node.results, node.op.gives, strict=True)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Inliner:
    """Puts a body in the place of its computation, and those inside of it in theirs."""

    resharder: Resharder

    def results(self, body: Graph, inputs: Sequence[Node]) -> list[Node]:
        """What a body gives of some values."""
        new = dict(zip(body.inputs, inputs, strict=True))
        several: dict[Node, list[Node]] = {}
        for node in body.nodes():
            if node in new:
                continue
            if isinstance(node.op, Pick) and node.inputs[0] in several:
                new[node] = several[node.inputs[0]][node.op.index]
                continue
            own = tuple(new[i] for i in node.inputs)
            if isinstance(node.op, ManualComputation):
                several[node] = self.inner(node, node.op, own)
                new[node] = several[node][0]
            else:
                new[node] = self.node(node if own == node.inputs else node.with_inputs(own))
        return [new[node] for node in body.outputs.values()]

    def node(self, node: Node) -> Node:
        """A node, whose bodies may have computations too, and the reason of a collective."""
        if isinstance(node.op, Collective):
            if node.op.group > 1 and not isinstance(node.op, AxisIndex | Varying):
                self.resharder.reasons[node] = (
                    f"{describe(node.origin, node.op.mnemonic)} is {SAID}"
                )
            return node
        if not node.op.bodies():
            return node
        made = map_bodies(node, self.body)
        if isinstance(made.op, While | Cond) and any(map(_exchanges, made.op.bodies())):
            return replace(made, op=replace(made.op, alike=True))
        return made

    def body(self, body: Graph) -> Graph:
        """A body of a loop or a branch."""
        found = self.results(body, body.inputs)
        return Graph(body.name, body.inputs, dict(zip(body.outputs, found, strict=True)))

    def inner(self, node: Node, op: ManualComputation, inputs: Sequence[Node]) -> list[Node]:
        """The results of a computation inside: of what a rank has, each takes its part along more
        axes, and has the whole of the results.
        """
        whole: list[Sharding] = [((),) * i.type.rank for i in inputs]
        values = [Local(i, i.shape, s) for i, s in zip(inputs, whole, strict=True)]
        reason = f"{describe(node.origin, op.mnemonic)} is inside of another"
        return [
            self.resharder.to(result, ((),) * len(result.shape), reason).node
            for result in inlined(node, values, self.resharder)
        ]


def _exchanges(body: Graph) -> bool:
    return any(
        isinstance(node.op, Collective) or any(map(_exchanges, node.op.bodies()))
        for node in body.nodes()
    )
