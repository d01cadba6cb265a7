"""The predicted time of a step of which computation hides messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from xlac.cli import status
from xlac.ir.graph import Graph, Node, apply
from xlac.ops import build
from xlac.spmd.step_time import StepTime, step_time
from xlac_sdk.dtypes import DType

MESH = (("data", 2),)


def summed(node: Node) -> Node:
    return apply("all_reduce", node, mesh=MESH, axes=("data",))


def times(graph: Graph, seconds: Sequence[float], message: float) -> StepTime:
    """`seconds` of the element-wise operations, in order."""
    own = [n for n in graph.nodes() if n.inputs and n.op.mnemonic != "all_reduce"]
    return step_time(graph, dict(zip(own, seconds, strict=True)), lambda _: message)


def test_a_sum_is_under_way_while_others_are_computed() -> None:
    x = build.param("x", DType.F32, (4,))
    first, second = build.exp(x), build.apply1("sin", x)
    graph = Graph("g", (x,), {"a": summed(first), "b": second})
    assert times(graph, (2, 3), 1) == StepTime(5, 1, 1)
    assert times(graph, (2, 3), 4).seconds == 6  # of its four seconds three are hidden


def test_what_reads_a_sum_waits_for_it() -> None:
    x = build.param("x", DType.F32, (4,))
    graph = Graph("g", (x,), {"a": build.apply1("sin", summed(build.exp(x)))})
    assert times(graph, (2, 3), 7) == StepTime(5, 7, 0)


def test_messages_take_turns_on_the_link() -> None:
    x = build.param("x", DType.F32, (4,))
    sums = {name: summed(build.apply1(name, x)) for name in ("exp", "sin", "cos")}
    graph = Graph("g", (x,), sums)
    assert times(graph, (1, 1, 1), 5).seconds == 1 + 3 * 5
    assert times(graph, (5, 5, 5), 1).seconds == 3 * 5 + 1


SPEC = """
xlac: 1
model: deep
mesh: {data: null}
dims: {batch: {max: 4096, opt: 64}}
weights: {init: {seed: 0}}
inputs: {x: "f32[batch, 64]", y: "i64[batch]"}
graph:
  a: {op: linear, in: x, units: 64}
  b: {op: linear, in: relu(a), units: 64}
  out: {op: linear, in: relu(b), units: 10}
outputs: [out]
train: {batch: batch, loss: "mean(cross_entropy(out, y))", optimizer: {sgd: {lr: 0.1}}}
"""


@pytest.mark.parametrize("rate", ["1GB/s", "100MB/s", "1MB/s"])
def test_gradients_are_hidden_by_the_layers_before(
    rate: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A step is never shorter than its computation and its messages, nor longer than both."""
    (tmp_path / "deep.yaml").write_text(SPEC, "utf-8")
    command = ["plan", str(tmp_path / "deep.yaml"), "--entry", "step", "--ranks", "2"]
    more = ["--link", f"{rate},1us", "--device", "1Gflop/s,1GB/s", "--target", "reference"]
    assert status([*command, *more]) == 0
    line = next(l for l in capsys.readouterr().out.splitlines() if "bytes" in l)
    found = re.findall(r"([\d,.]+) (ms|us) ", line)
    step, compute, wire = (float(n.replace(",", "")) * (1e3 if u == "ms" else 1) for n, u in found)
    hidden = re.search(r"([\d.]+)%", line)
    assert hidden is not None and float(hidden[1]) > 0
    assert max(compute, wire) - 0.1 <= step < compute + wire
    assert step == pytest.approx(compute + wire * (1 - float(hidden[1]) / 100), rel=2e-3)
