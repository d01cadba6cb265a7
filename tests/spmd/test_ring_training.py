"""Training of attention divided by sequence: the derivative goes around a ring, too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import parted
import pytest
from test_rows_of_tables import kinds

import xlac
from xlac.autodiff.gradient import linearize
from xlac.cli import status
from xlac.ir.graph import Graph, Node, pick
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.nn.attention_derivatives import AttentionGradient, AttentionSums
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import expanded
from xlac.spmd.partition import Partitioned, partitioned
from xlac.spmd.sequence.ring import KEPT, ring_gradient, ring_sums, with_rings
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.ranks.threads import ThreadRank, together
from xlac_sdk.host.registry import find
from xlac_sdk.programs.program import exchanges
from xlac_sdk.target import Request

TARGET = find("reference").target(Request())
RNG = np.random.default_rng(6)
BOUND = 1e-11  # of f64, whose sums are in another order


def operands(shared: int, keys: int, dtype: DType = DType.F32) -> list[Node]:
    shapes = (2, 4, 8, 6), (2, shared, keys, 6), (2, shared, keys, 5)
    return [build.param(n, dtype, s) for n, s in zip("qkv", shapes, strict=True)]


def drawn(*nodes: Node) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for node in nodes:
        numbers = RNG.standard_normal(node.shape)
        dtype = node.type.dtype
        made[node.op.name] = numbers > -0.5 if dtype is DType.BOOL else numbers.astype(dtype.numpy)  # type: ignore[attr-defined]
    return made


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mask", [None, DType.BOOL, DType.F32])
@pytest.mark.parametrize(("shared", "keys"), [(4, 8), (2, 12)])
@pytest.mark.parametrize("causal", [False, True])
def test_a_ring_is_the_derivative(causal: bool, shared: int, keys: int, mask: DType | None) -> None:
    """On one process: the steps compute what the operations do."""
    inputs = operands(shared, keys)
    masks = [build.param("mask", mask, (2, 1, 8, keys))] if mask else []
    sums, gradient = AttentionSums(causal=causal), AttentionGradient(causal=causal)
    whole = Node.of(sums, *inputs, *masks)
    kept = [pick(whole, n) for n in range(3)]
    ct = build.param("ct", DType.F32, kept[0].shape)
    given = [*inputs, *kept, ct, *masks]
    back = Node.of(gradient, *given)
    wanted = [*kept, *(pick(back, n) for n in range(3))]
    found = [*ring_sums(sums, [*inputs, *masks], 4), *ring_gradient(gradient, given, 4)]
    outputs = {f"wanted {at}": one for at, one in enumerate(wanted)}
    outputs |= {f"found {at}": one for at, one in enumerate(found)}
    params = (*inputs, *masks, ct)
    got = interpret(Graph("g", params, outputs), drawn(*params))
    for at, one in enumerate(wanted):
        assert found[at].type == one.type
        np.testing.assert_allclose(got[f"found {at}"], got[f"wanted {at}"], rtol=1e-4, atol=2e-5)


def around(graph: Graph, mesh: Mesh, given: dict[str, Sharding]) -> Partitioned:
    """A graph with its attention around a ring, whatever it costs."""
    made = with_rings(expanded(graph, TARGET, KEPT), mesh, given, ())
    return partitioned(expanded(made, TARGET), mesh, given)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mesh", [{"seq": 2}, {"seq": 4}, {"data": 2, "seq": 2}])
def test_ranks_send_keys_and_gradients_on(mesh: dict[str, int], causal: bool) -> None:
    """Keys and values go around twice, and their gradients once, back to where they came from;
    nothing is gathered.
    """
    inputs = operands(4, 8)
    attended = build.apply1("attention", *inputs, causal=causal)
    loss = build.reduce(build.mul(attended, build.apply1("tanh", attended)), "add")
    by = linearize([loss], inputs).transposed([build.as_node(1.0, DType.F32)])
    outputs = {f"by {n}": one for n, one in zip("qkv", by, strict=True) if one}
    graph, ranks = Graph("g", tuple(inputs), outputs), Mesh(tuple(mesh.items()))
    sharding: Sharding = (("data",) if "data" in mesh else (), (), ("seq",), ())
    made = around(graph, ranks, dict.fromkeys("qkv", sharding))
    steps = mesh["seq"]
    found = kinds(made)
    assert found == Counter(collective_permute=4 * (steps - 1) + 2 * steps)
    assert {made.outputs[f"by {n}"] for n in "qkv"} == {sharding}
    parted.check(expanded(graph, TARGET), made, drawn(*inputs), {})


GPT = """\
xlac: 1
model: gpt
mesh: {data: null, seq: null}
shard: {x: [data, seq], y: [data, seq]}
dims: {batch: {min: 2, max: 16, opt: 4, multiple_of: 2}}
inputs: {x: "i32[batch, TIME]", y: "i32[batch, TIME]"}
weights: {init: {seed: 0}}
graph:
  table: {op: weight, type: "f64[24, 16]"}
  places: {op: weight, type: "f64[TIME, 16]"}
  h: table[x] + places
  n: layer_norm(h)
  q: {op: linear, in: n, units: 16}
  k: {op: linear, in: n, units: 16}
  v: {op: linear, in: n, units: 16}
  a: {op: attention, in: {q: q, k: k, v: v}, heads: 2, causal: true}
  o: {op: linear, in: a, units: 16}
  r: h + o
  m: layer_norm(r)
  up: {op: linear, in: m, units: 32}
  down: {op: linear, in: gelu(up), units: 16}
  last: layer_norm(r + down)
  out: {op: linear, in: last, units: 24}
outputs: [out]
train:
  batch: batch
  accumulate: 2
  loss: mean(cross_entropy(out, y, axis=-1))
  optimizer: {sgd: {lr: 0.05, momentum: 0.9}}
  clip: {norm: 1.0}
"""


def spec_of(folder: Path, time: int) -> Path:
    path = folder / "gpt.yaml"
    path.write_text(GPT.replace("TIME", str(time)), "utf-8")
    return path


def tokens(seed: int, time: int) -> dict[str, Array]:
    drawn = np.random.default_rng(seed).integers(0, 24, (4, time + 1)).astype(np.int32)
    return {"x": drawn[:, :-1], "y": drawn[:, 1:]}


@pytest.mark.parametrize(
    "mesh", ["data=1,seq=2", pytest.param("data=2,seq=2", marks=pytest.mark.long)]
)
def test_a_block_of_gpt(tmp_path: Path, mesh: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps equal those of one process; gradients of weights are summed once, over all ranks."""
    monkeypatch.setattr(
        "xlac.spmd.model._predicted", lambda made: "collective_permute" not in kinds(made)
    )
    spec = spec_of(tmp_path, 8)

    def steps(rank: ThreadRank | None) -> Any:
        trainer = xlac.trainer(spec, mesh=mesh if rank else None, target="reference")
        numbers = [trainer.step(**tokens(seed, 8)) for seed in (8, 4)]
        return numbers, trainer.state(), trainer

    wanted, state, _ = steps(None)
    for numbers, own, trainer in together(2 if mesh.startswith("data=1") else 4, steps):
        for want, had in zip(wanted, numbers, strict=True):
            assert had == pytest.approx(want, abs=BOUND)
        for name, array in state.items():
            np.testing.assert_allclose(own[name], array, rtol=0, atol=1e-9, err_msg=name)
        for kind in ("accumulate", "step"):
            programs = trainer._programs._compiled.items()
            (program, *_) = (one.program for key, one in programs if key[0] == kind)
            found = Counter(s.exchange.kind for s in exchanges(program.every_step))
            assert found["permute"] >= 2 + 2 + 4 and not found["all_gather"], kind


def test_memory_of_long_sequences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Around a ring a rank needs less than with all keys and values, and the scores of its queries
    with all of them.
    """
    spec = spec_of(tmp_path, 512)
    text = spec.read_text("utf-8").replace("f64", "f32").replace("accumulate: 2", "accumulate: 1")
    spec.write_text(text, "utf-8")
    given = ["--mesh", "data=1,seq=4", "--dim", "batch=2", "--target", "reference"]
    arenas: dict[str, int] = {}
    for kind in ("collective_permute", "all_gather"):
        unwanted = "all_gather" if kind == "collective_permute" else "collective_permute"
        monkeypatch.setattr(
            "xlac.spmd.model._predicted", lambda made, unwanted=unwanted: unwanted in kinds(made)
        )
        assert status(["explain", str(spec), "--entry", "step", *given]) == 0
        out = capsys.readouterr().out
        assert f"{unwanted} over" not in out
        (line,) = (one for one in out.splitlines() if one.startswith("memory of each rank"))
        arenas[kind] = int(line.split()[4].replace(",", ""))
        if kind == "collective_permute":
            assert out.count("collective_permute over seq: ") == 4 * 3 + 2 * 4
    assert arenas["collective_permute"] < 0.8 * arenas["all_gather"], arenas
