"""The model of one rank: its graph, and the parts of the weights that it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, Op
from xlac.ir.types import Type
from xlac.model import MeshSection, Model
from xlac.ops.collective.group import Collective
from xlac.ops.collective.manual import ManualComputation
from xlac.ops.collective.ranks import AxisIndex
from xlac.ops.collective.shard import Shard, named
from xlac.ops.control.control import Scan, While
from xlac.ops.tensor.leaf import Param, param
from xlac.ops.tensor.reorder import Roll
from xlac.ops.walks import every_node
from xlac.passes.expand import ExpandPass
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac.passes.weights import Weights
from xlac.spmd.cost import seconds
from xlac.spmd.manual import check_computations, check_outside, computations
from xlac.spmd.mesh import AxisNames, Mesh, Sharding, part_of
from xlac.spmd.partition import Partitioned, partitioned
from xlac.spmd.run_time import Rates, computing
from xlac.spmd.sequence.ring import KEPT, with_rings
from xlac.spmd.step_time import step_time
from xlac_sdk.source import Diagnostic, SourceError, Span
from xlac_sdk.support.choices import similar
from xlac_sdk.target import Target

DATA = "data"
"""The mesh axis that divides the first axis of inputs, where a model says nothing of it: of the
first input, and of all others of that size.
"""

AXES = 8  # of a mesh
RANKS = 1 << 20


def parsed(text: str) -> dict[str, int]:
    """`data=2,model=2` as sizes by name. Raises SourceError."""
    sizes: dict[str, int] = {}
    for part in text.split(","):
        name, equals, size = (piece.strip() for piece in part.partition("="))
        if not equals or not name or not size.isdecimal() or not 1 <= int(size) <= RANKS:
            problem = f"'{part}' is no axis of a mesh with its size"
            raise SourceError(Diagnostic("XL7805", problem, hint="--mesh data=2,model=4"))
        if name in sizes:
            raise SourceError(Diagnostic("XL7805", f"--mesh names '{name}' twice"))
        sizes[name] = int(size)
    if len(sizes) > AXES:
        raise SourceError(Diagnostic("XL7805", f"a mesh has at most {AXES} axes"))
    return sizes


def mesh_of(section: MeshSection | None, given: Mapping[str, int]) -> Mesh:
    """The mesh of a model: its axes, with the sizes given before its own. Raises SourceError for a
    size that neither gives, and for an axis that it lacks.
    """
    if section is None:
        return Mesh(tuple(given.items()))
    strange = [name for name in given if name not in section.mesh]
    if strange:
        close = similar(strange[0], list(section.mesh))
        hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(section.mesh)}"
        problem = f"the model's mesh has no axis '{strange[0]}'"
        raise SourceError(Diagnostic("XL7805", problem, hint=hint))
    sizes = {name: given.get(name, size) for name, size in section.mesh.items()}
    unknown = [name for name, size in sizes.items() if size is None]
    if unknown:
        problem = f"the model leaves the size of mesh axis '{unknown[0]}' open"
        hint = "give it: --mesh " + ",".join(f"{name}=…" for name in unknown)
        raise SourceError(Diagnostic("XL7805", problem, hint=hint))
    return Mesh(tuple((name, size) for name, size in sizes.items() if size is not None))


def in_stages(model: Model, mesh: Mesh) -> bool:
    """Whether the stages of a model are on several ranks of a mesh."""
    said = model.ranks.pipeline if model.ranks is not None else None
    return said is not None and mesh.sizes.get(said.axis, 1) > 1


def of_rank(
    model: Model, mesh: Mesh, rank: int, target: Target, idle_axes: bool = False
) -> tuple[Model, Partitioned]:
    """The model of a rank, and how the whole one was partitioned. Its sizes must be fixed. Raises
    SourceError for what cannot be divided as it is said, and, unless `idle_axes`, for an axis of
    the mesh that divides nothing, other than that of the model's stages.
    """
    whole = expanded(model.graph, target, KEPT)
    graph = expanded(whole, target)
    said = _said(model, mesh)
    given = said | _data(model, graph, mesh, said)
    _check_nodes(graph, mesh)
    check_computations(graph, mesh)
    links, sums = tuple(model.state.items()), _partial(model)
    partition = partitioned(graph, mesh, given, links, partial=sums)
    around = with_rings(whole, mesh, given, links)
    if around is not whole:
        other = partitioned(expanded(around, target), mesh, given, links, partial=sums)
        partition = min(partition, other, key=_predicted)
    # a mesh on which the model computes by hand may have axes that divide nothing
    if not idle_axes and not any(computations(graph)):
        stages = model.ranks.pipeline if model.ranks is not None else None
        _check_used(partition, mesh, stages.axis if stages is not None else "")
    weights = RankWeights(model.weights, partition.weights, mesh, rank)
    ranks = MeshSection(mesh.sizes, rank=rank)
    own = replace(model, graph=partition.graph, weights=weights, checkpointed=None, ranks=ranks)
    return own, partition


def _predicted(partition: Partitioned) -> float:
    """The time of a step of a rank, in seconds."""
    rates, graph = Rates(), partition.graph
    message = partial(seconds, link=rates.link)
    return step_time(graph, computing(graph, rates), message).seconds


def expanded(graph: Graph, target: Target, kept: tuple[type[Op], ...] = ()) -> Graph:
    """The graph of primitives, which have rules, and of what says how values are divided; and of
    operations that are `kept`.
    """
    check_outside(graph)
    context = PassContext(
        target,
        Weights({}),
        "default",
        lambda node, _: (
            isinstance(node.op, (Shard, ManualComputation, Roll, *kept))
            or (isinstance(node.op, Collective) and node.op.group > 1)
        ),
    )
    return ExpandPass().run(graph, Trace(), context)


class RankWeights(Mapping[str, Array]):
    """The parts of weights that a rank holds, by name; of mapped files only these are read."""

    def __init__(
        self, given: Mapping[str, Array], shardings: Mapping[str, Sharding], mesh: Mesh, rank: int
    ) -> None:
        self._given, self._shardings, self._mesh, self._rank = given, shardings, mesh, rank

    def __getitem__(self, name: str) -> Array:
        array = self._given[name]
        sharding = self._shardings.get(name, ())
        if not any(sharding):
            return array
        return part_of(array, self._mesh, self._rank, sharding)

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


def _said(model: Model, mesh: Mesh) -> dict[str, Sharding]:
    """What the model says of its parameters, checked."""
    if model.ranks is None:
        return {}
    params = {n.op.name: n for n in model.graph.nodes() if isinstance(n.op, Param)}
    params |= {n.op.name: n for n in model.graph.inputs if isinstance(n.op, Param)}
    shardings: dict[str, Sharding] = {}
    for name, said in model.ranks.params.items():
        if name in params:
            _check_divides(name, params[name].type, said.axes, mesh, said.span)
            shardings[name] = said.axes
    return shardings


def _partial(model: Model) -> dict[str, AxisNames]:
    """The states of which ranks hold summands, and along which axes of the mesh."""
    said = model.ranks.params if model.ranks is not None else {}
    state = {param(n).name for n in model.graph.inputs if param(n).kind == "state"}
    return {name: one.partial for name, one in said.items() if one.partial and name in state}


def _data(
    model: Model, graph: Graph, mesh: Mesh, said: Mapping[str, Sharding]
) -> dict[str, Sharding]:
    """The first axis of every input, along DATA, where nothing else uses that axis of the mesh."""
    if DATA not in mesh.sizes:
        return {}
    if any(DATA in names for names in _used(model, graph)):
        return {}
    batches = [n for n in model.inputs if n.type.rank and not _is_whole(param(n).name, said)]
    size = batches[0].shape[0] if batches else 0
    if not isinstance(size, int) or size <= 1:
        return {}
    first = {param(n).name: n.type.rank for n in batches if n.shape[0] == size}
    return {name: ((DATA,), *said.get(name, ((),) * rank)[1:]) for name, rank in first.items()}


def _is_whole(name: str, said: Mapping[str, Sharding]) -> bool:
    """Whether a model says that the first axis of an input is divided otherwise, or that nothing of
    the input is.
    """
    return name in said and (bool(said[name][0]) or not any(said[name]))


def _used(model: Model, graph: Graph) -> Iterator[tuple[str, ...]]:
    """The mesh axes that a model names itself, but for its state: ranks may share a batch among
    them, and also what is kept between steps.
    """
    state = {param(n).name for n in graph.inputs if param(n).kind == "state"}
    for name, said in (model.ranks.params if model.ranks else {}).items():
        if name not in state:
            yield from said.axes
    for node in graph.nodes():
        if isinstance(node.op, Shard):
            yield from map(named, node.op.axes)
    for node in computations(graph):
        assert isinstance(node.op, ManualComputation)
        yield node.op.manual


def _check_used(partition: Partitioned, mesh: Mesh, stages: str) -> None:
    """Raises SourceError for an axis of the mesh that divides nothing and has no `stages`."""
    known = (*partition.inputs.values(), *partition.weights.values(), *partition.outputs.values())
    used = {name for sharding in known for names in sharding for name in names}
    used |= {
        axis
        for node in partition.reasons
        if isinstance(node.op, Collective)
        for axis in node.op.axes
    }
    used |= {
        axis
        for n in every_node(partition.graph)
        if isinstance(n.op, AxisIndex)
        for axis in n.op.axes
    }
    for name, size in mesh.axes:
        if size > 1 and name not in used and name != stages:
            problem = f"nothing is divided along '{name}': its {size} ranks would do the same work"
            hint = f"say what is, in shard or by a node {{op: shard, …}}, or take {name}=1"
            raise SourceError(Diagnostic("XL7805", problem, hint=hint))


def _check_nodes(graph: Graph, mesh: Mesh) -> None:
    """Raises SourceError for a `shard` node of axes that the mesh lacks, or that do not divide."""
    for node in every_node(graph):
        if isinstance(node.op, Shard):
            span = node.origin.span if node.origin else None
            axes = tuple(map(named, node.op.axes))
            _check_divides(node.name or "a value", node.type, axes, mesh, span)


def _check_divides(name: str, type: Type, axes: Sharding, mesh: Mesh, span: Span | None) -> None:
    for number, (size, names) in enumerate(zip(type.shape, axes, strict=True)):
        strange = [axis for axis in names if axis not in mesh.sizes]
        if strange:
            problem = f"the mesh {mesh} has no axis '{strange[0]}', which divides '{name}'"
            raise SourceError(Diagnostic("XL7802", problem, span))
        if names and not isinstance(size, int):
            problem = f"axis {number} of '{name}', {type}, has no fixed size to be divided"
            raise SourceError(Diagnostic("XL7804", problem, span, "give its dimensions: --dim"))


def collectives(partition: Partitioned) -> list[tuple[Node, str]]:
    """The collectives of a rank's program in order, those inside of loops, too, each with why it is
    there.
    """
    reasons = partition.reasons
    return [(node, reasons[node]) for node in every_node(partition.graph) if node in reasons]


def repeats(graph: Graph, times: int | None = 1) -> dict[Node, int | None]:
    """How often each collective runs; None inside of a loop of unknown length."""
    found: dict[Node, int | None] = {}
    for node in graph.nodes():
        if isinstance(node.op, Collective):
            found[node] = times
        inner = times
        if isinstance(node.op, While):
            inner = None
        elif isinstance(node.op, Scan) and times is not None:
            inner = times * node.op.length if isinstance(node.op.length, int) else None
        for body in node.op.bodies():
            found |= repeats(body, inner)
    return found
