"""Narrows open sizes to those for which every value of a graph has a size: a window of 5 elements
needs at least 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from xlac.ir.dims import UNBOUNDED, Dim, Sym, Symbol, bounds, evaluate, symbol, symbols
from xlac.ir.graph import Graph, Node, walk
from xlac.model import Model
from xlac.ops.control.control import Pick
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.ranking import Topk
from xlac.ops.tensor.dynamic_slice import DynSlice, DynUpdate
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.view import Slice
from xlac.passes.specialize import substituted
from xlac_sdk.programs.sizes import determined
from xlac_sdk.source import Diagnostic, LimitError, SourceError


def narrowed(graph: Graph, dims: Mapping[str, Symbol]) -> tuple[Graph, dict[str, Symbol]]:
    """The graph and its sizes, with bounds that exclude values with which the program cannot run.

    Sizes that depend on a single symbol are considered; its `opt` is unchanged. Raises SourceError
    where `opt` itself is excluded.
    """
    sizes = dict(dims)
    for size, least, node in demands(graph):
        names = {s.name for s in symbols(size)}
        if bounds(size)[0] >= least or len(names) != 1 or not names <= set(sizes):
            continue
        one = sizes[names.pop()]

        def fits(value: int, size: Dim = size, least: int = least, name: str = one.name) -> bool:
            return evaluate(size, {name: value}) >= least

        if not fits(one.opt):
            count, what = evaluate(size, {one.name: one.opt}), node.op.mnemonic
            problem = f"{what} would have {count} elements"
            if size not in {n for result in node.results for n in result.shape}:
                problem = f"{what} reaches {-count} elements beyond its operand"
            raise SourceError(misfit(node, f"{one.name}={one.opt}", problem))
        sizes[one.name] = replace(
            one, min=_edge(fits, one.opt, one.min), max=_edge(fits, one.opt, one.max)
        )
    changed = {
        n: symbol(n, s.min, s.max, s.opt, s.multiple_of)
        for n, s in sizes.items()
        if (s.min, s.max) != (dims[n].min, dims[n].max)
    }
    return (substituted(graph, changed) if changed else graph), sizes


def misfit(node: Node, sizes: str, problem: str) -> Diagnostic:
    """What is wrong with a node for given sizes."""
    name = f"'{node.name}' " if node.name else ""
    return Diagnostic(
        "XL2009",
        f"with {sizes}, {name}has no size: {problem}",
        node.origin.span if node.origin else None,
    )


def demands(graph: Graph) -> Iterable[tuple[Sym, int, Node]]:
    """Every open size of a value in a graph and its bodies, with the least that makes sense."""
    for node in walk((*graph.inputs, *graph.outputs.values())):
        for result in node.results:
            least = (0,) * result.rank if isinstance(node.op, Pick) else node.op.least(result)
            yield from (
                (size, low, node)
                for size, low in zip(result.shape, least, strict=True)
                if isinstance(size, Sym)
            )
        yield from ((size, 0, node) for size in spare(node) if isinstance(size, Sym))
        for body in node.op.bodies():
            yield from demands(body)


def spare(node: Node) -> Iterator[Dim]:
    """What is left of an operand where an operation takes a part of it, which is negative where it
    reaches beyond. Single elements are left out: of an axis without elements none may be taken.
    """
    op = node.op
    if not isinstance(op, Slice | Gather | DynSlice | DynUpdate | Sort | Topk):
        return
    shapes = [i.shape for i in node.inputs]
    parts: list[tuple[Dim, Dim]] = []
    if isinstance(op, Slice):
        for start, stop, step, size in zip(op.starts, op.stops, op.steps, shapes[0], strict=True):
            first, last = (start, stop) if step > 0 else (stop + 1, start + 1)
            yield first
            yield size - last
    elif isinstance(op, Gather):
        parts = list(zip(op.slice_sizes, shapes[0], strict=True))
    elif isinstance(op, DynSlice):
        parts = list(zip(op.sizes, shapes[0], strict=True))
    elif isinstance(op, DynUpdate):
        parts = list(zip(shapes[1], shapes[0], strict=True))
    elif isinstance(op, Sort) and op.kept is not None:
        parts = [(op.kept, shapes[0][op.axis])]
    elif isinstance(op, Topk):
        parts = [(op.k, shapes[0][op.axis])]
    yield from (whole - part for part, whole in parts if part != 1)


def _edge(fits: Callable[[int], bool], good: int, end: int) -> int:
    """The value nearest to the end of a range that fits, given one that does; assumes that the
    fitting values are contiguous.
    """
    if fits(end):
        return end
    while abs(good - end) > 1:
        middle = (good + end) // 2
        good, end = (middle, end) if fits(middle) else (good, middle)
    return good


def fixed(model: Model, sizes: Mapping[str, int]) -> Model:
    """The model with some of its open sizes fixed."""
    left = {name: symbol for name, symbol in model.dims.items() if name not in sizes}
    if not sizes:
        return model
    return model.changed(lambda one: replace(one, graph=substituted(one.graph, sizes), dims=left))


def unfixed(model: Model) -> Model:
    """The model for one program of all its sizes. Those that no input's shape tells are fixed at
    their `opt`, and the others narrowed to those for which every value has a size.

    Raises LimitError for a size without a bound: memory is planned for the largest.
    """
    return model.changed(_unfixed)


def _unfixed(model: Model) -> Model:
    fixed_by_inputs = determined(node.type.shape for node in model.inputs)
    graph = substituted(
        model.graph, {name: s.opt for name, s in model.dims.items() if name not in fixed_by_inputs}
    )
    dims = {name: one for name, one in model.dims.items() if name in fixed_by_inputs}
    for name, one in dims.items():
        if one.max >= UNBOUNDED:
            problem = f"size '{name}' has no max, and memory is planned for the largest"
            hint = f"declare one, or narrow it: --dim {name}={one.min}..{max(one.opt, 1)}"
            raise LimitError(Diagnostic("XL4021", problem, hint=hint))
    graph, dims = narrowed(graph, dims)
    return replace(model, graph=graph, dims=dims)
