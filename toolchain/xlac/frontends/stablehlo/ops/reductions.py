"""Reductions over axes, and regions applied to every element."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.stablehlo.regions import is_identity, monoid
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, Value, nodes_of, numbers, rebuilt, stored
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.control.lifting import lifted
from xlac.ops.reduction.reduction import Reduce
from xlac_sdk.dtypes import DType


def halves(site: OperationSite) -> tuple[list[TypedTensor], list[TypedTensor]]:
    """Splits operands into tensors and as many initial values."""
    count = len(site.operands) // 2
    if len(site.operands) != 2 * count or not count:
        site.fail("takes tensors and as many initial values")
    xs, inits = site.tensors(0, count), site.tensors(count)
    for x, init in zip(xs, inits, strict=True):
        if x.element != init.element or init.shape:
            site.fail(f"an initial value of {x.parts[0].type} is a scalar of its type")
    site.importer.agree([x.shape for x in xs])
    return xs, inits


def joined(x: Node, init: Node, combine: str) -> Node:
    """A reduction that started from the identity element, combined with the initial value."""
    return x if is_identity(init, combine) else build.apply1(combine, x, init)


def combination(body: Graph, x: TypedTensor) -> str:
    """The named combination that a region computes on the tensor's numbers, or ""."""
    name = monoid(body)
    if x.element.dtype is DType.BOOL:
        return name if name in ("and", "or", "xor") else ""
    return name


@operation("reduce")
def reduce(site: OperationSite) -> Built:
    """A reduction: by a named combination if the region is one, else with the region
    as its body.
    """
    xs, inits = halves(site)
    axes = site.axes("dimensions", len(xs[0].shape))
    body = site.closed(0)
    combine = combination(body, xs[0])
    if combine and len(xs) == 1:
        x, init = xs[0], inits[0]
        if x.element.complex:
            return x.each(
                [
                    joined(build.reduce(p, combine, axes), i, combine)
                    for p, i in zip(x.parts, init.parts, strict=True)
                ]
            )
        reduced = Node.of(Reduce(tuple(sorted(axes)), combine), numbers(x)) if axes else numbers(x)
        return stored(joined(reduced, numbers(init), combine), x.element)
    node = Node.of(Reduce(tuple(sorted(axes)), "body", body), *nodes_of(xs), *nodes_of(inits))
    return regrouped(xs, build.results(node))


def regrouped(like: Sequence[TypedTensor], results: Sequence[Node]) -> list[Value]:
    """Groups the results of a node on all parts of tensors into tensors."""
    left = list(results)
    return [rebuilt(x, left) for x in like]


@operation("map")
def map_(site: OperationSite) -> Built:
    """map: a region of scalar operations, applied to whole tensors."""
    xs = site.tensors()
    if not xs or any(x.shape != xs[0].shape for x in xs):
        site.fail("takes tensors of one shape")
    body = site.closed(0)
    try:
        results = lifted(body, nodes_of(xs))
    except ValueError as error:
        site.fail(f"its region does more than scalar operations: {error}")
    like = [
        TypedTensor(type.element, xs[0].parts * (2 if type.element.complex else 1))
        for type in site.results()
    ]
    return regrouped([x.each(x.parts[: 2 if x.element.complex else 1]) for x in like], results)
