"""What xlac writes loads again: expanded specs as equal graphs, formatted as equal documents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from alike import equal
from shipped import MODELS

from xlac.cli import status
from xlac.exporters.spec import text as expand
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS
from xlac.ir.text import show
from xlac.spec.elaborate.operations import STRUCTURAL
from xlac.spec.load import load
from xlac.spec.schema.json_schema import json_schema
from xlac.spec.text.composer import compose
from xlac.spec.text.format import canonical

SPECS = Path(__file__).parents[2] / "specs"
SHIPPED = MODELS
TRICKY = """\
xlac: 1
model: "tricky: {{ name }}"
doc: "quotes ' and \\" # and: colons"
dims: {B: {min: 2, max: 8, multiple_of: 2}, T: {max: 64}}
weights: {init: {seed: 0}}
inputs: {x: "f32[B, 8]", "a b": "f32[3]", flag: "bool[]", i: "i32[]"}
state: {kept: {type: "f32[3]", next: kept + 1}}
blocks:
  b: {inputs: [v], graph: {h: {op: linear, in: v, units: 8}, "p, q": "split(h, parts=2, axis=-1)"},
      outputs: {o: h, p: p}}
graph:
  s: {block: b, in: x, repeat: 2}
  w: {op: weight, type: "f32[8, 8]"}
  shared1: {op: linear, in: x, units: 8, weight: w, bias: false}
  shared2: {op: linear, in: s, units: 8, weight: w}
  rev: s.1.p[::-1, 1:-1]
  c: {op: constant, value: [[.inf, -.inf, .nan], [1, 2, 1e-40]], dtype: f32}
  half: cast(c, dtype=bf16)
  z: zeros([B, 2]) + 1
  n: select(flag, x, -x)
  e: linear(x, units=3) + 1
  one: {scan: {r: e}, carry: {h: 0.0},
        body: {m: {op: linear, in: r, units: 1, bias: false}, t: sum(m) + h}, next: {h: t}}
  l:
    while: k < i
    carry: {k: 0, v: shared2}
    body: {m: {op: linear, in: v, units: 8}}
    next: {k: k + 1, v: tanh(m)}
  d: {cond: flag, then: {body: {t: {op: linear, in: x, units: 8}}, outputs: {a: t, b: x}},
      else: {outputs: {a: x, b: l.v}}}
  sc:
    scan: {r: shared1}
    carry: {h: {init: "zeros([8])", copies: 2}}
    body: {g: h.0 + h.1 + r}
    next: {h: h}
    stack: {y: g}
outputs: {"out 1": rev, c: c, half: half, z: z, n: n, l: l.v,
          a: d.a, b: d.b, y: sc.y, one: one.h, e: e, same: "a b"}
"""


def expanded(file: Path, folder: Path) -> None:
    found = load(file, weights=False)
    text = expand(found)
    again = folder / "expanded.yaml"
    again.write_text(text)
    loaded = load(again, weights=False)
    equal(found.graph, loaded.graph)
    assert found.dims == loaded.dims and found.state == loaded.state and found.doc == loaded.doc
    assert expand(loaded) == text, "expanding twice changes nothing more"
    assert show(found.graph, arrays=False) == show(loaded.graph, arrays=False)


@pytest.mark.parametrize("file", SHIPPED, ids=lambda p: p.stem)
@pytest.mark.sampled(2)
def test_expanded_specs_load_to_an_equal_graph(file: Path, tmp_path: Path) -> None:
    expanded(file, tmp_path)


def test_expanded_tricky_spec(tmp_path: Path) -> None:
    file = tmp_path / "tricky.yaml"
    file.write_text(TRICKY)
    expanded(file, tmp_path)


def test_expanded_custom_op(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text("")
    file = tmp_path / "m.yaml"
    file.write_text(
        'xlac: 1\ninputs: {x: "f32[4]"}\nops: {twice: {inputs: {a: "f32[*S]"}, outputs: {b: '
        '"f32[*S]"}, params: {k: 1.0}, expr: {b: a * $k + a}, kernels: {c: k.c}}}\n'
        "graph: {y: 'twice(x, k=3) * 2'}\noutputs: [y]\n"
    )
    assert status(["expand", str(file), "-o", str(tmp_path / "again.yaml")]) == 0
    again = load(tmp_path / "again.yaml")
    equal(load(file).graph, again.graph)
    np.testing.assert_array_equal(
        interpret(again.graph, {"x": np.ones(4, np.float32)})["y"], [8, 8, 8, 8]
    )


# ---- fmt -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", SHIPPED, ids=lambda p: p.stem)
@pytest.mark.sampled(2)
def test_formatting_keeps_meaning_and_comments(file: Path) -> None:
    text = file.read_text()
    made = canonical(file, text)
    assert compose(file, made).root.plain() == compose(file, text).root.plain()
    assert canonical(file, made) == made
    comments = [line.split(" # ", 1)[1].strip() for line in text.splitlines() if " # " in line]
    assert all(comment in made for comment in comments)


def test_canonical_form(golden: object) -> None:
    text = """\
# about the file

outputs:   [probs]   # the result
graph:
    # the first layer
    h1:   {units: $hidden,   in: image, op: linear}    # wide
    a1:     relu(h1) # and its
    m: {in: [softmax(x, axis=1), y], op: concat}


    long:
      units: 3
      op: linear
      in: x
      # behind it
model: 'digits'
xlac:    1
doc: |
  # not a comment
    indented
inputs: {x: "f32[B, 3]"}
"""
    golden.check("spec/canonical.yaml", canonical(Path("spec.yaml"), text))  # type: ignore[attr-defined]


def test_fmt_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("model: m\nxlac: 1\ngraph: {y: 'relu(x)'}\n")
    assert status(["fmt", "--check", str(file)]) == 1
    assert status(["fmt", "--diff", str(file)]) == 1
    assert "+xlac: 1" in capsys.readouterr().out
    assert file.read_text().startswith("model")
    assert status(["fmt", str(file)]) == 0
    assert file.read_text().startswith("xlac: 1\nmodel: m\n")
    assert status(["fmt", "--check", str(file)]) == 0
    file.write_text("a: 1\na: 2\n")
    assert status(["fmt", str(file)]) == 2
    assert file.read_text() == "a: 1\na: 2\n" and list(tmp_path.iterdir()) == [file]


# ---- schema and check ------------------------------------------------------------------------


def test_schema_knows_every_operation(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["schema", str(SPECS / "custom_op.yaml")]) == 0
    found = json.loads(capsys.readouterr().out)
    node = found["$defs"]["OpNode"]
    names = node["properties"]["op"]["anyOf"][0]["enum"]
    assert "fast_gelu" in names and "weight" in names and "scan" not in names
    assert set(names) >= {n for n in OPS if n not in STRUCTURAL}
    cases = {case["if"]["properties"]["op"]["const"]: case["then"] for case in node["allOf"]}
    assert cases["softmax"]["properties"]["axis"]["default"] == -1
    assert cases["softmax"]["additionalProperties"] is False
    assert {"units", "weight", "bias"} <= {
        *cases["linear"]["properties"]
    } and "spline" not in cases["linear"]["properties"]
    assert found["required"] == ["xlac"]


def test_schema_references_resolve() -> None:
    text = json.dumps(json_schema())
    known = json.loads(text)["$defs"]
    used = {part.split('"')[0] for part in text.split('"#/$defs/')[1:]}
    assert used <= set(known)


def test_check_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["check", str(SPECS / "digits.yaml"), "--dim", "batch=4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["totals"]["parameters"] == 64 * 128 + 128 + 128 * 10 + 10
    assert found["inputs"] == {"image": "f32[4, 64]"} and not found["dims"]
    rows = {row["node"]: row for row in found["nodes"]}
    assert rows["h1"]["flops"] == 2 * 4 * 64 * 128 + 4 * 128
    assert rows["h1"]["parameters"] == 64 * 128 + 128
    assert rows["h1"]["bytes"] == 4 * (4 * 64 + 64 * 128 + 128 + 4 * 128)
    assert found["totals"]["peak_bytes"] == 4 * (4 * 128 * 2)
    assert status(["check", str(SPECS / "digits.yaml")]) == 0
    out = capsys.readouterr().out
    assert "h1" in out and "9,610" in out


def test_check_reports_every_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["check", str(SPECS / "broken" / "many.yaml")]) == 2
    assert capsys.readouterr().err.count("error:") == 9
