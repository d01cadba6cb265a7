"""What a format has no words for and a model does without: it is left out, and said aloud."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops.collective.shard import Shard
from xlac_sdk.support.counts import number_of


class LeftOutWarning(UserWarning):
    """Something of a model is not in the file that was written of it."""


def warn_left_out(model: Model, format: str, divisions: bool = True) -> None:
    """Warns of targets of nodes, which a format does not have, and with `divisions` of those among
    ranks.
    """
    for message in left_out(model, format, divisions):
        warnings.warn(message, LeftOutWarning, stacklevel=3)


def left_out(model: Model, format: str, divisions: bool) -> Iterator[str]:
    """A sentence for each kind of what is left out."""
    if model.place:
        said = [f"{one.pattern}: {'|'.join(one.targets)}" for one in model.place]
        yield f"{format} does not say where nodes are computed: place {_listed(said)} is left out"
    if not divisions:
        return
    nodes = sum(1 for _ in _shards(model.graph))
    said = list(model.ranks.params) if model.ranks is not None else []
    if said or nodes:
        parts = [_listed(said)] if said else []
        parts += [number_of(nodes, "shard node")] if nodes else []
        what = f"{format} does not say how values are divided among ranks"
        yield f"{what}: {' and '.join(parts)} left out"


def _listed(said: list[str]) -> str:
    more = len(said) - 3
    return ", ".join(said[:3]) + (f" and {more} more" if more > 0 else "")


def _shards(graph: Graph) -> Iterator[Node]:
    """The `shard` nodes of a graph, and of bodies inside it."""
    for node in graph.nodes():
        if isinstance(node.op, Shard):
            yield node
        for body in node.op.bodies():
            yield from _shards(body)
