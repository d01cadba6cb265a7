"""Pipelines as text: what prints is parsed again, and what is wrong is told with its place."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xlac
from xlac.cache.compilations import question
from xlac.cli import status
from xlac.codegen.claims import is_kept
from xlac.driver import lower
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ir.verify import GraphError
from xlac.model import Model
from xlac.ops import build
from xlac.options import CompileOptions
from xlac.passes import motion
from xlac.passes.fold import FoldPass
from xlac.passes.motion import MotionPass
from xlac.passes.pipeline import DEFAULT, Pipeline, optimize
from xlac.passes.registry import PASSES, Pass
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.source import SourceError
from xlac_sdk.target import Target

SPEC = str(Path(__file__).parents[2] / "specs" / "digits.yaml")


@st.composite
def passes(draw: Any) -> Pass:
    """A pass with some of its options given."""
    kind = PASSES[draw(st.sampled_from(sorted(PASSES)))]
    options = {f.name: draw(st.integers(0, 1 << 40)) for f in fields(kind) if draw(st.booleans())}
    return kind(**options)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(passes(), max_size=6))
def test_what_prints_is_parsed_again(found: list[Pass]) -> None:
    pipeline = Pipeline.of(found)
    assert Pipeline.parse(str(pipeline)) == pipeline
    spaced = str(pipeline).replace(",", " ,\n").replace("{", " { ").replace("}", " }")
    assert Pipeline.parse(spaced) == pipeline


def test_the_default_pipeline() -> None:
    assert Pipeline.parse(str(DEFAULT)) == DEFAULT
    assert str(DEFAULT) == (
        "simplify,expand,inline,simplify,cse,fold,recognize-attention,recognize-scans,"
        "hoist-loop-invariants,dce,split-matmul-over-concat,motion,partial-sort,channels-last,"
        "canonicalize-dots,"
        "merge-dots-sharing-rhs,fold,simplify,cse,tabulate-bytes,fit-buffers"
    )
    assert len({name for name, _ in DEFAULT.stages}) == len(DEFAULT.stages)


def test_options_in_text() -> None:
    found = Pipeline.parse("motion{limit=3}, fold {small=0 work=7}")
    assert [one for _, one in found.stages] == [MotionPass(limit=3), FoldPass(small=0, work=7)]
    assert str(found) == "motion{limit=3},fold{small=0 work=7}"
    assert str(Pipeline.parse("fold{small=4096}")) == "fold", "defaults are left out"


WRONG = {
    "simplfy,expand": ("XL4101", 1, 7, "there is no pass 'simplfy'", "did you mean 'simplify'?"),
    "expand, motion{lmit=3}": ("XL4102", 16, 4, "no option 'lmit'", "did you mean 'limit'?"),
    "cse{limit=3}": ("XL4102", 5, 5, "cse has no option 'limit'", "cse has no options"),
    "motion{limit=many}": ("XL4102", 14, 4, "a whole number of at least 0, not 'many'", ""),
    "motion{limit=-1}": ("XL4102", 14, 2, "at least 0", ""),
    "motion{limit=1 limit=2}": ("XL4102", 16, 5, "given twice", ""),
    "motion{limit}": ("XL4103", 13, 1, "expected the value of 'limit'", ""),
    "motion{limit=3": ("XL4103", 15, 1, "the brace that closes them", ""),
    "cse fold": ("XL4103", 5, 1, "expected a comma", ""),
    "cse,": ("XL4103", 5, 1, "expected the name of a pass", ""),
    "cse,,fold": ("XL4103", 5, 1, "expected the name of a pass", ""),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told_with_its_place(text: str) -> None:
    code, column, width, message, hint = WRONG[text]
    with pytest.raises(SourceError) as caught:
        Pipeline.parse(text)
    (told,) = caught.value.diagnostics
    assert told.span is not None
    assert (told.code, told.span.column, told.span.width) == (code, column, width)
    assert message in told.message and told.hint == hint
    assert f"{' ' * (column - 1)}{'^' * width}" in str(told)


def moved() -> Graph:
    """A graph that views move in, step by step."""
    x = build.param("x", DType.F32, (3, 4))
    y = build.transpose(build.exp(build.transpose(build.exp(build.transpose(x)))))
    return Graph("moved", (x,), {"y": y})


def test_an_option_is_obeyed() -> None:
    def after(text: str) -> Graph:
        pipeline = Pipeline.parse(text)
        return optimize(moved(), Target("t"), weights={}, pipeline=pipeline, is_kept=is_kept)

    def views(graph: Graph) -> int:
        return sum(node.op.mnemonic == "transpose" for node in graph.nodes())

    assert views(after("motion")) < views(moved())
    assert views(after("motion{limit=0}")) == views(moved())


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Graph:
    """A graph, of which the pass `motion` makes one whose result has another type."""

    def rewrite(graph: Graph, *rest: object) -> Graph:
        (name, node), *_ = graph.outputs.items()
        wrong = Node(node.op, node.inputs, Type(DType.F32, (7,)), node.origin)
        return replace(graph, outputs={name: wrong})

    monkeypatch.setattr(motion, "rewrite", rewrite)
    x = build.param("x", DType.F32, (3,))
    return Graph("one", (x,), {"y": build.exp(x)})


def test_a_pass_that_breaks_the_graph_is_named(broken: Graph) -> None:
    def after(pipeline: Pipeline, verify_each: bool) -> Graph:
        return optimize(
            broken,
            Target("t"),
            weights={},
            pipeline=pipeline,
            verify_each=verify_each,
            is_kept=is_kept,
        )

    with pytest.raises(GraphError, match="pass 'motion' broke the graph: exp in 'one' says"):
        after(DEFAULT, verify_each=True)
    assert after(Pipeline.of([MotionPass()]), verify_each=False).outputs["y"].shape == (7,)


def test_the_environment_asks_for_it_too(broken: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_VERIFY_EACH", "1")
    with pytest.raises(GraphError, match="pass 'motion' broke the graph"):
        lower(Model(broken, {}), Target("t"))


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["inspect", SPEC, "--stage", "passes"]) == 0
    assert capsys.readouterr().out.strip() == str(DEFAULT)
    some = ["--passes", "simplify,expand,cse,cse"]
    assert status(["build", SPEC, *some, "--list-passes"]) == 0
    assert capsys.readouterr().out.split() == ["simplify", "expand", "cse", "cse-2"]
    assert status(["build", SPEC, *some, "--until", "cse-2", "--time-passes", "--verify-each"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[-1].startswith("cse-2") and told[-1].endswith("ms  (unchanged)")
    assert "expand" in told[-3] and not told[-3].endswith("(unchanged)")
    assert status(["build", SPEC, "--passes", "simplify,exand"]) == 2
    assert "passes:1:10: error: there is no pass 'exand' [XL4101]" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_a_pipeline_that_expands_nothing_says_so(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "one.yaml"
    spec.write_text("xlac: 1\ninputs: {x: 'f32[8]'}\ngraph: {y: softmax(x)}\noutputs: [y]\n")
    command = ["build", str(spec), "--target", target, "-o", str(tmp_path / "out"), "--passes"]
    assert status([*command, "simplify,cse"]) == 2
    told = capsys.readouterr().err
    assert "3:12: error: no kernel computes softmax, and no pass expands it [XL4104]" in told
    assert "hint: add `expand` to the passes" in told


def test_compile_takes_a_pipeline_which_is_part_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path))
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    spec = tmp_path / "twice.yaml"
    spec.write_text(
        "xlac: 1\ninputs: {x: 'f32[8]'}\ngraph: {a: exp(x), b: exp(x), y: a + b}\noutputs: [y]\n"
    )
    usual = xlac.compile(spec, "reference")
    other = xlac.compile(spec, "reference", passes="expand", verify_each=True)
    np.testing.assert_array_equal(usual(x=x), other(x=x))
    backend = find("reference")
    keys = {question(spec, backend, CompileOptions(passes=p)) for p in ("", "expand", "cse")}
    assert len(keys) == 3
    with pytest.raises(xlac.SourceError, match="did you mean 'expand'"):
        xlac.compile(spec, "reference", passes="expnd")
