"""Exported models give what ours give, in ONNX Runtime or, where it lacks a kernel, in ONNX's own
evaluator.

`make test-export` runs every sample of every operation and checks the list of those that ONNX
Runtime cannot run; `make test` runs a few of each.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from graphs import make
from onnx_runs import F32, I32, SPECS, agree, inputs_of, of, ort, run
from shipped import MODELS

from xlac.cli import status
from xlac.exporters.onnx import proto, tensors, write
from xlac.frontends.loader import load as load_any
from xlac.ir.dims import UNBOUNDED, Symbol, symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.control import control, effect
from xlac.ops.reduction import reduction
from xlac.ops.tensor.leaf import Param
from xlac.spec.load import load
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError, UnsupportedError

onnx = pytest.importorskip("onnx")

ALL = bool(os.environ.get("XLAC_EXPORT_ALL"))
LARGE = {
    "resnet50",
    "mobilenet_v2",
    "elementwise_chain",
    "mul_add_reduce",
    "softmax",
    "bias_relu_softmax",
    "bert_layer",
}
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "file", [f for f in MODELS if ALL or f.stem not in LARGE], ids=lambda p: p.stem
)
def test_shipped_specs(file: Path) -> None:
    """With sizes open: what is exported takes the sizes that it is given."""
    open_ = load(file)
    dims = {
        name: min(
            s.max,
            max(s.min, 1 if file.stem in LARGE else 3) // s.multiple_of * s.multiple_of
            or s.multiple_of,
        )
        for name, s in open_.dims.items()
    }
    model = load(file, dims=dims)
    given = inputs_of(model)
    agree(model, given, 2e-4, proto(open_))


@pytest.mark.parametrize("batch", range(2))
def test_random_graphs(batch: int) -> None:
    for seed in range(batch * 20, batch * 20 + (200 if ALL else 20)):
        case = make(Random(seed), 10)
        if any(
            n.type.dtype is DType.BF16 for n in (*case.graph.inputs, *case.graph.outputs.values())
        ):
            continue
        made = proto(Model(case.graph, case.weights))
        onnx.checker.check_model(made)
        found, why = run(made, case.inputs)
        coarsest = max(
            (RELATIVE[t.dtype] for n in case.graph.nodes() for t in n.results if t.dtype.is_float),
            default=0.0,
        )
        # ONNX's evaluator has functions in f32 only
        coarsest = max(coarsest, RELATIVE[DType.F32]) if why else coarsest
        for got, (name, want) in zip(
            found.values(),
            interpret(case.graph, case.inputs, case.weights, float64=True).items(),
            strict=True,
        ):
            got = got.astype(np.float64)
            assert got.shape == want.shape, f"seed {seed}"
            scale = max(1.0, float(np.abs(want.astype(np.float64)).max(initial=0.0)))
            np.testing.assert_allclose(
                got / scale,
                want.astype(np.float64) / scale,
                rtol=0,
                atol=coarsest,
                err_msg=f"seed {seed}, {name}",
            )


# of the largest value
RELATIVE = {DType.F64: 1e-9, DType.F32: 2e-4, DType.F16: 4e-2, DType.BF16: 2.5e-1}


def test_loops_and_choices() -> None:
    x, n, seq = (
        build.param(*a)
        for a in (("x", DType.F32, (4,)), ("n", DType.I32, ()), ("seq", DType.F32, (5, 4)))
    )
    vec = Type(DType.F32, (4,))
    test = build.graph("t", [I32, vec, I32], lambda i, a, n: build.compare(i, "lt", n))
    body = build.graph(
        "b", [I32, vec, I32], lambda i, a, n: (build.add(i, 1), build.mul(a, 0.5), n)
    )
    loop = Node.of(control.While(test, body), build.constant(0), x, n)
    step = build.graph(
        "s", [vec, vec, vec], lambda h, s, w: (build.add(h, build.mul(s, w)), build.sub(s, h))
    )
    scan = Node.of(control.Scan(step, 5, 1, 1, True), x, seq, x)
    count = build.graph("c", [F32], lambda h: (build.mul(h, 2.0), h))
    times = Node.of(control.Scan(count, 6, 1, 0, True), build.constant(1.0))
    branches = tuple(
        build.graph(f"b{k}", [vec], lambda a, k=k: build.add(a, float(k))) for k in range(3)
    )
    chosen = Node.of(control.Cond(branches), n, x)
    outputs = {
        "half": build.pick(loop, 1),
        "h": build.pick(scan, 0),
        "y": build.pick(scan, 1),
        "c": chosen,
        "r": build.pick(times, 1),
    }
    model = of(outputs, x, n, seq)
    for number in (0, 1, 2, 7, -3):
        agree(model, {**inputs_of(model), "n": np.asarray(number, np.int32)})


def test_a_reduction_by_a_body() -> None:
    x, i = build.param("x", DType.F32, (3, 5)), build.param("i", DType.I32, (3, 5))

    def best(a: Node, p: Node, b: Node, q: Node) -> tuple[Node, Node]:
        first = build.compare(a, "ge", b)
        return build.select(first, a, b), build.select(first, p, q)

    body = build.graph("best", [F32, I32, F32, I32], best)
    node = Node.of(
        reduction.Reduce((1,), "body", body),
        x,
        i,
        build.constant(-np.inf, DType.F32),
        build.constant(0),
    )
    model = of({"v": build.pick(node, 0), "p": build.pick(node, 1)}, x, i)
    agree(model, {"x": inputs_of(model)["x"], "i": np.arange(15, dtype=np.int32).reshape(3, 5)})


def test_open_sizes_are_computed_from_those_of_inputs() -> None:
    size = symbol("B", 1, 64)
    x, y = (
        Node.of(Param("x", Type(DType.F32, (size * 2 + 1, 3)))),
        Node.of(Param("y", Type(DType.F32, (size, size * 3)))),
    )
    flat = build.add(
        build.reshape(y, (size * size * 3,)), build.full(1.0, (size * size * 3,), DType.F32)
    )
    counted = build.cast(build.iota((size, 2), 0), DType.F32)
    model = of(
        {"f": flat, "c": counted, "x": build.cut(x, 0, 0, size)},
        x,
        y,
        dims={"B": size.parts[0][0][0]},
    )
    made = proto(model)
    given = {
        "x": np.ones((9, 3), np.float32),
        "y": np.random.default_rng(0).normal(size=(4, 12)).astype(np.float32),
    }
    found, why = run(made, given)
    assert not why and found["c"].shape == (4, 2) and found["x.out"].shape == (4, 3)
    np.testing.assert_array_equal(found["f"], given["y"].reshape(-1) + 1)
    onnx.checker.check_model(made)
    assert [d.dim_param for d in made.graph.input[1].type.tensor_type.shape.dim] == ["B", "3*B"]


def test_everything_that_cannot_be_said_is_said_at_once() -> None:
    x, state = build.param("x", DType.F32, (4,)), build.param("s", DType.U64, (2,))
    made = Node.of(effect.CustomCall("f", (), (F32,)), x)
    bits = build.results(Node.of(OPS["rng_bits"](shape=(3,)), state))  # type: ignore[call-arg]
    with pytest.raises(UnsupportedError) as caught:
        proto(of({"y": made, "b": bits[1]}, x, state))
    assert [d.code for d in caught.value.diagnostics] == ["XL7401", "XL7401"]
    assert "custom_call" in str(caught.value) and "rng_bits" in str(caught.value)


def test_large_tensors_stand_in_a_file_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(SPECS / "digits.yaml", dims={"batch": 2})
    assert [p.name for p in write(model, tmp_path / "small.onnx")] == ["small.onnx"]
    monkeypatch.setattr(tensors, "INSIDE", 1000)
    seen: list[tuple[int, int]] = []
    files = write(model, tmp_path / "m.onnx", lambda done, total: seen.append((done, total)))
    assert [p.name for p in files] == ["m.onnx", "m.onnx.data"] and seen
    assert files[0].stat().st_size < 3000
    onnx.checker.check_model(str(files[0]))
    given = inputs_of(model)
    (got,) = ort.InferenceSession(str(files[0]), providers=["CPUExecutionProvider"]).run(
        None, given
    )
    np.testing.assert_allclose(
        got, interpret(model.graph, given, model.weights)["probs"], rtol=1e-5, atol=1e-6
    )


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = tmp_path / "d.onnx"
    assert status(["export", str(SPECS / "digits.yaml"), "--to", "onnx", "-o", str(made)]) == 0
    assert "d.onnx" in capsys.readouterr().out
    assert status(["export", str(SPECS / "digits.yaml"), "--to", "onnx", "-o", str(made)]) == 2
    assert "XL3016" in capsys.readouterr().err
    assert status(["check", str(made)]) == 0


def test_state_becomes_an_input_and_an_output(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        'xlac: 1\ninputs: {x: "f32[4]"}\nstate: {total: {type: "f32[4]", next: total + '
        "x}}\noutputs: {y: total * 2}\n"
    )
    made = proto(load(file))
    assert [i.name for i in made.graph.input] == ["x", "total"]
    assert [o.name for o in made.graph.output] == ["y", "total.next"]


def test_what_is_known_of_sizes_is_metadata() -> None:
    n = symbol("n", 4, 64, opt=16, multiple_of=4)
    x = build.param("x", DType.F32, (n, 3))
    exported = proto(Model(Graph("g", (x,), {"y": build.exp(x)}), {}, {"n": n_of(n)}))
    (entry,) = exported.metadata_props
    for stated, known in (
        (entry.value, (4, 64, 16, 4)),
        ("1.. opt 100", (1, UNBOUNDED, 100, 1)),
        ("3..", (3, UNBOUNDED, 3, 1)),
        ("2..9 multiple_of 4", (4, 8, 8, 4)),
    ):
        entry.value = stated
        again = load_any(exported).dims["n"]
        assert (again.min, again.max, again.opt, again.multiple_of) == known
    for nothing in ("what", "2..8 opt 9", "9..10 multiple_of 8", "1..8 multiple_of 0", "1..8 opt"):
        entry.value = nothing
        assert load_any(exported).dims["n"].max == UNBOUNDED
    assert load_any(exported, dims={"n": "3..5"}).dims["n"].max == 5


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("..16", (2, 16, 2)), ("8..", (8, 32, 2)), ("3..9", (4, 8, 2)), (6, 6),
        (5, None), (40, None), (0, None), ("4..64", None), ("1..8", (2, 8, 2)), ("3..3", None),
    ],
)  # fmt: skip
def test_sizes_that_callers_give_are_within_those_of_the_model(given: Any, found: Any) -> None:
    n = symbol("n", 2, 32, multiple_of=2)
    x = Node.of(Param("x", Type(DType.F32, (n, 3))))
    dims = {"n": n.parts[0][0][0]}
    exported = proto(Model(Graph("g", (x,), {"y": build.add(x, 1.0)}), {}, dims=dims))
    if found is None:
        with pytest.raises(SourceError, match=r"not within 2\.\.32 multiple_of 2"):
            load_any(exported, dims={"n": given})
        return
    size = load_any(exported, dims={"n": given}).inputs[0].shape[0]
    if isinstance(size, int):
        assert size == found
        return
    (known,) = symbols(size)
    assert (known.min, known.max, known.multiple_of) == found


@pytest.mark.parametrize("least", [0, 1, 3])
def test_the_least_value_of_a_size_is_kept(least: int) -> None:
    n = symbol("n", least, opt=max(least, 1))
    x = Node.of(Param("x", Type(DType.F32, (n,))))
    dims = {"n": n.parts[0][0][0]}
    exported = proto(Model(Graph("g", (x,), {"y": build.add(x, 1.0)}), {}, dims=dims))
    assert load_any(exported).dims["n"].min == least
    assert len(exported.metadata_props) == (least > 0)


def n_of(size: Any) -> Symbol:
    (only,) = symbols(size)
    return only
