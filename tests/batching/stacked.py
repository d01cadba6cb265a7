"""Nodes along a leading axis beside the same nodes one after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac.batching.along import Along
from xlac.batching.walk import Batch
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.verify import verify
from xlac.ops import build

Array = NDArray[Any]
SIZE = 3


def evaluated(
    params: Sequence[Node], nodes: Sequence[Node], values: Mapping[str, Array]
) -> list[Array]:
    """The values of nodes over parameters, interpreted."""
    graph = Graph("batched", tuple(params), {str(n): node for n, node in enumerate(nodes)})
    verify(graph)
    with np.errstate(all="ignore"):
        found = interpret(graph, values)
    return [found[str(n)] for n in range(len(nodes))]


def compare(
    params: Sequence[Node],
    outputs: Sequence[Node],
    values: Mapping[str, Array],
    mapped: Sequence[bool],
    tolerance: float = 0.0,
) -> list[bool]:
    """Asserts that outputs along an axis are those of each place of it, stacked. `values` have the
    axis where `mapped` says so. Gives which outputs have it.
    """
    size = next(len(values[_name(p)]) for p, on in zip(params, mapped, strict=True) if on)
    wide = [
        build.param(_name(p), p.type.dtype, (size, *p.shape)) if on else p
        for p, on in zip(params, mapped, strict=True)
    ]
    given = {p: Along(w, True) for p, w, on in zip(params, wide, mapped, strict=True) if on}
    found = Batch(given, size).run(outputs)
    together = evaluated(wide, [each.node for each in found], values)
    for place in range(size):
        single = {
            _name(p): values[_name(p)][place] if on else values[_name(p)]
            for p, on in zip(params, mapped, strict=True)
        }
        alone = evaluated(params, outputs, single)
        for along, all_, one in zip(found, together, alone, strict=True):
            mine = all_[place] if along.mapped else all_
            assert mine.dtype == one.dtype and mine.shape == one.shape
            if one.dtype.kind == "V":  # a half that NumPy does not know
                mine, one = mine.astype(np.float64), one.astype(np.float64)
            if tolerance and one.dtype.kind == "f":
                np.testing.assert_allclose(mine, one, tolerance, tolerance)
            else:
                np.testing.assert_array_equal(mine, one)
    return [each.mapped for each in found]


def _name(node: Node) -> str:
    return str(node.op.name)  # type: ignore[attr-defined]
