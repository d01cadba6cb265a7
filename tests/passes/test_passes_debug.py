"""The developer's tools: a planted fault is named, and shrunk to what shows it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from click.testing import CliRunner
from graphs import make

from xlac.codegen.claims import is_kept
from xlac.debug.bisect import bisect
from xlac.debug.compare import agree
from xlac.debug.dump import Dump
from xlac.debug.reduce import FailingCase, reduce
from xlac.debug.verify.exact import estimated
from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret
from xlac.ir.text import parse
from xlac.ops import build
from xlac.passes import simplify
from xlac.passes.pipeline import optimize
from xlac.passes.rewrite.pattern import x, y
from xlac.passes.rewrite.trace import Trace
from xlac.passes.weights import Weights
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong rule among all the right ones; it applies once, for its result has no difference in
    it.
    """
    wrong = (x - y >> y + x).on({DType.F32})
    monkeypatch.setattr(simplify, "RULES", (*simplify.RULES, wrong))


def right(case: FailingCase, trace: Trace | None = None) -> bool:
    weights = Weights(case.weights)
    graph = optimize(case.graph, Target("t"), weights=weights, trace=trace, is_kept=is_kept)
    wanted = estimated(case.graph, case.inputs, case.weights)
    found = interpret(graph, case.inputs, weights)
    return all(agree(wanted[name], found[name]) for name in wanted)


def difference() -> FailingCase:
    """A difference in the midst of much else."""
    made = make(Random(5), 12)
    a, b = (build.param(name, DType.F32, (6, 8)) for name in ("a", "b"))
    value = build.transpose(
        build.exp(build.sub(build.mul(a, 1.0), build.reshape(build.reshape(b, (48,)), (6, 8))))
    )
    outputs = {**made.graph.outputs, "wrong": build.add(build.dot(value, value, ((1,), (1,))), 0.0)}
    numbers = np.random.default_rng(0)
    inputs = {
        **made.inputs,
        **{n: numbers.normal(size=(6, 8)).astype(np.float32) for n in ("a", "b")},
    }
    return FailingCase(Graph("case", (*made.graph.inputs, a, b), outputs), inputs, made.weights)


def test_nothing_to_bisect() -> None:
    case = difference()
    assert bisect(lambda trace: right(case, trace)) is None


@pytest.mark.usefixtures("planted")
def test_bisection_names_the_planted_rule() -> None:
    case, attempts = difference(), []

    def attempt(trace: Trace) -> bool:
        attempts.append(trace)
        return right(case, trace)

    culprit = bisect(attempt)
    assert culprit is not None and "simplify: (x - y) >> (y + x)" in culprit.rewrite
    assert len(attempts) <= 3 + culprit.of.bit_length(), "it halves"


def test_a_fault_without_rewrites_is_told_apart() -> None:
    culprit = bisect(lambda trace: False)
    assert culprit is not None and not culprit.number and "the graph as loaded" in str(culprit)


@pytest.mark.usefixtures("planted")
def test_reduction_leaves_what_shows_the_fault() -> None:
    told: list[str] = []
    small = reduce(difference(), lambda case: not right(case), told.append)
    assert not right(small)
    operations = [n.op.mnemonic for n in small.graph.nodes() if n.inputs]
    assert operations == ["sub"] and told
    assert all(array.size <= 2 for array in small.inputs.values())


def test_dumps_are_graphs_that_parse(tmp_path: Path) -> None:
    case = make(Random(7), 10)
    optimize(
        case.graph,
        Target("t"),
        weights=Weights(case.weights),
        observers=[Dump(tmp_path)],
        is_kept=is_kept,
    )
    files = sorted(tmp_path.glob("*.graph"))
    assert files[0].name == "00-loaded.graph" and len(files) > 1
    for file in files:
        parse(file.read_text(encoding="utf-8"))
    assert "(unchanged)" in (tmp_path / "passes.txt").read_text(encoding="utf-8")


def test_the_commands_say_when_all_is_well() -> None:
    from xlac.cli import root

    for verb in ("bisect", "reduce"):
        result = CliRunner().invoke(
            root, [verb, str(SPECS / "softmax.yaml"), "--target", "reference"]
        )
        assert result.exit_code == 0, result.output
        assert "agrees with the interpreter" in result.output
