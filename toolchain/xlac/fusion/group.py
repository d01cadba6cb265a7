"""What fusion hands to lowerings: groups of nodes, each of which becomes a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from xlac.ir.dims import Sym, Symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.op import attributes
from xlac.ir.types import Type
from xlac.ops.control.control import Pick
from xlac.ops.tensor import leaf
from xlac_sdk.source import Origin
from xlac_sdk.target import Target


class Kind(Enum):
    """Which lowering makes the kernels of a group."""

    ELEMENTWISE = "elementwise"  # loops over the outputs' shape; every element computed alone
    ROWS = "rows"  # reductions over trailing axes, with pointwise work before, between and after
    REDUCE = "reduce"  # one reduction over other axes (columns, everything), producers fused
    DOT = "dot"  # a contraction with producers' views and an epilogue
    CONV = "conv"  # a convolution with an epilogue
    ATTENTION = "attention"  # taken whole, with an epilogue
    WINDOW = "window"
    SCATTER = "scatter"
    UPDATE = "update"  # a slice of a value replaced; the rest stays where it is
    CUMULATIVE = "cumulative"
    SORT = "sort"
    MATRIX = "matrix"  # a small matrix factored, or a triangular system solved, whole
    RANDOM = "random"
    CUSTOM = "custom"  # a hand-written kernel, into which nothing is fused
    CLAIMED = "claimed"  # a composite that the target takes whole
    COLLECTIVE = "collective"  # values exchanged with other ranks
    CONTROL = "control"  # cond, while, scan, call: host steps around other groups


class Placement(Enum):
    """Where a value is computed, as far as fusion has a choice (`placement.py`)."""

    INLINE = "inline"  # in every kernel that reads it
    STORED = "stored"  # once, in the first kernel that reads it, which writes it for the others
    APART = "apart"  # once, before all kernels that read it


WITHOUT_KERNELS = (Kind.CONTROL, Kind.CLAIMED, Kind.COLLECTIVE)
"""Groups that are host steps, which the planner writes."""


KindTaken = Callable[[Node, Target], Kind | None]
"""Gives the kind of group for a composite that is lowered whole; None where it is expanded."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that share one kernel.

    `nodes` are in topological order and include `outputs`; `inputs` are the nodes outside that they
    read (params, constants and outputs of other groups). `anchor` is the node that decides the
    schedule. `reason` says in one line why these nodes are together; `barriers` says, per
    neighbour, why it is not here.
    """

    kind: Kind
    anchor: Node
    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    reason: str = ""
    barriers: Mapping[Node, str] = field(default_factory=dict)
    members: frozenset[Node] = field(init=False, default=frozenset(), repr=False)
    # cached by `open_sizes`
    sizes: tuple[Sym, ...] | None = field(init=False, default=None, repr=False)
    ranks: dict[Node, int] | None = field(init=False, default=None, repr=False)  # cached by `ranks`
    # cached by `origins`
    places: tuple[Origin, ...] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozenset(self.nodes))

    def __contains__(self, node: Node) -> bool:
        return node in self.members


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A graph cut into groups, in the order they run. `inner` holds the partitions of bodies of
    CONTROL groups. `chosen` has the values that are in memory because that was estimated to cost
    less, or asked for.
    """

    graph: Graph
    groups: tuple[Group, ...]
    inner: Mapping[Graph, Partition] = field(default_factory=dict)
    chosen: Mapping[Node, Placement] = field(default_factory=dict)


def open_sizes(group: Group) -> tuple[Sym, ...]:
    """The symbols in the types and attributes of a group, by name: the sizes passed to its
    kernels.
    """
    if group.sizes is None:
        object.__setattr__(group, "sizes", _open_sizes(group))
    return group.sizes or ()


def ranks(group: Group) -> dict[Node, int]:
    """The position of each value that a group reads or writes among its parameters. Cached, as
    every launch of the group needs it.
    """
    if group.ranks is None:
        object.__setattr__(
            group,
            "ranks",
            {node: place for place, node in enumerate((*group.inputs, *group.outputs))},
        )
    assert group.ranks is not None
    return group.ranks


def picked(group: Group) -> list[tuple[Node, int]]:
    """The outputs, and which result of the anchor each is."""
    return [(n, n.op.index if isinstance(n.op, Pick) else 0) for n in group.outputs]


def origins(group: Group) -> tuple[Origin, ...]:
    """Where the group's nodes came from, each place once."""
    if group.places is None:
        places = dict.fromkeys(n.origin for n in group.nodes if n.origin is not None)
        object.__setattr__(group, "places", tuple(places))
    return group.places or ()


def _open_sizes(group: Group) -> tuple[Sym, ...]:
    open_sizes: set[Symbol] = set()
    for node in (*group.inputs, *group.nodes):
        for type in node.results:
            _note(type.shape, open_sizes)
        if node in group.members:
            for value in attributes(node.op).values():
                _note(value, open_sizes)
    return tuple(Sym((((symbol,), 1),)) for symbol in sorted(open_sizes))


def _note(value: object, open_sizes: set[Symbol]) -> None:
    match value:
        case Sym():
            open_sizes |= symbols(value)
        case Type(shape=shape):
            _note(shape, open_sizes)
        case tuple():
            for part in value:
                _note(part, open_sizes)


def is_immediate(node: Node) -> bool:
    """Whether a group input becomes a literal in the code instead of a parameter."""
    return isinstance(node.op, leaf.Const) and node.op.uniform is not None
