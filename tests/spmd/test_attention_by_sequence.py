"""Attention whose queries, keys and values are divided by sequence: around a ring of ranks, or with
keys and values gathered; and rolls along an axis that ranks have in parts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import parted
import pytest
from test_loop_collectives import compiled
from test_rows_of_tables import kinds

from xlac.cli import status
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.model import MeshSection, Model, SaidSharding
from xlac.ops import build
from xlac.ops.nn.attention import Attention
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import expanded, of_rank
from xlac.spmd.partition import Partitioned, partitioned
from xlac.spmd.sequence.ring import ring, with_rings
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

TARGET = find("reference").target(Request())
RNG = np.random.default_rng(4)
FOUR: Sharding = ((), (), ("seq",), ())
MESHES = [Mesh((("seq", 2),)), Mesh((("seq", 4),)), Mesh((("seq", 2), ("model", 2)))]


def operands(
    time: int = 8, keys: int = 8, heads: int = 4, shared: int = 4, dtype: DType = DType.F32
) -> list[Node]:
    shapes = (2, heads, time, 6), (2, shared, keys, 6), (2, shared, keys, 5)
    return [build.param(n, dtype, s) for n, s in zip("qkv", shapes, strict=True)]


def arrays(inputs: list[Node]) -> dict[str, Any]:
    return {n.op.name: 2 * RNG.standard_normal(n.shape).astype(np.float32) for n in inputs}  # type: ignore[attr-defined, arg-type]


def around(graph: Graph, mesh: Mesh, given: dict[str, Sharding]) -> Partitioned:
    """A graph with its attention around a ring, whatever it costs."""
    made = with_rings(expanded(graph, TARGET, (Attention,)), mesh, given, ())
    return partitioned(expanded(made, TARGET), mesh, given)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("about", [{}, {"causal": True}, {"scale": 0.3}])
@pytest.mark.parametrize("keys", [8, 16])
def test_keys_and_values_go_around_a_ring(mesh: Mesh, about: dict[str, Any], keys: int) -> None:
    """Each goes to a neighbour once less than there are ranks; heads may be divided, too."""
    inputs = operands(keys=keys)
    graph = Graph("g", tuple(inputs), {"y": build.apply1("attention", *inputs, **about)})
    sharding = ((), ("model",) if "model" in mesh.sizes else (), ("seq",), ())
    given: dict[str, Sharding] = dict.fromkeys("qkv", sharding)
    made = around(graph, mesh, given)
    assert kinds(made) == {"collective_permute": 2 * (mesh.sizes["seq"] - 1)}
    assert made.outputs["y"] == sharding
    parted.check(expanded(graph, TARGET), made, arrays(inputs), {})


@pytest.mark.parametrize("causal", [False, True])
def test_heads_side_by_side_that_share_keys(causal: bool) -> None:
    shapes = (2, 8, 24), (2, 8, 12), (2, 8, 12)
    inputs = [build.param(n, DType.F32, s) for n, s in zip("qkv", shapes, strict=True)]
    attended = build.apply1("attention", *inputs, heads=4, kv_heads=2, causal=causal)
    graph = Graph("g", tuple(inputs), {"y": attended})
    made = around(graph, MESHES[1], dict.fromkeys("qkv", ((), ("seq",), ())))
    assert kinds(made) == {"collective_permute": 6}
    parted.check(expanded(graph, TARGET), made, arrays(inputs), {})


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16, DType.F16])
def test_a_ring_is_attention(dtype: DType) -> None:
    """On one process: the steps compute what the operation does, in its types."""
    inputs = operands(shared=2, dtype=dtype)
    given = {n: a.astype(dtype.numpy) for n, a in arrays(inputs).items()}
    for causal in (False, True):
        op = Attention(causal=causal)
        outputs = {"ring": ring(op, inputs, 4), "whole": Node.of(op, *inputs)}
        assert outputs["ring"].type == outputs["whole"].type
        found = interpret(Graph("g", tuple(inputs), outputs), given)
        bound = 1e-5 if dtype is DType.F32 else 0.05
        np.testing.assert_allclose(
            found["ring"].astype(np.float32), found["whole"].astype(np.float32), atol=bound
        )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"time": 9, "keys": 9}, "qkv"),  # no equal parts
        ({"keys": 6}, "qkv"),
        ({}, "q"),
        ({}, "kv"),
    ],
)
def test_what_is_no_ring(change: dict[str, int], said: str) -> None:
    """Parts that are not equal, or one of them whole: then rules of products decide."""
    inputs = operands(**change)
    graph = Graph("g", tuple(inputs), {"y": build.apply1("attention", *inputs)})
    given: dict[str, Sharding] = dict.fromkeys("qkv", ((),) * 4) | dict.fromkeys(said, FOUR)
    whole = expanded(graph, TARGET, (Attention,))
    mesh = MESHES[1]
    assert with_rings(whole, mesh, given, ()) is whole
    made = partitioned(expanded(graph, TARGET), mesh, given)
    parted.check(expanded(graph, TARGET), made, arrays(inputs), {})
    if said == "kv":  # softmax over parts of the keys
        assert kinds(made) == {"all_reduce": 3}
    if said == "q":
        assert not kinds(made)


MASKS = [(8, 8), (2, 1, 1, 8), (4, 8, 1), (2, 4, 8, 8), (1, 4, 1, 8), (2, 1, 8, 8)]


@pytest.mark.parametrize("shape", MASKS)
@pytest.mark.parametrize("dtype", [DType.BOOL, DType.F32])
def test_masks_go_around_with_the_keys(shape: tuple[int, ...], dtype: DType) -> None:
    """Some hide all keys of a block, and those that are added are -inf there."""
    inputs = [*operands(shared=2), build.param("mask", dtype, shape)]
    graph = Graph("g", tuple(inputs), {"y": build.apply1("attention", *inputs, causal=True)})
    seen = RNG.random(shape) < 0.6
    seen[..., 0] = True  # some key is seen
    seen[..., 2:4] = False
    given = seen if dtype is DType.BOOL else np.where(seen, RNG.standard_normal(shape), -np.inf)
    values = {**arrays(inputs[:3]), "mask": given.astype(dtype.numpy)}
    for mesh in MESHES[1:]:
        said: dict[str, Sharding] = dict.fromkeys("qkv", FOUR)
        made = around(graph, mesh, said)
        moved = 2 + (shape[-1] > 1 and shape[-2] == 1)  # a mask of keys alone is sent, too
        assert kinds(made) == {"collective_permute": moved * (mesh.sizes["seq"] - 1)}
        parted.check(expanded(graph, TARGET), made, values, {})


def model_of(time: int, width: int) -> tuple[Model, Mesh]:
    inputs = [build.param(n, DType.F32, (1, 4, time, width)) for n in "qkv"]
    graph = Graph("g", tuple(inputs), {"y": build.apply1("attention", *inputs)})
    said = dict.fromkeys("qkv", SaidSharding(FOUR))
    mesh = Mesh((("seq", 4),))
    return Model(graph, {}, ranks=MeshSection(dict(mesh.axes), said)), mesh


def test_the_shorter_step_is_taken() -> None:
    """Short sequences are gathered, as messages take longer than what they would hide; what a rank
    computes of long ones hides them.
    """
    model, mesh = model_of(8, 4)
    assert kinds(of_rank(model, mesh, 0, TARGET)[1]) == {"all_gather": 2}
    model, mesh = model_of(4096, 64)
    assert kinds(of_rank(model, mesh, 0, TARGET)[1]) == {"collective_permute": 6}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["collective_permute", "all_gather"])
@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_programs(target: str, kind: str, causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a ring, and with keys and values gathered: then it is attention of a target's own."""

    def predicted(made: Partitioned) -> bool:
        return kind not in kinds(made)

    monkeypatch.setattr("xlac.spmd.model._predicted", predicted)
    inputs = operands()
    attended = build.apply1("attention", *inputs, causal=causal)
    graph = Graph("g", tuple(inputs), {"y": attended})
    given: dict[str, Sharding] = dict.fromkeys("qkv", FOUR)
    program = compiled(graph, MESHES[0], given, target, **arrays(inputs))
    assert kinds(program.plan) == {kind: 2}


@pytest.mark.parametrize("shift", range(-7, 8))
@pytest.mark.parametrize("parts", [2, 3, 4])
def test_rolls_along_parts(shift: int, parts: int) -> None:
    """Equal parts are sent on; others are gathered. In a loop the axis is whole."""
    x = build.param("x", DType.F32, (3, 12))
    graph = Graph("g", (x,), {"y": build.apply1("roll", x, shift=shift, axis=1)})
    mesh = Mesh((("seq", parts),))
    made = partitioned(expanded(graph, TARGET), mesh, {"x": ((), ("seq",))})
    assert set(kinds(made)) <= {"collective_permute"} and sum(kinds(made).values()) <= 2
    parted.check(expanded(graph, TARGET), made, arrays([x]), {})
    uneven = build.param("x", DType.F32, (3, 13))
    graph = Graph("g", (uneven,), {"y": build.apply1("roll", uneven, shift=shift, axis=1)})
    made = partitioned(expanded(graph, TARGET), mesh, {"x": ((), ("seq",))})
    parted.check(expanded(graph, TARGET), made, arrays([uneven]), {})


SPEC = """\
xlac: 1
model: layer
mesh: {seq: null}
shard: {x: [null, seq, null]}
inputs: {x: "f32[1, 4096, 64]"}
weights: {init: {seed: 0}}
graph:
  q: {op: linear, in: x, units: 64}
  k: {op: linear, in: x, units: 64}
  v: {op: linear, in: x, units: 64}
  y: {op: attention, in: {q: q, k: k, v: v}, heads: 4, causal: true}
outputs: [y]
"""


def test_a_ring_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layer.yaml"
    path.write_text(SPEC, "utf-8")
    assert status(["explain", str(path), "--mesh", "seq=2", "--target", "reference"]) == 0
    out = capsys.readouterr().out
    assert out.count("collective_permute over seq: ") == 2
    assert "roll 'y' moves parts on" in out and "divided outputs: y [null, seq, null]" in out
