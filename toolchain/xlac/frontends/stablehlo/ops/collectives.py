"""Communication between devices: in manual computations, whose mesh is known. Outside of them
nothing is exchanged, so every group has to have one device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlac.frontends.stablehlo.ops.reductions import combination
from xlac.frontends.stablehlo.ranks.groups import OUTSIDE, channel, group_axes, not_axes
from xlac.frontends.stablehlo.ranks.manual import computed
from xlac.frontends.stablehlo.ranks.manual_scope import ManualScope
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, numbers, stored
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.collective.exchanges import (
    AllGather,
    AllToAll,
    CollectiveBroadcast,
    CollectivePermute,
    own_part,
)
from xlac.ops.collective.ranks import AxisIndex
from xlac.ops.collective.sums import COMBINATIONS, AllReduce, ReduceScatter
from xlac.ops.control.lifting import lifted
from xlac_sdk.dtypes import DType

OF_BOOLS = {"or": "max", "max": "max", "add": "max", "and": "min", "min": "min", "mul": "min"}
"""The combination of 0 and 1 that one of truth values is."""


@operation("sdy.manual_computation", section="Shardy")
def manual_computation(site: OperationSite) -> Built:
    """What every rank of a mesh computes of its parts of values."""
    return computed(site)


def scoped(site: OperationSite) -> ManualScope:
    """The manual computation around an operation, which must be in one."""
    if site.importer.manual is None:
        site.fail(OUTSIDE, code="XL7208")
    return site.importer.manual


def moved(site: OperationSite, make: Callable[[Node], Node]) -> list[TypedTensor]:
    """The operands, each of whose parts goes through a collective."""
    return [x.each([make(part) for part in x.parts]) for x in site.tensors()]


@operation("all_reduce", "cross-replica-sum")
def all_reduce(site: OperationSite) -> Built:
    """The combination of all devices' operands, on each of them."""
    axes = group_axes(site, by_id=True, ordered=False)
    if not axes:
        return site.operands
    body = site.closed(0) if site.op.regions else None
    return [_combined(site, x, body, axes) for x in site.tensors()]


def _combined(
    site: OperationSite, x: TypedTensor, body: Graph | None, axes: tuple[str, ...]
) -> TypedTensor:
    """A tensor combined along axes, by a sum or what a region computes."""
    mesh = scoped(site).mesh
    name = "add" if body is None else _named(body, x)
    if x.element.dtype is DType.BOOL and name in OF_BOOLS:
        bits = build.cast(x.node, DType.U8)
        return x.each([build.cast(_reduced(bits, OF_BOOLS[name], site, axes), DType.BOOL)])
    if x.element.complex and name == "add":
        return x.each([_reduced(part, name, site, axes) for part in x.parts])
    if not x.element.complex and x.element.dtype is not DType.BOOL and name in COMBINATIONS:
        return stored(_reduced(numbers(x), name, site, axes), x.element)
    assert body is not None
    rows = [
        Node.of(AllGather(mesh, axes, 0), build.reshape(part, (1, *part.shape))) for part in x.parts
    ]
    return x.each(_folded(site, body, rows))


def _named(body: Graph, x: TypedTensor) -> str:
    """The combination that a region computes; of truth values its largest is `max`, too."""
    if x.element.dtype is not DType.BOOL:
        return combination(body, x)
    (output,) = body.outputs.values()
    name = output.op.mnemonic
    both = set(output.inputs) == set(body.inputs) and len(output.inputs) == 2
    return name if both and name in OF_BOOLS else ""


def _reduced(x: Node, combine: str, site: OperationSite, axes: tuple[str, ...]) -> Node:
    return Node.of(AllReduce(scoped(site).mesh, axes, combine), x)


def _folded(site: OperationSite, body: Graph, rows: Sequence[Node]) -> list[Node]:
    """The rows of values, of all devices, combined by a region one after the other."""

    def row(number: int) -> list[Node]:
        return [build.reshape(build.cut(x, 0, number, number + 1), x.shape[1:]) for x in rows]

    count = rows[0].shape[0]
    assert isinstance(count, int)
    total = row(0)
    for number in range(1, count):
        try:
            total = list(lifted(body, [*total, *row(number)]))
        except ValueError as error:
            site.fail(f"its region does more than scalar operations: {error}")
    return total


@operation("reduce_scatter")
def reduce_scatter(site: OperationSite) -> Built:
    """The combination of all devices' operands, of which each has one part."""
    axes = group_axes(site, by_id=True)
    if not axes:
        return site.operands
    body, mesh = site.closed(0), scoped(site).mesh
    results = []
    for x in site.tensors():
        op = ReduceScatter(mesh, axes, site.axis("scatter_dimension", len(x.shape)))
        if combination(body, x) == "add" and x.element.dtype is not DType.BOOL:
            if x.element.complex:
                results.append(x.each([Node.of(op, part) for part in x.parts]))
            else:
                results.append(stored(Node.of(op, numbers(x)), x.element))
        else:
            whole = _combined(site, x, body, axes)
            results.append(x.each([own_part(part, op, op.axis) for part in whole.parts]))
    return results


@operation("all_gather")
def all_gather(site: OperationSite) -> Built:
    """All devices' operands, one after the other along an axis."""
    axes = group_axes(site, by_id=True)
    if not axes:
        return site.operands
    rank = len(site.tensor(0).shape)
    op = AllGather(scoped(site).mesh, axes, site.axis("all_gather_dim", rank))
    return moved(site, lambda part: Node.of(op, part))


@operation("all_to_all")
def all_to_all(site: OperationSite) -> Built:
    """Each device's operand in parts, one for each device."""
    axes = group_axes(site, by_id=False)
    if not axes:
        return site.operands
    rank = len(site.tensor(0).shape)
    places = (site.axis(name, rank) for name in ("split_dimension", "concat_dimension"))
    op = AllToAll(scoped(site).mesh, axes, *places)
    if site.integer("split_count") != op.group:
        site.fail(f"attribute 'split_count' is {op.group}, the devices of a group")
    return moved(site, lambda part: Node.of(op, part))


@operation("collective_broadcast")
def broadcast(site: OperationSite) -> Built:
    """The operand of the first device of each group."""
    axes = group_axes(site, by_id=False, ordered=False)
    if not axes:
        return site.operands
    scope = scoped(site)
    roots = {scope.number_in_group(int(row[0]), axes) for row in site.array("replica_groups")}
    if len(roots) != 1:
        site.fail("the first devices of its groups have other numbers in them", code="XL7208")
    op = CollectiveBroadcast(scope.mesh, axes, roots.pop())
    return moved(site, lambda part: Node.of(op, part))


@operation("collective_permute")
def permute(site: OperationSite) -> Built:
    """The operand of the device that sends to this one, zeros where nobody sends."""
    pairs, scope = site.get("source_target_pairs"), site.importer.manual
    if not isinstance(pairs, np.ndarray) or (pairs.size and pairs.shape[1:] != (2,)):
        site.fail("only pairs that are written as a matrix are read", code="XL7208")
    if scope is None or not channel(site):
        if pairs.size not in (0, 2) or pairs.any():
            site.fail(OUTSIDE, code="XL7208")
        if pairs.size:
            return site.operands
        return [x.each([build.like(0, part) for part in x.parts]) for x in site.tensors()]
    found = scope.permutation(pairs)
    if found is None:
        not_axes(site, scope)
    op = CollectivePermute(scope.mesh, *found)
    return moved(site, lambda part: Node.of(op, part))


@operation("partition_id", "replica_id")
def place(site: OperationSite) -> Built:
    """The number of this device, in a manual computation; else 0, as there is one. Along axes that
    are not manual, nothing depends on it.
    """
    scope, dtype = site.importer.manual, site.result.element.dtype
    if scope is None or site.name == "replica_id":
        return build.constant(0, dtype)
    number = build.constant(0, DType.I32)
    step = scope.devices
    for name, size in scope.mesh:
        step //= size
        if name in scope.axes and size > 1:
            coordinate = Node.of(AxisIndex(scope.mesh, (name,)))
            number = build.add(number, build.mul(coordinate, step))
    return build.cast(number, dtype)
