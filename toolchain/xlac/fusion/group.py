"""What fusion hands to schedules, and what schedules hand to the memory planner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from xlac.ir.dims import Dim, Shape, Sym, Symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, attributes
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Kernel, Work
from xlac_sdk.source import Origin


class Kind(Enum):
    """Which schedule makes the kernel of a group."""

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
    RANDOM = "random"
    CLAIMED = "claimed"  # a composite that the target takes whole
    CONTROL = "control"  # cond, while, scan, call: host steps around other groups


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Nodes that share one kernel.

    `nodes` are in topological order and include `outputs`; `inputs` are the nodes outside that they
    read (params, constants and outputs of other groups). `hero` is the node that decides the
    schedule. `reason` says in one line why these nodes are together; `barriers` says, per
    neighbour, why it is not here.
    """

    kind: Kind
    hero: Node
    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    reason: str = ""
    barriers: Mapping[Node, str] = field(default_factory=dict)
    members: frozenset[Node] = field(init=False, default=frozenset(), repr=False)
    # `open_sizes`, once they were asked for
    sizes: tuple[Sym, ...] | None = field(init=False, default=None, repr=False)
    ranks: dict[Node, int] | None = field(init=False, default=None, repr=False)  # `ranks`, likewise
    # `origins`, likewise
    places: tuple[Origin, ...] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozenset(self.nodes))

    def __contains__(self, node: Node) -> bool:
        return node in self.members


@dataclass(frozen=True, slots=True, eq=False)
class Scratch:
    """Memory that a scheduled group needs between its own launches; the planner places it in the
    arena.

    `lasting` memory is zero at first and the group's own from call to call.
    """

    dtype: DType
    size: Dim  # elements
    hint: str = "scratch"
    lasting: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A constant computed at compile time from other constants (prepacked weights, say).

    `key` names the transformation, so that equal packings of one source are made once.
    """

    dtype: DType
    size: int
    sources: tuple[Node, ...]
    make: Callable[..., Array]
    key: str


Value = Node | Scratch | Packed


@dataclass(frozen=True, slots=True)
class Launching:
    """One kernel launch of a scheduled group, before memory is planned: a value for each parameter
    and size.

    `backward` makes the kernel that goes through its largest constant from the end to the start,
    where there is one.
    """

    kernel: Kernel
    arguments: tuple[Value, ...]
    sizes: tuple[Sym, ...] = ()
    backward: Callable[[], Kernel] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Calling:
    """A whole group as one operation of the target's own: a `Call` before memory is planned.

    Arguments are dense and row-major, each of its shape: what is read, the outputs, memory to be
    used meanwhile.
    """

    name: str
    arguments: tuple[Value, ...]
    shapes: tuple[Shape, ...]
    attributes: Mapping[str, object]
    work: Work


@dataclass(frozen=True, slots=True)
class Copying:
    """The target begins as a copy of the source; nothing to do when the planner gives them one
    memory.
    """

    source: Node
    target: Value


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """The launches that compute the outputs of a group, and the copies that are made before the
    first of them.

    `in_place` lists (output, input) pairs that may share memory: each element of the input is read
    only before, or in the same step as, the output's element of the same index is written. `call`
    stands in place of launches; `note` says, where there was a choice between kernels and a
    library, how it fell and why.
    """

    launches: tuple[Launching, ...]
    in_place: tuple[tuple[Node, Node], ...] = ()
    copies: tuple[Copying, ...] = ()
    call: Calling | None = None
    note: str = ""

    @property
    def alone(self) -> tuple[Launching, ...]:
        """The launches, for a schedule of more than this: there are no copies to make before, and
        no call in their place.
        """
        if self.copies or self.call is not None:
            raise AssertionError("a schedule that is part of another has more than launches")
        return self.launches


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A graph cut into groups, in the order they run. `inner` holds the partitions of bodies of
    CONTROL groups.
    """

    graph: Graph
    groups: tuple[Group, ...]
    inner: Mapping[Graph, Partition] = field(default_factory=dict)


def open_sizes(group: Group) -> tuple[Sym, ...]:
    """The symbols in the types and attributes of a group, by name: what its kernels are launched
    with.
    """
    if group.sizes is None:
        object.__setattr__(group, "sizes", _open_sizes(group))
    return group.sizes or ()


def ranks(group: Group) -> dict[Node, int]:
    """The place of each value that a group reads or gives among its parameters. Many launches of
    one group ask for it.
    """
    if group.ranks is None:
        object.__setattr__(
            group,
            "ranks",
            {node: place for place, node in enumerate((*group.inputs, *group.outputs))},
        )
    assert group.ranks is not None
    return group.ranks


def origins(group: Group) -> tuple[Origin, ...]:
    """Where the group's nodes came from, each place once."""
    if group.places is None:
        found = dict.fromkeys(n.origin for n in group.nodes if n.origin is not None)
        object.__setattr__(group, "places", tuple(found))
    return group.places or ()


def _open_sizes(group: Group) -> tuple[Sym, ...]:
    found: set[Symbol] = set()
    for node in (*group.inputs, *group.nodes):
        for type in node.results:
            _note(type.shape, found)
        if node in group.members:
            for value in attributes(node.op).values():
                _note(value, found)
    return tuple(Sym((((symbol,), 1),)) for symbol in sorted(found))


def _note(value: object, found: set[Symbol]) -> None:
    match value:
        case Sym():
            found |= symbols(value)
        case Type(shape=shape):
            _note(shape, found)
        case tuple():
            for part in value:
                _note(part, found)
