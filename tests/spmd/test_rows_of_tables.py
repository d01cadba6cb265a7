"""Gather and scatter of tables that are divided by rows, as embeddings of a large vocabulary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import parted
import pytest

from xlac.autodiff.gradient import linearize
from xlac.cli import status
from xlac.ir.graph import Graph, Node, apply
from xlac.ops import build
from xlac.spmd.cost import NetworkLink
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import collectives, expanded
from xlac.spmd.partition import Partitioned, partitioned
from xlac.spmd.run_time import Rates
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

TARGET = find("reference").target(Request())
DATA, MODEL, BOTH = parted.MESHES
MESHES = [MODEL, Mesh((("model", 3),)), BOTH]
RNG = np.random.default_rng(7)


def kinds(made: Partitioned) -> Counter[str]:
    return Counter(node.op.mnemonic for node, _ in collectives(made))


def table(rows: int = 200, width: int = 64, dtype: DType = DType.F32) -> Node:
    return build.param("w", dtype, (rows, width), "weight")


def given(rows: int = 200, *, dtype: Any = np.int64, shape: tuple[int, ...] = (4, 5)) -> Any:
    """Indices, also such as are out of range."""
    low = -3 if np.dtype(dtype).kind == "i" else 0
    return RNG.integers(low, rows + 4, shape).astype(dtype)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("dtype", [DType.I64, DType.I32, DType.U8, DType.U64])
def test_an_embedding_reads_the_rows_of_each_rank(mesh: Mesh, dtype: DType) -> None:
    """Indices out of range are clamped as in one process; the table stays where it is."""
    w, i = table(), build.param("i", dtype, (4, 5))
    graph = expanded(Graph("g", (i,), {"y": build.take(w, i, axis=0)}), TARGET)
    said: dict[str, Sharding] = {"w": (("model",), ())}
    if "data" in mesh.sizes:
        said["i"] = (("data",), ())
    made = partitioned(graph, mesh, said)
    assert kinds(made) == {"all_reduce": 1}
    arrays = {"w": RNG.standard_normal((200, 64)).astype(np.float32)}
    parted.check(graph, made, {"i": given(dtype=dtype.numpy)}, arrays)


def test_what_is_wanted_in_parts_is_scattered() -> None:
    w, i = table(400, 8), build.param("i", DType.I32, (4, 6))
    part = build.apply1("shard", build.take(w, i, axis=0), axes=(None, "model", None))
    graph = expanded(Graph("g", (i,), {"y": part}), TARGET)
    made = partitioned(graph, MODEL, {"w": (("model",), ()), "i": ((), ())})
    assert kinds(made) == {"reduce_scatter": 1}
    arrays = {"w": RNG.standard_normal((400, 8)).astype(np.float32)}
    parted.check(graph, made, {"i": given(400, dtype=np.int32, shape=(4, 6))}, arrays)


def test_a_small_table_is_gathered() -> None:
    """Where that takes less time than a sum of what is read, which depends on the link."""
    w, i = table(4), build.param("i", DType.I32, (400,))
    graph = expanded(Graph("g", (i,), {"y": build.take(w, i, axis=0)}), TARGET)
    made = partitioned(graph, MODEL, {"w": (("model",), ())})
    assert kinds(made) == {"all_gather": 1}
    arrays = {"w": RNG.standard_normal((4, 64)).astype(np.float32)}
    parted.check(graph, made, {"i": given(4, dtype=np.int32, shape=(400,))}, arrays)
    far = Rates(NetworkLink(1.0, 1e12))
    large = table(4000)
    graph = expanded(Graph("g", (i,), {"y": build.take(large, i, axis=0)}), TARGET)
    assert kinds(partitioned(graph, MODEL, {"w": (("model",), ())}, rates=far)) == {"all_reduce": 1}


@pytest.mark.parametrize("mesh", MESHES)
def test_the_gradient_of_a_divided_table(mesh: Mesh) -> None:
    """Each rank adds up its own rows; ranks of the batch add theirs."""
    w, i = table(), build.param("i", DType.I64, (4, 5))
    y = build.param("y", DType.F32, (4, 5, 64))
    off = build.sub(build.take(w, i, axis=0), y)
    loss = build.reduce(build.mul(off, off), "add")
    (by_w,) = linearize([loss], [w]).transposed([build.as_node(1.0, DType.F32)])
    new = build.sub(w, build.mul(by_w, 0.1))
    graph = expanded(Graph("g", (i, y), {"loss": loss, "new": new}), TARGET)
    said: dict[str, Sharding] = {"w": (("model",), ())}
    if "data" in mesh.sizes:
        said |= {"i": (("data",), ()), "y": (("data",), (), ())}
    made = partitioned(graph, mesh, said)
    assert made.outputs["new"] == (("model",), ())
    assert set(kinds(made)) == {"all_reduce"}
    held = -(-200 // mesh.sizes["model"])
    for node in made.graph.nodes():  # no rank has a whole table, or a whole gradient
        assert node.type.rank < 2 or node.shape[0] in range(held + 1)
    arrays = {"w": RNG.standard_normal((200, 64)).astype(np.float32)}
    numbers = RNG.standard_normal((4, 5, 64)).astype(np.float32)
    parted.check(graph, made, {"i": given(), "y": numbers}, arrays)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(60))
def test_random_tables_and_indices(seed: int) -> None:
    """Gathers and scatters by vectors of indices, of tables divided along any axis."""
    random = Random(seed)
    rank = random.randint(1, 3)
    shape = tuple(random.randint(2, 7) for _ in range(rank))
    axes = random.sample(range(rank), random.randint(1, rank))
    count, vector = random.randint(1, 5), random.randint(0, 1)
    at = (len(axes), count) if vector == 0 else (count, len(axes))
    x, i = build.param("x", DType.F32, shape), build.param("i", DType.I32, at)
    kept = tuple(a for a in range(rank) if a not in axes)
    sizes = tuple(1 if a in axes else n for a, n in enumerate(shape))
    windows = tuple(range(1, 1 + len(kept)))
    read = apply(
        "gather",
        x,
        i,
        offset_dims=windows,
        collapsed_slice_dims=tuple(sorted(axes)),
        start_index_map=tuple(axes),
        index_vector_dim=vector,
        slice_sizes=sizes,
    )
    updates = build.param("u", DType.F32, (count, *(shape[a] for a in kept)))
    combine = random.choice(["add", "assign", "max", "mul"])
    base = random.choice([x, build.spread(build.as_node(0.0, DType.F32), shape, ())])
    changed = apply(
        "scatter",
        base,
        i,
        updates,
        update_window_dims=windows,
        inserted_window_dims=tuple(sorted(axes)),
        scatter_dims_to_operand_dims=tuple(axes),
        index_vector_dim=vector,
        combine=combine,
    )
    changed = build.apply1("shard", changed, axes=parts(random, rank))
    graph = Graph("g", (x, i, updates), {"read": read, "changed": changed})
    said: dict[str, Sharding] = {"x": tuple((n,) if n else () for n in parts(random, rank))}
    said["u"] = (random.choice([(), ("data",)]), *((),) * len(kept))
    made = partitioned(graph, random.choice([BOTH, Mesh((("data", 3), ("model", 2)))]), said)
    drawn = (("x", shape), ("u", (count, *(shape[a] for a in kept))))
    numbers = {n: RNG.standard_normal(s) for n, s in drawn}
    indices = RNG.integers(-2, 9, at).astype(np.int32)
    arrays = {n: a.astype(np.float32) for n, a in numbers.items()} | {"i": indices}
    parted.check(graph, made, arrays, {})


def parts(random: Random, rank: int) -> tuple[str | None, ...]:
    """Names of axes of the mesh, for some axes of a value."""
    names = ["data", "model", *(None,) * (rank + 1)]
    random.shuffle(names)
    return tuple(names[:rank])


SPEC = """\
xlac: 1
model: words
mesh: {model: null}
shard: {rows.weight: [model, null]}
inputs: {ids: "i64[4, 6]"}
weights: {init: {seed: 0}}
graph:
  rows: {op: embedding, in: ids, count: 500, dim: 8}
outputs: [rows]
"""


def test_an_embedding_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "words.yaml"
    path.write_text(SPEC, "utf-8")
    assert status(["explain", str(path), "--mesh", "model=2", "--target", "reference"]) == 0
    out = capsys.readouterr().out
    assert "all_reduce over model: f32[4, 6, 8], 768 bytes" in out
    assert "gather 'rows' combines its parts along model" in out
    assert "divided weights: rows.weight [model, null]" in out
