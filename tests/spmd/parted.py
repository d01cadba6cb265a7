"""Runs a graph as one program, and partitioned with all ranks interpreted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret
from xlac.ir.ranks import interpret_ranks
from xlac.ir.verify import verify
from xlac.spmd.mesh import Mesh, Sharding, assembled, distributed, slices
from xlac.spmd.partition import Partitioned

Arrays = Mapping[str, Any]


def of_ranks(
    made: Partitioned, inputs: Arrays, weights: Arrays, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """The whole outputs, of `shapes`, computed by all ranks in float64. Ranks that should hold the
    same part must.
    """
    mesh = made.mesh
    verify(made.graph)

    def parts(arrays: Arrays, shardings: Mapping[str, Sharding]) -> dict[str, Any]:
        return {n: distributed(np.asarray(arrays[n]), mesh, s) for n, s in shardings.items()}

    local = interpret_ranks(
        made.graph, mesh.axes, parts(inputs, made.inputs), parts(weights, made.weights), True
    )
    found: dict[str, Any] = {}
    for name, array in local.items():
        sharding = made.outputs[name]
        own = array.reshape(mesh.ranks, *array.shape[len(mesh.axes) :])
        found[name] = assembled(dict(enumerate(own)), mesh, sharding, shapes[name])
        for rank, part in enumerate(own):
            mine = found[name][slices(mesh, rank, sharding, shapes[name])]
            held = part[tuple(map(slice, mine.shape))]
            np.testing.assert_allclose(held, mine, rtol=1e-9, atol=1e-9, err_msg=f"{name} differs")
    return found


def check(graph: Graph, made: Partitioned, inputs: Arrays, weights: Arrays) -> None:
    """The partitioned graph computes what the whole one does."""
    wanted = interpret(graph, inputs, weights, float64=True)
    got = of_ranks(made, inputs, weights, {name: want.shape for name, want in wanted.items()})
    for name, want in wanted.items():
        scale = max(1.0, float(np.abs(want).max(initial=0.0))) if want.dtype.kind == "f" else 1.0
        np.testing.assert_allclose(
            got[name] / scale, want / scale, rtol=1e-7, atol=1e-9, err_msg=name
        )


MESHES = [Mesh((("data", 2),)), Mesh((("model", 2),)), Mesh((("data", 2), ("model", 2)))]
