"""`xlac verify` finds shipped specs right, and names the first node that differs, with its line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.codegen import kernel_dedup
from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions
from xlac.debug.verify.subject import VerifiedProgram
from xlac.debug.verify.taps import Tapped
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.fusion.group import Group, Kind
from xlac.passes import simplify
from xlac.passes.rewrite.pattern import x, y
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.kernel import Apply, Expr, Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.rewrite import KernelRewriter
from xlac_sdk.source import SourceError
from xlac_sdk.target import Request, Target

SPECS = Path(__file__).parents[2] / "specs"
SMALL = {
    "digits": {},
    "mlp_small": {},
    "branch_cond": {},
    "loop_scan": {},
    "loop_while": {},
    "custom_op": {},
    "lstm_stream": {},
    "tagger": {},
    "mul_add_reduce": {},
    "bert_layer": {"sequence": 8},
}
SPEC = """xlac: 1
model: small
inputs: {x: "f32[3, 40]"}
graph:
  scale: sqrt(abs(x))
  total: sum(scale, axis=1)
  root: exp(-total)
  y: root * 2.0 - tanh(total)
outputs: [y]
"""


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SMALL)
def test_shipped_specs_are_right(name: str) -> None:
    dims = SMALL[name]
    found = xlac.verify(SPECS / f"{name}.yaml", dims=dims, allow_kernels=False)
    assert found.right, found.text()
    judged = [v for v in found.values if v.against == "its inputs"]
    assert judged, "no group was judged"
    if name != "loop_while":  # rounding may decide how often it goes round
        assert all(np.isfinite(v.deviation.bound) for v in judged if v.draw == "random")


def test_taps_leave_kernels_and_results_as_they_are() -> None:
    model = specialized(load(SPECS / "bert_layer.yaml", dims={"sequence": 8}))
    backend = find("cpu")
    program = VerifiedProgram.of(model, backend.target(Request()), backend)
    assert isinstance(program.taps, Tapped)
    kernels = program.lowered.program.kernels
    assert all(a is b for a, b in zip(kernels, program.taps.program.kernels, strict=True))
    assert program.taps.program.arena_bytes == program.lowered.program.arena_bytes
    groups = [g for g in program.lowered.partition.groups if g.kind is not Kind.ELEMENTWISE]
    assert {n for g in groups for n in g.outputs} <= set(program.taps.after)


def spoiled(kernel: Kernel) -> Kernel:
    """The kernel with a square root in the place of every exp."""

    def visit(node: Expr) -> Expr:
        wrong = isinstance(node, Apply) and node.primitive is Primitive.EXP
        return replace(node, primitive=Primitive.SQRT) if wrong else node  # type: ignore[type-var]

    return replace(kernel, body=KernelRewriter(visit).block(kernel.body))


@pytest.fixture
def wrong_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels take a square root where they should exp."""

    def lowered(group: Group, target: Target, name: str, decisions: Decisions) -> LoweredGroup:
        made = lower(group, target, name, decisions)
        launches = tuple(replace(one, kernel=spoiled(one.kernel)) for one in made.launches)
        return replace(made, launches=launches)

    monkeypatch.setattr(kernel_dedup, "lower", lowered)


def test_a_wrong_kernel_is_named_with_its_line(
    tmp_path: Path, wrong_kernels: None, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, report, junit = (tmp_path / n for n in ("small.yaml", "r.json", "r.xml"))
    spec.write_text(SPEC, "utf-8")
    options = ["--draw", "random", "--json", str(report), "--junit", str(junit)]
    assert status(["verify", str(spec), *options]) == 1
    said = capsys.readouterr().out
    assert "WRONG" in said and "small.yaml:5,6,7,8" in said
    made = json.loads(report.read_text("utf-8"))
    assert made["verdict"] == "wrong"
    wrong = [v for v in made["values"] if v["verdict"] == "wrong"]
    assert any(v["against"] == "its inputs" and "small.yaml:5,6,7,8" in v["lines"] for v in wrong)
    suite = ElementTree.parse(junit).getroot()
    assert int(suite.get("failures", "0")) == len(suite.findall("testcase/failure")) > 0


def test_a_right_program_has_exit_code_0(tmp_path: Path) -> None:
    spec, junit = tmp_path / "small.yaml", tmp_path / "r.xml"
    spec.write_text(SPEC, "utf-8")
    assert status(["verify", str(spec), "--junit", str(junit)]) == 0
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("failures") == "0" and int(suite.get("tests", "0")) > 6


def test_given_inputs_are_used(tmp_path: Path) -> None:
    spec = tmp_path / "small.yaml"
    spec.write_text(SPEC, "utf-8")
    np.savez(tmp_path / "mine.npz", x=np.full((3, 40), 2, np.float32))
    assert status(["verify", str(spec), "--inputs", str(tmp_path / "mine.npz")]) == 0
    found = xlac.verify(spec, inputs={"x": np.full((3, 40), np.inf, np.float32)})
    assert found.right and {v.draw for v in found.values} == {"given"}


def test_transforms_of_infinities_are_no_alarm(tmp_path: Path) -> None:
    """What docs/SPEC.md does not define is not judged: NumPy has infinities there, stages NaN."""
    spec = tmp_path / "spectrum.yaml"
    spec.write_text(
        "xlac: 1\nmodel: spectrum\ninputs: {x: 'f32[3, 40]'}\n"
        "graph: {'r, i': rfft(x), y: exp(r)}\noutputs: [y, r, i]\n",
        "utf-8",
    )
    x = np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    x[0, 7], x[2, 5] = np.inf, np.nan
    assert xlac.verify(spec, inputs={"x": x}).right


def test_mistakes_are_told() -> None:
    with pytest.raises(SourceError, match="engine"):
        xlac.verify(SPECS / "mul_add_reduce.yaml", against=["onnxrun"], draws=["zeros"])
    with pytest.raises(SourceError, match="draw"):
        xlac.verify(SPECS / "mul_add_reduce.yaml", draws=["huge"])
    with pytest.raises(SourceError, match="no input 'q'"):
        xlac.verify(SPECS / "mul_add_reduce.yaml", inputs={"q": np.zeros(3, np.float32)})


@pytest.mark.parametrize("engine", ["onnxruntime", "jax"])
def test_other_engines_agree(engine: str) -> None:
    pytest.importorskip(engine)
    found = xlac.verify(SPECS / "digits.yaml", against=["reference", engine], draws=["random"])
    assert found.right, found.text()
    assert any(v.against == engine and v.deviation.right for v in found.values), found.text()


# ---- artefacts, rewrites one by one, the worst inputs, the smallest spec -------------------------


def test_an_artefact_against_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, other = tmp_path / "small.yaml", tmp_path / "other.yaml"
    spec.write_text(SPEC, "utf-8")
    other.write_text(SPEC.replace("root * 2.0", "root * 2.001"), "utf-8")
    assert status(["build", str(spec), "-o", str(tmp_path / "out")]) == 0
    assert status(["verify", str(tmp_path / "out"), "--against", str(spec)]) == 0
    capsys.readouterr()
    # sums near 0, or else both are the same -1
    np.savez(tmp_path / "near.npz", x=np.full((3, 40), 1e-6, np.float32))
    given = ["--inputs", str(tmp_path / "near.npz")]
    assert status(["verify", str(tmp_path / "out"), "--against", str(other), *given]) == 1
    assert "the artefact computes something else" in capsys.readouterr().out
    other.write_text(SPEC.replace("[3, 40]", "[3, 41]"), "utf-8")
    assert status(["verify", str(tmp_path / "out"), "--against", str(other)]) == 2
    assert "another type or size" in capsys.readouterr().err
    assert status(["verify", str(tmp_path / "out")]) == 2
    assert "--against model.yaml" in capsys.readouterr().err


def test_each_rewrite_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tmp_path / "small.yaml"
    spec.write_text("xlac: 1\ninputs: {a: 'f32[6]', b: 'f32[6]'}\noutputs: {c: exp(a - b) * 1.0}\n")
    fine = xlac.verify(spec, draws=["random"], each=True)
    assert fine.right and any("rewrites was checked" in note for note in fine.notes)
    wrong = (x - y >> y + x).on({DType.F32})
    monkeypatch.setattr(simplify, "RULES", (*simplify.RULES, wrong))
    found = xlac.verify(spec, draws=["random"], each=True)
    assert any(
        cause.startswith("random: rewrite") and "(x - y) >> (y + x)" in cause
        for cause in found.causes
    ), found.text()


def test_the_worst_inputs_are_searched_for(tmp_path: Path) -> None:
    spec = tmp_path / "small.yaml"
    spec.write_text(SPEC, "utf-8")
    found = xlac.verify(spec, draws=["random"], search=20)
    assert found.right and "searched" in {v.draw for v in found.values}
    by = {v.draw: v.deviation.share for v in found.values if v.against == "its inputs"}
    assert 0 < by["random"] <= by["searched"] <= 1


def test_the_smallest_spec_is_written(
    tmp_path: Path, wrong_kernels: None, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, small = tmp_path / "small.yaml", tmp_path / "least"
    spec.write_text(SPEC, "utf-8")
    assert status(["verify", str(spec), "--draw", "random", "--smallest", str(small)]) == 1
    text = small.with_suffix(".yaml").read_text("utf-8")
    assert "exp" in text and "tanh" not in text and "sqrt" not in text
    given = ["--inputs", str(small.with_suffix(".npz"))]
    assert status(["verify", str(small.with_suffix(".yaml")), *given]) == 1
    assert status(["reduce", str(spec)]) == 1
    assert capsys.readouterr().out.rpartition("smallest")[2].count("xlac: 1") == 1
