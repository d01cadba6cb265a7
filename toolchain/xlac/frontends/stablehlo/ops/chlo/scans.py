"""`chlo.scan`: a region for each index of an axis, which carries values from one to the next."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.frontends.stablehlo.ops.reductions import combination, joined
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.table import operation
from xlac.frontends.stablehlo.values import TypedTensor, Value, nodes_of, numbers, stored
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac.ops.reduction.cumulative import Cumulative


@operation("chlo.scan", section="CHLO")
def scan(site: OperationSite) -> Built:
    """The region takes a slice of each input, then the carried values; it gives a slice of each
    output, then the new carried values. Results are the outputs and the last carried values.

    Where the region combines associatively (add, max, …), a running combination; else a loop.
    """
    counts = site.integers("operandSegmentSizes")
    if len(counts) != 2 or min(counts) < 0 or sum(counts) != len(site.operands):
        site.fail("attribute 'operandSegmentSizes' must count the inputs and the initial values")
    xs, inits = site.tensors(0, counts[0]), site.tensors(counts[0])
    axis, length = _axis(site, xs)
    reverse = site.flag("is_reverse")
    slices = [p.type.with_shape(_without(p.shape, axis)) for x in xs for p in x.parts]
    body, captured = site.capturing(0, [*slices, *(p.type for i in inits for p in i.parts)])
    outputs = list(body.outputs.values())
    carried = len(nodes_of(inits))
    if len(outputs) < carried:
        site.fail("its region gives fewer values than it carries")
    if site.flag("is_associative") and not captured:
        combine = _combination(body, xs, inits)
        if combine:
            return _cumulative(xs[0], inits[0], axis, combine, reverse)
    scanned = len(slices)
    step = Graph(
        body.name,
        (
            *body.inputs[scanned : scanned + carried],
            *body.inputs[:scanned],
            *body.inputs[scanned + carried :],
        ),
        {f"y{n}": y for n, y in enumerate([*outputs[-carried:], *outputs[:-carried]])}
        if carried
        else body.outputs,
    )
    moved = [build.transpose(p, _first(axis, p.type.rank)) for x in xs for p in x.parts]
    node = Node.of(
        Scan(step, length, carried, scanned, reverse), *nodes_of(inits), *moved, *nodes_of(captured)
    )
    last, stacked = build.results(node)[:carried], build.results(node)[carried:]
    parts = [*(build.transpose(y, _back(axis, y.type.rank)) for y in stacked), *last]
    return _grouped(site, parts)


def _axis(site: OperationSite, xs: Sequence[TypedTensor]) -> tuple[int, Dim]:
    """The axis of the scan and its size."""
    if not xs:
        length = site.integer("scan_dim_size")
        if not 0 <= length < 2**31:
            site.fail(f"attribute 'scan_dim_size' {length} is no number of steps")
        return site.axis("dimension", len(site.results()[0].shape)), length
    axis = site.axis("dimension", min(len(x.shape) for x in xs))
    site.importer.agree([(x.shape[axis],) for x in xs])
    return axis, xs[0].shape[axis]


def _combination(body: Graph, xs: Sequence[TypedTensor], inits: Sequence[TypedTensor]) -> str:
    """The combination of a region that carries what it gives, f(slice, carried); "" for others."""
    outputs = list(body.outputs.values())
    if len(xs) != 1 or len(inits) != 1 or len(outputs) != 2 or outputs[0] is not outputs[1]:
        return ""
    x, init = xs[0], inits[0]
    if x.element.complex or x.element != init.element or x.element.quantization:
        return ""
    return combination(Graph(body.name, body.inputs, {"y0": outputs[0]}), x)


def _cumulative(
    x: TypedTensor, init: TypedTensor, axis: int, combine: str, reverse: bool
) -> list[Value]:
    values, first = numbers(x), numbers(init)
    others = [a for a in range(values.type.rank) if a != axis]
    running = Node.of(Cumulative(axis, combine, reverse), values)
    total = build.reduce(values, combine, axis)
    everywhere = build.spread(first, values.shape, others)
    return [
        stored(joined(running, everywhere, combine), x.element),
        stored(joined(total, first, combine), x.element),
    ]


def _grouped(site: OperationSite, parts: list[Node]) -> list[Value]:
    """Nodes as tensors of the element types of the results."""
    left, values = list(parts), list[Value]()
    for type in site.results():
        count = 2 if type.element.complex else 1
        values.append(TypedTensor(type.element, tuple(left[:count])))
        del left[:count]
    if left or not all(isinstance(v, TypedTensor) and v.parts for v in values):
        site.fail(f"its region gives {len(parts)} tensors, not {len(values)}")
    return values


def _without(shape: Sequence[Dim], axis: int) -> tuple[Dim, ...]:
    return (*shape[:axis], *shape[axis + 1 :])


def _first(axis: int, rank: int) -> list[int]:
    """The permutation that makes an axis the first one."""
    return [axis, *(a for a in range(rank) if a != axis)]


def _back(axis: int, rank: int) -> list[int]:
    """Its inverse."""
    return [*range(1, axis + 1), 0, *range(axis + 1, rank)]
