"""Sorting by a comparator."""

from __future__ import annotations

from xlac.frontends.stablehlo.comparators import order
from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.ops.dynamic import known
from xlac.frontends.stablehlo.ops.reductions import regrouped
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, Value, nodes_of
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.reduction.order import Sort


@operation("sort")
def sort(site: OperationSite) -> Built:
    """Tensors sorted together along an axis, by the comparator region."""
    xs = site.tensors()
    if not xs:
        site.fail("takes tensors")
    rank = len(xs[0].shape)
    axis = site.integer("dimension", -1)
    if not -rank <= axis < rank:
        site.fail(f"axis {axis} does not fit rank {rank}")
    site.importer.agree([x.shape for x in xs])
    return sorted_by(site.closed(0), xs, axis % rank)


def sorted_by(comparator: Graph, xs: list[TypedTensor], axis: int) -> list[Value]:
    """Tensors sorted together along an axis by a comparator; always stable."""
    body = by_parts(comparator, xs)
    plain = order(body)
    op = Sort(axis, *plain) if plain else Sort(axis, body=body)
    return regrouped(xs, build.results(Node.of(op, *nodes_of(xs))))


def approx_top_k(site: OperationSite) -> Built:
    """JAX's approximate top-k custom call, computed exactly: the first elements of the sorted
    tensors. Of an open k, the number follows what the other target takes.
    """
    count = len(site.results())
    xs, config = site.tensors(0, count), site.fields("mhlo.backend_config")
    axis = config.get("reduction_dim")
    if not isinstance(axis, int) or not xs or not 0 <= axis < len(xs[0].shape):
        site.fail("needs tensors and an axis of them")
    sorted_values = sorted_by(site.computation(), xs, axis)
    if len(site.operands) > 2 * count:
        (size,) = known(site, 2 * count)
    else:
        size = site.results()[0].shape[axis] or 0
    return [
        x.each([build.cut(part, axis, 0, size) for part in x.parts])
        for x in sorted_values
        if isinstance(x, TypedTensor)
    ]


CUSTOM_CALLS["ApproxTopK"] = CUSTOM_CALLS["stablehlo.dynamic_approx_top_k"] = approx_top_k


def by_parts(body: Graph, xs: list[TypedTensor]) -> Graph:
    """The comparator's inputs in xlac's order: the two elements of each part, instead of the parts
    of each element.
    """
    inputs: list[Node] = []
    start = 0
    for x in xs:
        count = len(x.parts)
        inputs += [
            body.inputs[start + side * count + part] for part in range(count) for side in (0, 1)
        ]
        start += 2 * count
    return Graph(body.name, tuple(inputs), body.outputs)
