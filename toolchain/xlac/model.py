"""A model ready to compile: a graph and where its weights are. Every frontend returns one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from xlac.ir.dims import Symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops.tensor.leaf import asked, param
from xlac.support.failures import Check
from xlac_sdk.source import Diagnostic, SourceError, Span
from xlac_sdk.support.choices import chosen

PRECISIONS = ("default", "fast")
"""Of a model: "default" keeps the rounding of each operation; "fast" permits reassociation, fewer
roundings to half precision and more (docs/SPEC.md).
"""


def chosen_precision(precision: str) -> str:
    """A precision, checked: one of PRECISIONS, or "" for the model's own. Raises SourceError for
    any other.
    """
    return "" if precision == "" else chosen("precision", precision, PRECISIONS)


@dataclass(frozen=True, slots=True)
class SaidSharding:
    """How a parameter is divided among ranks, and where that is said. Along the mesh axes `partial`
    ranks hold summands of it.
    """

    axes: tuple[tuple[str, ...], ...]  # the mesh axes of each axis
    span: Span | None = None
    partial: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SaidPipeline:
    """The mesh axis along which stages of a model are, the patterns of each stage's nodes (None: to
    be found, `chunks` for each rank), and the schedule of training. And where this is said.
    """

    axis: str
    stages: tuple[tuple[str, ...], ...] | None = None
    chunks: int = 1
    schedule: str = "1f1b"
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class MeshSection:
    """What a model says of ranks: the axes of their mesh (None: a size left open), by name the
    parameters that are divided, and its stages.
    """

    mesh: Mapping[str, int | None]
    params: Mapping[str, SaidSharding] = field(default_factory=dict)
    rank: int | None = None  # of the model of one rank, whose mesh has its sizes
    pipeline: SaidPipeline | None = None


@dataclass(frozen=True, slots=True)
class SaidPlace:
    """The targets that compute the nodes whose paths fit a pattern: the first one, or one of the
    others where that cannot. And where this is said.
    """

    pattern: str
    targets: tuple[str, ...]
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Model:
    """A named graph and the data of its weights.

    `weights` maps the name of every `param` node of kind "weight" to its array, memory-mapped where
    it comes from a file and made on first use where it is seeded. `dims` are the symbolic sizes
    still open.
    """

    graph: Graph
    weights: Mapping[str, Array]
    dims: Mapping[str, Symbol] = field(default_factory=dict)
    doc: str = ""
    precision: str = "default"  # of PRECISIONS
    # `param` of kind "state" -> the output with its next value
    state: Mapping[str, str] = field(default_factory=dict)
    # custom op -> target -> hand-written file
    kernels: Mapping[str, Mapping[str, Path]] = field(default_factory=dict)
    # output -> axis -> output with its real size
    extents: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    # what the caller gets, where outputs are parts of sequences
    forms: Mapping[str, Any] = field(default_factory=dict)
    # of a checked model, whose last output is then the record of what failed
    checks: tuple[Check, ...] = ()
    # whether hand-written kernels, which are code, may be compiled. None: not decided, and a model
    # that needs one is an error
    allow_kernels: bool | None = None
    # for training steps: the graph with loops that keep fewer carries for the backward pass, by a
    # scale of `autodiff.checkpoints.checkpointing`
    checkpointed: Callable[[float], Graph] | None = None
    # of models that are partitioned among ranks
    ranks: MeshSection | None = None
    # of models whose nodes are on several devices: the first pattern that fits a node wins
    place: tuple[SaidPlace, ...] = ()

    def changed(self, change: Callable[[Model], Model]) -> Model:
        """The model after a change of its graph, and of its checkpointed ones."""
        again, changed_model = self.checkpointed, change(self)
        if again is None:
            return changed_model

        def alike(scale: float) -> Graph:
            return change(replace(self, graph=again(scale), checkpointed=None)).graph

        return replace(changed_model, checkpointed=alike)

    @property
    def mesh_of_rank(self) -> list[list[Any]]:
        """The axes and sizes of the mesh, where this is the model of one of its ranks."""
        ranks = self.ranks
        return [] if ranks is None or ranks.rank is None else list(map(list, ranks.mesh.items()))

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The inputs that the caller supplies: all of the graph's but its state."""
        return asked(self.graph)

    @property
    def grows(self) -> bool:
        """Whether one program may serve several sizes: no state has an open size."""
        held = [node for node in self.graph.inputs if param(node).name in self.state]
        return all(isinstance(size, int) for node in held for size in node.type.shape)

    @property
    def interface(self) -> Interface:
        """The model as its callers see it."""
        outputs = self.graph.outputs
        return Interface(
            self.inputs,
            tuple(param(n).name for n in self.inputs),
            tuple(self.forms or outputs),
            name=self.name,
            types={name: node.type for name, node in outputs.items()},
        )

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.graph.name


@dataclass(frozen=True, slots=True)
class Interface:
    """What callers give a model and get from it, where sizes are open.

    `params` are the parameters that are known, whose shapes may be symbolic. `values` names inputs
    whose values decide sizes, `formed` those that are sequences or optionals, whose element types
    must be known before compiling.
    """

    params: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    values: frozenset[str] = frozenset()
    formed: frozenset[str] = frozenset()
    name: str = "model"
    types: Mapping[str, Type] = field(default_factory=dict)  # of the outputs, where they are known

    @property
    def dims(self) -> tuple[str, ...]:
        """The sizes in the shapes of the parameters, by name."""
        return tuple(
            dict.fromkeys(
                s.name for node in self.params for size in node.shape for s in symbols(size)
            )
        )


class Undecided(SourceError):
    """A model that cannot be built before the values of some inputs are known, because sizes depend
    on them.
    """

    def __init__(self, interface: Interface, places: Sequence[str] = ()) -> None:
        asked = sorted(interface.values | interface.formed)
        problem = (
            f"sizes depend on the value of {', '.join(asked)}"
            if asked
            else "its sizes must be fixed"
        )
        hint = " ".join(f"--set {name}=…" for name in asked) or " ".join(
            f"--dim {name}=…" for name in interface.dims
        )
        super().__init__(
            Diagnostic("XL7006", "; ".join([problem, *places]), hint=f"give it: {hint}")
        )
        self.interface = interface
