"""A body and its change: what loops and branches are differentiated by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from xlac.ir.graph import Graph, Node, walk
from xlac.ops.walks import dependents, fresh

PullBack = Callable[[Sequence[Node], Sequence[Node], Sequence[Node]], list[Node | None]]
Tangents = tuple[Node | None, ...]


class Pusher(Protocol):
    """`forward.Forward`: what pushes changes through a body."""

    primal: dict[Node, Node]

    def __init__(self, tangents: Mapping[Node, Node]) -> None: ...

    def run(self, roots: Iterable[Node]) -> list[Node | None]:
        """The changes of roots; None where nothing changes."""
        ...


@dataclass
class Linearized:
    """A body and its change. `values` are its outputs; `changes` depend linearly on `sources`, the
    changes of its active inputs, and on `residuals`, nodes of the body that they read.
    """

    values: list[Node]
    changes: list[Node | None]
    sources: list[Node]
    residuals: list[Node]


def linearize(body: Graph, active: Sequence[bool], forward: type[Pusher]) -> Linearized:
    """A body whose active inputs change."""
    inputs = [i for i, changes in zip(body.inputs, active, strict=True) if changes]
    sources = fresh([i.type for i in inputs], "t")
    pusher = forward(dict(zip(inputs, sources, strict=True)))
    changes = pusher.run(body.outputs.values())
    values = [pusher.primal[output] for output in body.outputs.values()]
    found = [change for change in changes if change is not None]
    return Linearized(values, changes, sources, residuals(found, sources))


def settled(body: Graph, active: list[bool], carries: int, forward: type[Pusher]) -> Linearized:
    """A body whose `active` inputs change; of the first `carries`, those too that are carried on from
    what changes, which are marked in `active`.
    """
    while True:
        parts = linearize(body, active, forward)
        more = [n for n in range(carries) if parts.changes[n] is not None and not active[n]]
        if not more:
            return parts
        for n in more:
            active[n] = True


VIEWS = ("broadcast", "reshape", "transpose")


def residuals(changes: Sequence[Node], sources: Sequence[Node]) -> list[Node]:
    """What the changes read that does not depend on the sources: of views, what they are views of;
    constants are made where they are read.
    """
    linear = dependents(changes, sources)
    read = {i: None for node in linear for i in node.inputs if i not in linear}
    known = _on_parameters(read)
    found: dict[Node, None] = {}
    for node in read:
        while node.op.mnemonic in VIEWS:
            node = node.inputs[0]
        if node in known:
            found[node] = None
    return list(found)


def _on_parameters(roots: Iterable[Node]) -> set[Node]:
    """The nodes under roots that depend on a parameter."""
    found: set[Node] = set()
    for node in walk(roots, ()):
        if node.op.mnemonic == "param" or any(i in found for i in node.inputs):
            found.add(node)
    return found
