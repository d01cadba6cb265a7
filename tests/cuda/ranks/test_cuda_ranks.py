"""Programs of ranks with GPUs: every collective by NCCL, in streams of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from nccl_harness import NcclStandin, by_ranks, compiled, computed

from xlac.ir.graph import Graph, Node, apply, pick
from xlac.ir.ranks import interpret_ranks
from xlac.ops import build
from xlac.ops.collective.group import MeshAxes
from xlac.ops.control.control import While
from xlac_sdk.dtypes import DType

MESH: MeshAxes = (("data", 2), ("model", 2))
PAIR: MeshAxes = (("data", 2),)
RNG = np.random.default_rng(3)


def over(mnemonic: str, *inputs: Node, axes: tuple[str, ...], **about: Any) -> Node:
    return apply(mnemonic, *inputs, mesh=MESH, axes=axes, **about)


def test_every_collective_is_what_the_interpreter_computes(standin_nccl: NcclStandin) -> None:
    x = build.param("x", DType.F32, (4, 6))
    y = build.mul(x, 2.0)
    small = build.cast(build.mul(x, 9000.0), DType.I16)
    outputs = {
        "sum": over("all_reduce", y, axes=("model",)),
        "most": over("all_reduce", x, axes=("data", "model"), combine="max"),
        "product": over("all_reduce", x, axes=("data",), combine="mul"),
        "half": over("all_reduce", build.cast(x, DType.BF16), axes=("model",)),
        "short": over("all_reduce", small, axes=("model",)),
        "short_part": over("reduce_scatter", small, axes=("model",)),
        "count": over("all_reduce", build.cast(x, DType.I64), axes=("data",), combine="min"),
        "whole": over("all_gather", y, axes=("data",), axis=1),
        "halves": over("all_gather", build.cast(x, DType.BF16), axes=("model",)),
        "part": over("reduce_scatter", x, axes=("model",), axis=1),
        "turned": over("all_to_all", x, axes=("model", "data"), split=0, concat=1),
        "moved": over("collective_permute", x, axes=("data",), pairs=((0, 1),)),
        "around": over("collective_permute", y, axes=("model",), pairs=((0, 1), (1, 0))),
        "still": over("collective_permute", small, axes=("model",), pairs=((0, 0), (1, 1))),
        "same": over("collective_broadcast", y, axes=("model",), root=1),
        "number": over("axis_index", axes=("model", "data")),
        "truth": over("all_gather", build.compare(x, "gt", 0.0), axes=("data",)),
    }
    graph = Graph("g", (x,), outputs)
    given = RNG.standard_normal((2, 2, 4, 6)).astype(np.float32)
    given[0, 1, 2, 3] = np.nan
    wanted = interpret_ranks(graph, MESH, {"x": given})
    got = computed(graph, MESH, {"x": given})
    for name, want in wanted.items():
        np.testing.assert_allclose(
            got[name].astype(np.float64), want.astype(np.float64), rtol=1e-6, err_msg=name
        )
    assert standin_nccl.alive == 0


def total_of(row: Node) -> Node:
    return apply("reduce", row, axes=(0,), combine="add")


def test_a_collective_in_a_loop(standin_nccl: NcclStandin) -> None:
    """The host decides where such a loop ends, as the collectives are the host's."""
    x, row = build.param("x", DType.F32, (8,)), build.param("row", DType.F32, (8,))
    total = apply("all_reduce", build.mul(row, 0.75), mesh=PAIR, axes=("data",))
    within = Graph("go", (row,), {"go": build.compare(total_of(row), "lt", 100.0)})
    body = Graph("body", (row,), {"row": total})
    graph = Graph("g", (x,), {"y": pick(Node.of(While(within, body, alike=True), x), 0)})
    given = np.abs(RNG.standard_normal((2, 8))).astype(np.float32)
    given[1] = given[0]  # all ranks take as many steps
    wanted = interpret_ranks(graph, PAIR, {"x": given})
    np.testing.assert_allclose(computed(graph, PAIR, {"x": given})["y"], wanted["y"], rtol=1e-5)


def test_calls_again_and_with_arrays_of_the_device(standin_nccl: NcclStandin) -> None:
    x = build.param("x", DType.F32, (64,))
    graph = Graph("g", (x,), {"y": apply("all_reduce", build.exp(x), mesh=PAIR, axes=("data",))})

    def one(rank: Any, backend: Any) -> list[Any]:
        program = compiled(graph, PAIR, rank, backend)
        first = program(x=np.full(64, rank.rank, np.float32))
        return [first, program(x=np.full(64, 2 + rank.rank, np.float32))]

    for got in by_ranks(2, one):
        np.testing.assert_allclose(got[0], np.full(64, np.exp(0) + np.exp(1)), rtol=1e-6)
        np.testing.assert_allclose(got[1], np.full(64, np.exp(2) + np.exp(3)), rtol=1e-6)
