"""Reverse mode: transposes linear nodes, from cotangents of results to those of their sources."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.autodiff import control
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.origins import with_node_origin, with_origin
from xlac.ir.composite import Composite
from xlac.ir.graph import Node
from xlac.ir.op import Op
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.control.custom_gradient import CustomChange
from xlac.ops.walks import dependents


def pull_back(
    results: Sequence[Node], cotangents: Sequence[Node], sources: Sequence[Node]
) -> list[Node | None]:
    """The cotangents of `sources`, in which `results` are linear, given those of the results; None
    for a source that no result depends on. Raises NoDerivativeError.
    """
    results = _expanded(results, sources)
    linear = dependents(results, sources)
    control.check_transposable(linear)
    cotangent_sums: dict[Node, list[Node | None]] = {
        node: [None] * len(node.results) for node in linear
    }
    for result, cotangent in zip(results, cotangents, strict=True):
        if result in linear:
            _add(cotangent_sums[result], 0, cotangent)
    given = set(sources)
    for node in reversed(list(linear)):
        sums = cotangent_sums[node]
        if node in given or all(ct is None for ct in sums):
            continue
        if isinstance(node.op, Pick):
            _add(cotangent_sums[node.inputs[0]], node.op.index, sums[0])
            continue
        flags = [i in linear for i in node.inputs]
        if control.is_control(node.op):
            parts: Sequence[Node | None] | None = control.transposed(node, flags, sums, pull_back)
        else:
            parts = node.op.transposed(node, flags, sums)
        if parts is None:
            raise NoDerivativeError(node, "is not linear, so it cannot be transposed")
        for source, part in zip(node.inputs, with_node_origin(parts, node, sums), strict=True):
            if source in linear and part is not None:
                _add(cotangent_sums[source], 0, part)
    return [cotangent_sums[source][0] for source in sources]


def _add(sums: list[Node | None], index: int, part: Node | None) -> None:
    before = sums[index]
    if part is not None and before is not None:
        (part,) = with_origin([build.add(before, part)], part.origin, (before, part))
    if part is not None:
        sums[index] = part


def _needs_expansion(op: Op) -> bool:
    """Whether an operation is a composite without a transpose of its own."""
    own = control.is_control(op) or isinstance(op, CustomChange)
    return isinstance(op, Composite) and not own and not op.linear()


def _expanded(results: Sequence[Node], sources: Sequence[Node]) -> list[Node]:
    """The results with those linear composites expanded that have no transpose of their own."""
    new: dict[Node, Node] = {}
    parts: dict[Node, tuple[Node, ...]] = {}
    linear = dependents(results, sources)
    for node in linear:
        if isinstance(node.op, Pick) and node.inputs[0] in parts:
            new[node] = parts[node.inputs[0]][node.op.index]
            continue
        inputs = tuple(new.get(i, i) for i in node.inputs)
        own = node if inputs == node.inputs else node.with_inputs(inputs)
        new[node] = own
        if _needs_expansion(own.op):
            assert isinstance(own.op, Composite)
            roots = with_origin(own.op.expanded(*own.inputs), own.origin, own.inputs)
            inner = [i for old, i in zip(node.inputs, own.inputs, strict=True) if old in linear]
            parts[node] = tuple(_expanded(roots, inner))
            if len(roots) == 1:
                new[node] = parts[node][0]
    return [new.get(result, result) for result in results]
