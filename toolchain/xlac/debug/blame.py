"""Finds the kernel that broke a result, when the optimized graph is right.

Each group is run alone, on the values that the interpreter computes for its inputs, so that errors
do not propagate between groups. The SDK's interpreter then tells a wrong schedule from a backend
that miscompiles the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from xlac.codegen.claims import kind_taken
from xlac.codegen.kernel_dedup import LoweringCache
from xlac.debug.compare import ComparedModel, agree
from xlac.debug.errors.approximation import Approximation
from xlac.debug.errors.propagate import outputs_of
from xlac.debug.group_alone import group_alone
from xlac.debug.verify.exact import estimated
from xlac.debug.verify.subject import built_anew, promise_of, ran
from xlac.driver import Lowered, lower
from xlac.fusion.group import Group, Kind, Partition
from xlac.fusion.partition import is_alias, partition
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array
from xlac.memory.planner import planned
from xlac.ops.control.control import Call, Cond, Scan, While
from xlac.ops.tensor.leaf import Param
from xlac.passes.capture import captured, is_captured, reshaped
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.programs.program import Program

# operations of a program up to which the SDK's interpreter, which is slow, is used
INTERPRETED = 20_000_000

Values = dict[Node, tuple[Array, ...]]


@dataclass(frozen=True, slots=True)
class Blame:
    """The part at fault, and the entries of the model that it computes, one per line."""

    what: str
    computes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n  computes ".join((self.what, *self.computes))


def locate(subject: ComparedModel, tell: Callable[[str], None] = lambda line: None) -> Blame:
    """The kernel at fault, or the remaining suspects when each kernel is right alone."""
    graph, weights = subject.optimized()
    search = GroupSearch(subject, weights, tell)
    blame = search.graph(
        graph,
        {n: (_given(n, subject.given, weights),) for n in graph.nodes() if isinstance(n.op, Param)},
    )
    return blame or search.whole()


def _given(node: Node, inputs: Mapping[str, Array], weights: Mapping[str, Array]) -> Array:
    assert isinstance(node.op, Param)
    return np.asarray((weights if node.op.kind == "weight" else inputs)[node.op.name])


class GroupSearch:
    """Runs groups alone, on the values of their inputs, and finds which are wrong."""

    def __init__(
        self, subject: ComparedModel, weights: Mapping[str, Array], tell: Callable[[str], None]
    ) -> None:
        self.subject, self.weights, self.tell = subject, weights, tell
        self.schedules = LoweringCache(subject.target)
        self.promise = promise_of(subject.target, subject.model)

    def graph(self, graph: Graph, values: Values) -> Blame | None:
        """The first group of a graph that is wrong on right inputs."""
        for node in graph.nodes():
            if node not in values:
                values[node] = evaluate(node, [values[i] for i in node.inputs])
        for group in partition(graph, self.subject.target, kind_taken=kind_taken).groups:
            if not is_alias(group):
                blame = self.group(group, values)
                if blame is not None:
                    return blame
        return None

    def group(self, group: Group, values: Values) -> Blame | None:
        """What is wrong with a group, given the values of its inputs; None where it is right."""
        alone, given = _alone(group, values)
        graph = alone.graph
        wanted = outputs_of(graph, given, self.weights, self.promise)
        if group.kind is Kind.CONTROL:
            alone = partition(captured(graph), self.subject.target, kind_taken=kind_taken)
        names = _entries(group)
        try:
            lowered = self.lowered(alone)
        except Exception as error:
            return Blame(
                f"no kernel can be made of a group of kind {group.kind.value}: {_said(error)}",
                names,
            )
        kernels = ", ".join(k.name for k in lowered.program.kernels) or group.anchor.op.mnemonic
        verdict = self.tried(lowered, given, wanted)
        self.tell(f"{kernels}: {verdict or 'right'}")
        if not verdict:
            return None
        if group.kind is Kind.CONTROL:
            return self.inside(group.anchor, values) or Blame(
                f"wrong steps around {kernels}: {verdict}", names
            )
        program = lowered.program
        if sum(k.work.flops for k in program.kernels) > INTERPRETED:
            return Blame(
                f"kernel {kernels}, or the backend on it: {verdict}; `xlac reduce` makes it small "
                "enough to tell",
                names,
            )
        if not _differs(wanted, lambda: _interpreted(program, given)):
            return Blame(
                f"backend '{self.subject.backend.name}' disagrees with the interpreter on kernel "
                f"{kernels}: {verdict}",
                names,
            )
        if len(group.nodes) > 1 and not self.tried(
            self.lowered(partition(graph, self.subject.target, fuse=False, kind_taken=kind_taken)),
            given,
            wanted,
        ):
            return Blame(
                f"wrong kernel {kernels}: {verdict}; its nodes are right one by one, so it is how "
                "they are fused",
                names,
            )
        return Blame(f"wrong kernel {kernels}: {verdict}", names)

    def handed(self, group: Group, values: Values) -> bool:
        """Whether a group is right with its weights as inputs, so that nothing is packed."""
        alone, given = _alone(group, values, constants=True)
        wanted = outputs_of(alone.graph, given, self.weights, self.promise)
        return not self.tried(self.lowered(alone), given, wanted)

    def inside(self, node: Node, values: Values) -> Blame | None:
        """The group at fault in the first iteration of a loop, in the branch taken, or in a
        call.
        """
        for body, operands in _entered(node, [values[i][0] for i in node.inputs]):
            known = {
                p: o
                for p, (o, _) in zip(body.inputs, operands, strict=True)
                if o is not None and is_captured(o)
            }
            inner = body.rewrite(lambda n, k=known: k.get(n, n))  # type: ignore[misc]
            given: Values = {p: (a,) for p, (_, a) in zip(body.inputs, operands, strict=True)}
            leaves = [leaf for leaf in map(reshaped, known.values()) if isinstance(leaf.op, Param)]
            given |= {leaf: (_given(leaf, {}, self.weights),) for leaf in leaves}
            blame = self.graph(
                Graph(inner.name, tuple(p for p in body.inputs if p not in known), inner.outputs),
                given,
            )
            if blame is not None:
                return blame
        return None

    def lowered(self, groups: Partition) -> Lowered:
        """The program of some groups."""
        program = planned(groups, self.schedules.lowered(groups), self.weights)[0]
        return Lowered(
            self.subject.model, self.subject.target, groups, self.schedules, program, groups
        )

    def tried(
        self, lowered: Lowered, given: Mapping[str, Array], wanted: Mapping[str, Approximation]
    ) -> str:
        """The difference between a program's results and the wanted ones; None where they agree."""

        def run() -> Mapping[str, Array]:
            return ran(built_anew(lowered, self.subject.backend), given)

        return _differs(wanted, run)

    def whole(self) -> Blame:
        """All kernels are right alone, so the fault is in the steps between them, the memory plan,
        or the backend's host code.
        """
        subject = self.subject
        program = lower(subject.model, subject.target).program
        plain = (
            "every kernel is right alone: look at how steps share memory (`xlac inspect --stage "
            "memory`)"
        )
        if sum(k.work.flops for k in program.kernels) > INTERPRETED:
            return Blame(plain)
        wanted = estimated(subject.model.graph, subject.given, subject.model.weights)
        if _differs(
            {s.name: wanted[s.name] for s in program.outputs},
            lambda: _interpreted(program, subject.inputs),
        ):
            return Blame(plain)
        return Blame(
            "every kernel is right alone, and the interpreter runs the program rightly: backend "
            f"'{subject.backend.name}'"
        )


def _alone(
    group: Group, values: Values, constants: bool = False
) -> tuple[Partition, dict[str, Array]]:
    """A group as a program of its own, and its inputs: the values that it reads; with `constants`,
    also its weights.
    """
    alone, read = group_alone(group, constants)
    return alone, {name: np.asarray(values[node][0], order="C") for name, node in read.items()}


def _entered(
    node: Node, arrays: Sequence[Array]
) -> list[tuple[Graph, list[tuple[Node | None, Array]]]]:
    """The bodies that a control operation runs first, each with the operand and the value of its
    inputs.
    """
    pairs: list[tuple[Node | None, Array]] = list(zip(node.inputs, arrays, strict=True))
    match node.op:
        case Call(body=Graph() as body):
            return [(body, pairs)]
        case Cond(branches=branches):
            index = int(arrays[0])
            return [(branches[index if 0 <= index < len(branches) else -1], pairs[1:])]
        case While(cond=Graph() as cond, body=Graph() as body):
            # a carry is not constant
            now: list[tuple[Node | None, Array]] = [(None, a) for a in arrays]
            return [(cond, now), (body, now)]
        case Scan(body=Graph() as body, length=int() as length) if length:
            _, xs, rest = node.op.parts(pairs)
            at = length - 1 if node.op.reverse else 0
            return [
                (
                    body,
                    [
                        *((None, a) for a in arrays[: node.op.carries]),
                        *((None, x[at]) for _, x in xs),
                        *rest,
                    ],
                )
            ]
    return []


def _interpreted(program: Program, given: Mapping[str, Array]) -> dict[str, Array]:
    outputs = {s.name: np.empty(s.extents({}), s.dtype.numpy) for s in program.outputs}
    Interpreter(program).run(
        {s.name: np.asarray(given[s.name], order="C") for s in program.inputs}, outputs
    )
    return outputs


def _differs(wanted: Mapping[str, Approximation], run: Callable[[], Mapping[str, Array]]) -> str:
    try:
        results = run()
    except Exception as error:
        return _said(error)
    apart = [name for name, want in wanted.items() if not agree(want, np.asarray(results[name]))]
    return f"{len(apart)} of {len(wanted)} results differ" if apart else ""


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _entries(group: Group) -> tuple[str, ...]:
    """The nodes of a group by the entry of the model that they come from."""
    operations: dict[str, list[str]] = {}
    for node in group.nodes:
        operations.setdefault(str(node.origin or ""), []).append(node.op.mnemonic)
    return tuple(
        f"{entry}: {' '.join(nodes)}" if entry else " ".join(nodes)
        for entry, nodes in operations.items()
    )
