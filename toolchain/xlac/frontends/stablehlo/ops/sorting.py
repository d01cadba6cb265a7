"""Sorting by a comparator."""

from __future__ import annotations

from xlac.frontends.stablehlo.ops.reductions import regrouped
from xlac.frontends.stablehlo.regions import direction
from xlac.frontends.stablehlo.site import Built, Site
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import Tensor, nodes_of
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.order import Sort


@operation("sort")
def sort(site: Site) -> Built:
    xs = site.tensors()
    if not xs:
        site.fail("takes tensors")
    rank = len(xs[0].shape)
    axis = site.integer("dimension", -1)
    if not -rank <= axis < rank:
        site.fail(f"axis {axis} does not fit rank {rank}")
    site.importer.agree([x.shape for x in xs])
    comparator = by_parts(site.closed(0), xs)
    plain = direction(comparator)
    op = Sort(axis % rank, *plain) if plain else Sort(axis % rank, body=comparator)
    return regrouped(xs, build.results(Node.of(op, *nodes_of(xs))))


def by_parts(body: Graph, xs: list[Tensor]) -> Graph:
    """The comparator's inputs in our order: the two elements of every part, not the parts of every element."""
    inputs: list[Node] = []
    start = 0
    for x in xs:
        count = len(x.parts)
        inputs += [body.inputs[start + side * count + part] for part in range(count) for side in (0, 1)]
        start += 2 * count
    return Graph(body.name, tuple(inputs), body.outputs)
