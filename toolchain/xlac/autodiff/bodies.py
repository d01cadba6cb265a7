"""Derivatives of bodies, of which those of loops and branches are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from xlac.ir.graph import Graph, Node, walk
from xlac.ops.walks import dependents, fresh

PullBack = Callable[[Sequence[Node], Sequence[Node], Sequence[Node]], list[Node | None]]
Tangents = tuple[Node | None, ...]


class ForwardMode(Protocol):
    """`forward.Forward`, which computes tangents through a body."""

    primal: dict[Node, Node]

    def __init__(self, tangents: Mapping[Node, Node]) -> None: ...

    def run(self, roots: Iterable[Node]) -> list[Node | None]:
        """The tangents of roots; None where zero."""
        ...


@dataclass
class Linearized:
    """A body and its derivative. `values` are its outputs; `tangents`, those of the outputs, are
    linear in `sources`, the tangents of its active inputs, and read `residuals`, nodes of the body.
    """

    values: list[Node]
    tangents: list[Node | None]
    sources: list[Node]
    residuals: list[Node]


def linearize(body: Graph, active: Sequence[bool], forward: type[ForwardMode]) -> Linearized:
    """Differentiates a body with respect to its active inputs."""
    inputs = [i for i, tangents in zip(body.inputs, active, strict=True) if tangents]
    sources = fresh([i.type for i in inputs], "t")
    forward_mode = forward(dict(zip(inputs, sources, strict=True)))
    tangents = forward_mode.run(body.outputs.values())
    values = [forward_mode.primal[output] for output in body.outputs.values()]
    own_tangents = [tangent for tangent in tangents if tangent is not None]
    return Linearized(values, tangents, sources, residuals(own_tangents, sources))


def linearized_to_fixpoint(
    body: Graph, active: list[bool], carries: int, forward: type[ForwardMode]
) -> Linearized:
    """Differentiates the body of a loop. The first `carries` inputs are carried: one whose output
    has a tangent becomes active in the next iteration, so it is marked in `active`, until none is
    added.
    """
    while True:
        parts = linearize(body, active, forward)
        more = [n for n in range(carries) if parts.tangents[n] is not None and not active[n]]
        if not more:
            return parts
        for n in more:
            active[n] = True


VIEWS = ("broadcast", "reshape", "transpose")


def residuals(tangents: Sequence[Node], sources: Sequence[Node]) -> list[Node]:
    """The nodes that tangents read and that do not depend on their sources. Of a view, its operand
    is taken; constants are left out, since they can be made again where they are read.
    """
    linear = dependents(tangents, sources)
    read = {i: None for node in linear for i in node.inputs if i not in linear}
    known = _on_parameters(read)
    outside: dict[Node, None] = {}
    for node in read:
        while node.op.mnemonic in VIEWS:
            node = node.inputs[0]
        if node in known:
            outside[node] = None
    return list(outside)


def _on_parameters(roots: Iterable[Node]) -> set[Node]:
    """The nodes under roots that depend on a parameter."""
    dependent: set[Node] = set()
    for node in walk(roots, ()):
        if node.op.mnemonic == "param" or any(i in dependent for i in node.inputs):
            dependent.add(node)
    return dependent
