"""The samples of the language, and each of its parts, mean what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shipped import MODELS

from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ir.verify import verify
from xlac.model import Model
from xlac.ops.tensor.leaf import Param
from xlac.spec.load import load
from xlac.spec.summary import summarize
from xlac_sdk.source import SourceError, UnsupportedError

SPECS = Path(__file__).parents[2] / "specs"


def model(folder: Path, text: str, **options: Any) -> Model:
    file = folder / "model.yaml"
    file.write_text("xlac: 1\n" + text)
    found = load(file, **options)
    verify(found.graph)
    return found


def run(found: Model, **inputs: Any) -> dict[str, Array]:
    return interpret(found.graph, inputs, found.weights)


def codes(folder: Path, text: str, **options: Any) -> list[str]:
    with pytest.raises(SourceError) as caught:
        model(folder, text, **options)
    return [d.code for d in caught.value.diagnostics]


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# ---- the shipped specs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet50", 25_557_032),
        ("mobilenet_v2", 3_504_872),
        ("lstm_3x60", 87_120),
        ("digits", 9_610),
    ],
)
def test_parameters(name: str, parameters: int) -> None:
    assert (
        summarize(load(SPECS / f"{name}.yaml", weights=False))["totals"]["parameters"] == parameters
    )


@pytest.mark.parametrize("file", MODELS, ids=lambda p: p.stem)
def test_shipped_specs_load_and_verify(file: Path) -> None:
    verify((found := load(file, weights=False)).graph)
    assert found.graph.outputs


def test_the_stacked_lstm_is_an_lstm() -> None:
    found = load(SPECS / "lstm_3x60.yaml", dims={"B": 2, "T": 5})
    x = random(2, 5, 60)
    out = run(found, x=x)
    h = [np.zeros((2, 60))] * 3
    c = [np.zeros((2, 60))] * 3
    w = found.weights
    for t in range(5):
        y = x[:, t].astype(np.float64)
        for k in range(3):
            name = f"rnn.layer.{k}.gates"
            gates = y @ w[f"{name}.weight_0"].T + h[k] @ w[f"{name}.weight_1"].T + w[f"{name}.bias"]
            i, f, g, o = np.split(gates, 4, axis=1)
            c[k] = 1 / (1 + np.exp(-f)) * c[k] + 1 / (1 + np.exp(-i)) * np.tanh(g)
            h[k] = y = 1 / (1 + np.exp(-o)) * np.tanh(c[k])
    np.testing.assert_allclose(out["h_n"], np.stack(h), atol=1e-5)
    np.testing.assert_allclose(out["y"][:, -1], h[-1], atol=1e-5)


# ---- names and order -------------------------------------------------------------------------


def test_order_does_not_matter(tmp_path: Path) -> None:
    text = "graph:\n  y: relu(a) + b\n  b: a * 2\n  a: x + 1\ninputs: {x: 'f32[3]'}\noutputs: [y]\n"
    x = random(3)
    np.testing.assert_allclose(
        run(model(tmp_path, text), x=x)["y"], np.maximum(x + 1, 0) + (x + 1) * 2, rtol=1e-6
    )


@pytest.mark.parametrize(
    "name",
    [
        "int",
        "{{ config }}",
        "a'b",
        'say "x"',
        "🙂",
        "été",
        "../../x",
        "__class__",
        "for",
        "; system(1)",
        "a b",
        "x" * 256,
    ],
)
def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    quoted = "'" + name.replace("'", "''") + "'"
    text = f"inputs: {{{quoted}: 'f32[3]'}}\ngraph:\n  y: {{op: relu, in: {quoted}}}\noutputs: {{{quoted}: y}}\n"
    x = random(3)
    np.testing.assert_array_equal(
        interpret(model(tmp_path, text).graph, {name: x})[name], np.maximum(x, 0)
    )


def test_names_are_normalised(tmp_path: Path) -> None:
    text = "inputs: {x: 'f32[3]'}\ngraph:\n  cafe\u0301: relu(x)\n  \ufb01: relu(caf\u00e9)\n  y: fi + caf\u00e9\noutputs: [y]\n"
    assert list(model(tmp_path, text).graph.outputs) == ["y"]


def test_a_long_chain_is_no_problem(tmp_path: Path) -> None:
    lines = "".join(f"  n{i}: relu(n{i + 1})\n" for i in range(5000))
    found = model(tmp_path, f"inputs: {{n5000: 'f32[2]'}}\ngraph:\n{lines}outputs: [n0]\n")
    assert sum(1 for _ in found.graph.nodes()) == 5001


def test_origins_name_the_node_and_the_place(tmp_path: Path) -> None:
    text = "inputs: {x: 'f32[3]'}\nblocks:\n  b: {inputs: [v], graph: {h: tanh(v) + 1}, outputs: [h]}\ngraph:\n  l: {block: b, in: x, repeat: 2}\noutputs: [l]\n"
    found = model(tmp_path, text)
    places = {(n.op.mnemonic, n.name): n.origin.span for n in found.graph.nodes() if n.origin}
    assert places["tanh", "l.1.h"].column == 31 and places["tanh", "l.1.h"].line == 4  # type: ignore[union-attr]
    assert all(n.origin is not None for n in found.graph.nodes())


# ---- dims and params -------------------------------------------------------------------------

DIMS = "dims: {B: {min: 2, max: 64, opt: 8, multiple_of: 2}, N: 3}\nparams: {w: 4, wide: '${2 * w}'}\ninputs: {x: 'f32[B, N, $wide]'}\ngraph: {y: x + 1}\noutputs: [y]\n"


def test_dims_stay_symbolic(tmp_path: Path) -> None:
    found = model(tmp_path, DIMS)
    assert str(found.graph.inputs[0].type) == "f32[B, 3, 8]"
    symbol = found.dims["B"]
    assert (symbol.min, symbol.max, symbol.opt, symbol.multiple_of) == (2, 64, 8, 2)


@pytest.mark.parametrize("value", [6, "6", (6, 6), "6..6"])
def test_dims_are_fixed(value: Any, tmp_path: Path) -> None:
    found = model(tmp_path, DIMS, dims={"B": value})
    assert found.graph.inputs[0].shape == (6, 3, 8) and not found.dims


def test_dims_are_narrowed(tmp_path: Path) -> None:
    symbol = model(tmp_path, DIMS, dims={"B": "10..21"}).dims["B"]
    assert (symbol.min, symbol.max, symbol.opt) == (10, 21, 10)
    assert model(tmp_path, DIMS, dims={"N": 7}).graph.inputs[0].shape[1] == 7


@pytest.mark.parametrize(
    "dims",
    [
        {"B": 5},
        {"B": 66},
        {"B": "1..4"},
        {"B": "8..4"},
        {"B": "many"},
        {"C": 3},
        {"B": 0},
        {"N": "1..3"},
        {"B": -2},
    ],
)
def test_dims_out_of_bounds(dims: Mapping[str, Any], tmp_path: Path) -> None:
    assert codes(tmp_path, DIMS, dims=dims) == ["XL2014"]


def test_a_range_without_a_multiple_is_refused(tmp_path: Path) -> None:
    text = "dims: {n: {min: 2, max: 64, opt: 8, multiple_of: 4}}\ninputs: {x: 'f32[n]'}\ngraph: {y: x + 1}\noutputs: [y]\n"
    assert codes(tmp_path, text, dims={"n": "5..7"}) == ["XL2014"]
    assert model(tmp_path, text, dims={"n": "5..9"}).dims["n"].opt == 8


def test_params_are_overridden(tmp_path: Path) -> None:
    assert model(tmp_path, DIMS, params={"w": 5}).graph.inputs[0].shape[2] == 10
    assert codes(tmp_path, DIMS, params={"v": 5}) == ["XL2015"]
    assert codes(tmp_path, DIMS, params={"w": "five"}) == ["XL2015"]


def test_zero_sizes(tmp_path: Path) -> None:
    found = model(
        tmp_path,
        "dims: {B: {min: 0, max: 4}}\ninputs: {x: 'f32[B, 0, 3]'}\ngraph: {y: softmax(x, axis=-1)}\noutputs: [y]\n",
        dims={"B": 0},
    )
    assert run(found, x=np.zeros((0, 0, 3), np.float32))["y"].shape == (0, 0, 3)


# ---- blocks ----------------------------------------------------------------------------------

BLOCK = """\
inputs: {x: "f32[2, 4]"}
weights: {init: {seed: 0}}
blocks:
  layer:
    params: {width: null, act: relu, extra: false}
    inputs: [a]
    graph:
      h: {op: linear, in: a, units: $width}
      t: {op: $act, in: h}
      u: {op: tanh, in: t, when: $extra, else: t}
    outputs: {out: u, raw: h}
graph:
"""


def test_repeat_first_last_and_addresses(tmp_path: Path) -> None:
    text = BLOCK + (
        "  s: {block: layer, in: x, with: {width: 5}, repeat: 3, first: {extra: true}, last: {width: 2, act: identity}}\n"
        "outputs: {y: s, a: s.0.raw, b: s.last.out, c: s.raw.0, d: s.1.h}\n"
    )
    found = model(tmp_path, text)
    x = random(2, 4)
    out, w = run(found, x=x), found.weights
    h = x @ w["s.0.h.weight"].T + w["s.0.h.bias"]
    np.testing.assert_allclose(out["a"], h, rtol=1e-5)
    np.testing.assert_allclose(out["c"], h, rtol=1e-5)
    h = np.tanh(np.maximum(h, 0)) @ w["s.1.h.weight"].T + w["s.1.h.bias"]
    np.testing.assert_allclose(out["d"], h, rtol=1e-5, atol=1e-6)
    h = np.maximum(h, 0) @ w["s.2.h.weight"].T + w["s.2.h.bias"]
    np.testing.assert_allclose(out["y"], h, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(out["b"], out["y"])
    assert sorted(w) == sorted(f"s.{i}.h.{n}" for i in range(3) for n in ("weight", "bias"))


def test_copies_are_stacked_where_one_tensor_is_wanted(tmp_path: Path) -> None:
    text = (
        BLOCK
        + "  s: {block: layer, in: x, with: {width: 4}, repeat: 3}\n  all: s.raw * 2\noutputs: {y: all, last: s.raw.last}\n"
    )
    out = run(model(tmp_path, text), x=random(2, 4))
    assert out["y"].shape == (3, 2, 4)
    np.testing.assert_allclose(out["y"][2], out["last"] * 2)
    text = text.replace("with: {width: 4}", "with: {width: 4}, first: {width: 4}").replace(
        "repeat: 3}", "repeat: 3, last: {width: 2}}"
    )
    assert codes(tmp_path, text) == ["XL2012"]


def test_index_and_chain(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[4]", k: "f32[3, 4]"}
blocks:
  step: {params: {scale: 1}, inputs: [a, b, c], graph: {s: a * $scale + b, t: c - s}, outputs: {p: s, q: t}}
graph:
  l: {block: step, in: [x, k, x], with: {scale: "${index + 1}"}, repeat: 3, index: [b], chain: {a: q, c: p}}
outputs: {p: l.p.last, q: l.q.last}
"""
    x, k = random(4), random(3, 4, seed=1)
    a = c = x
    for i in range(3):
        s = a * (i + 1) + k[i]
        a, c = c - s, s
    out = run(model(tmp_path, text), x=x, k=k)
    np.testing.assert_allclose(out["p"], c, rtol=1e-5)
    np.testing.assert_allclose(out["q"], a, rtol=1e-5)


def test_blocks_multiply_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlac.spec.elaborate.context.MAX_NODES", 2000)
    blocks = "".join(
        f"  b{i}: {{inputs: [v], graph: {{w: {{block: b{i + 1}, in: v, repeat: 100}}}}, outputs: [w]}}\n"
        for i in range(5)
    )
    text = f"inputs: {{x: 'f32[2]'}}\nblocks:\n{blocks}  b5: {{inputs: [v], graph: {{w: relu(v)}}, outputs: [w]}}\ngraph: {{y: {{block: b0, in: x}}}}\noutputs: [y]\n"
    assert "XL4018" in codes(tmp_path, text)


# ---- control ---------------------------------------------------------------------------------


def test_scan_captures_weights_and_values(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[5, 2, 4]", bias: "f32[4]"}
weights: {init: {seed: 3}}
graph:
  start: zeros([2, 4])
  loop:
    scan: {row: x}
    reverse: true
    carry: {h: start}
    body:
      mixed: {op: linear, in: row + h, units: 4, bias: false}
      n: tanh(mixed + bias)
    next: {h: n}
    stack: {y: n, twice: n * 2}
outputs: {h: loop.h, y: loop.y, twice: loop.twice}
"""
    found = model(tmp_path, text)
    assert list(found.weights) == ["loop.mixed.weight"]
    x, bias = random(5, 2, 4), random(4, seed=1)
    out = run(found, x=x, bias=bias)
    h, w = np.zeros((2, 4)), found.weights["loop.mixed.weight"]
    for t in reversed(range(5)):
        h = np.tanh((x[t] + h) @ w.T + bias)
        np.testing.assert_allclose(out["y"][t], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(out["h"], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(out["twice"], out["y"] * 2)


def test_scan_of_a_length(tmp_path: Path) -> None:
    text = "inputs: {x: 'f32[3]'}\ngraph:\n  l: {scan: {}, length: 4, carry: {h: x}, next: {h: h * 2}}\noutputs: {y: l.h}\n"
    x = random(3)
    np.testing.assert_allclose(run(model(tmp_path, text), x=x)["y"], x * 16)


def test_loops_inside_loops(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[3, 4]", k: "f32[]"}
graph:
  outer:
    scan: {row: x}
    carry: {total: 0.0}
    body:
      inner:
        while: count < 3
        carry: {count: 0, v: row}
        next: {count: count + 1, v: v * k}
      part: sum(inner.v)
    next: {total: total + part}
outputs: {y: outer.total}
"""
    x = random(3, 4)
    np.testing.assert_allclose(
        run(model(tmp_path, text), x=x, k=np.float32(1.5))["y"], (x * 1.5**3).sum(), rtol=1e-5
    )


@pytest.mark.parametrize(("on", "expected"), [(0, 1), (1, 2), (2, 3), (7, 3), (-1, 3)])
def test_cond_by_number(on: int, expected: int, tmp_path: Path) -> None:
    text = "inputs: {x: 'f32[2]', i: 'i64[]'}\ngraph:\n  y: {cond: i, branches: [x * 1, x * 2, x * 3]}\noutputs: [y]\n"
    x = random(2)
    np.testing.assert_allclose(run(model(tmp_path, text), x=x, i=np.int64(on))["y"], x * expected)


@pytest.mark.parametrize("flag", [True, False])
def test_cond_by_flag_with_graphs(flag: bool, tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[2]", flag: "bool[]"}
graph:
  c:
    cond: flag
    then: {body: {a: x + 1, b: a * 2}, outputs: {p: a, q: b}}
    else: {outputs: {p: x, q: -x}}
outputs: {p: c.p, q: c.q}
"""
    x = random(2)
    out = run(model(tmp_path, text), x=x, flag=np.bool_(flag))
    np.testing.assert_allclose(out["p"], x + 1 if flag else x)
    np.testing.assert_allclose(out["q"], (x + 1) * 2 if flag else -x)


# ---- custom ops, include, state, training ----------------------------------------------------

OP = """\
inputs: {x: "f32[2, 6]", w: "f32[6]"}
ops:
  gated:
    inputs: {a: "f32[*S, N]", b: "f32[N]"}
    outputs: {y: "f32[*S, ${N // 2}]"}
    params: {slope: 0.5}
    expr:
      half: a * b * $slope
      y: half[..., :${N // 2}]
"""


def test_custom_op_is_its_meaning(tmp_path: Path) -> None:
    found = model(
        tmp_path,
        OP
        + "graph: {y: 'gated(x, w, slope=2)', z: {op: gated, in: {b: w, a: x}}}\noutputs: [y, z]\n",
    )
    x, w = random(2, 6), random(6, seed=1)
    out = run(found, x=x, w=w)
    np.testing.assert_allclose(out["y"], (x * w * 2)[:, :3], rtol=1e-6)
    np.testing.assert_allclose(out["z"], (x * w * 0.5)[:, :3], rtol=1e-6)
    assert not any(n.op.mnemonic == "call" for n in found.graph.nodes())


def test_custom_op_with_kernels_is_a_call(tmp_path: Path) -> None:
    (tmp_path / "gated.c").write_text("/* */")
    found = model(
        tmp_path, OP + "    kernels: {c: gated.c}\ngraph: {y: 'gated(x, w)'}\noutputs: [y]\n"
    )
    (call,) = [n for n in found.graph.nodes() if n.op.mnemonic == "call"]
    assert call.name == "y" and found.kernels["gated"]["c"].name == "gated.c"
    x, w = random(2, 6), random(6, seed=1)
    np.testing.assert_allclose(run(found, x=x, w=w)["y"], (x * w * 0.5)[:, :3], rtol=1e-6)


def test_custom_op_types_must_agree(tmp_path: Path) -> None:
    text = OP.replace('w: "f32[6]"', 'w: "f32[5]"') + "graph: {y: 'gated(x, w)'}\noutputs: [y]\n"
    assert codes(tmp_path, text) == ["XL2009"]


def test_include_merges_by_name(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "base.yaml").write_text(
        "xlac: 1\ninclude: [more.yaml]\ninputs: {x: 'f32[3]'}\ngraph: {h: relu(x)}\n"
    )
    (tmp_path / "parts" / "more.yaml").write_text(
        "xlac: 1\ninclude: [base.yaml]\nparams: {k: 2}\ngraph: {y: h * $k}\noutputs: [y]\n"
    )
    found = model(tmp_path, "include: [parts/base.yaml]\noutputs: {h: h}\n")
    x = random(3)
    out = run(found, x=x)
    np.testing.assert_allclose(out["y"], np.maximum(x, 0) * 2)
    assert set(out) == {"h", "y"}


def test_state_is_kept_apart(tmp_path: Path) -> None:
    text = "inputs: {x: 'f32[3]'}\nstate: {total: {type: 'f32[3]', next: y}, steps: {type: 'i32[]', next: steps + 1}}\ngraph: {y: x + total}\noutputs: [y]\n"
    found = model(tmp_path, text)
    assert found.state == {"total": "y", "steps": "steps.next"}
    kinds = {n.op.name: n.op.kind for n in found.graph.inputs if isinstance(n.op, Param)}
    assert kinds == {"x": "input", "total": "state", "steps": "state"}
    out = run(found, x=np.ones(3, np.float32), total=np.ones(3, np.float32), steps=np.int32(4))
    assert out["steps.next"] == 5 and out["y"][0] == 2


def test_weights_shared_given_and_alone(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[2, 3]"}
weights: {init: {seed: 0}}
graph:
  table: {op: weight, type: "f32[3, 3]"}
  c: {op: constant, value: [[1, 2, 3]], dtype: f32}
  a: {op: linear, in: x, units: 3, weight: table}
  b: {op: linear, in: a, units: 3, weight: table, bias: "c[0]"}
  d: linear(b, units=3, weight=table, bias=a.0)
outputs: [b]
"""
    assert "XL2002" in codes(tmp_path, text)  # a.0 is no result
    found = model(tmp_path, re.sub(r"  d: .*\n", "", text))
    assert sorted(found.weights) == ["a.bias", "table"]
    x, w = random(2, 3), found.weights["table"]
    np.testing.assert_allclose(
        run(found, x=x)["b"], (x @ w.T) @ w.T + [1, 2, 3], rtol=1e-4, atol=1e-5
    )


def test_a_spec_that_trains_is_not_built_as_a_model(tmp_path: Path) -> None:
    text = """\
inputs: {x: "f32[B, 4]", label: "i32[B]"}
dims: {B: {max: 8}}
weights: {init: {seed: 0}}
graph: {logits: {op: linear, in: x, units: 3}}
outputs: [logits]
train:
  loss: mean(softmax_cross_entropy(logits, label))
  metrics: {accuracy: mean(argmax(logits, axis=-1) == label)}
  optimizer: {adamw: {lr: 1e-3, betas: [0.9, 0.999]}}
  wrt: ["logits.*"]
"""
    assert model(tmp_path, text, training=True).name == "model"
    with pytest.raises(UnsupportedError, match="XL5030"):  # whoever builds it means the model
        model(tmp_path, text)


def test_precision(tmp_path: Path) -> None:
    assert (
        model(
            tmp_path, "inputs: {x: 'f32[3]'}\ngraph: {y: x + 1}\noutputs: [y]\nprecision: fast\n"
        ).precision
        == "fast"
    )
