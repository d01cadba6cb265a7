"""Rewrites that a user may leave out, or ask for where a pass would not make them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pass_graphs import graph, weight, x

from xlac.codegen.schedules.document import Asked, read
from xlac.driver import executable, lower
from xlac.frontends.loader import load
from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Erf
from xlac.ops.scalar.convert import Cast
from xlac.passes.channels_last import ChannelsLastPass
from xlac.passes.merge_dots_sharing_rhs import MergeDotsSharingRhsPass
from xlac.passes.registry import Pass
from xlac.passes.rewrite.choices import RewriteChoices
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac.passes.split_matmul_over_concat import SplitMatmulOverConcatPass
from xlac.passes.tabulate_bytes import TabulateBytesPass
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request, Target


def products() -> Graph:
    w = weight("w", 100, 100)
    return graph(*(build.dot(x(100, name=n), w, ((0,), (0,))) for n in "ab"))


def small_products() -> Graph:
    w = weight("w", 4, 4)
    return graph(*(build.dot(x(20, 4, name=n), w, ((1,), (0,))) for n in "ab"))


def concatenated() -> Graph:
    whole = build.concat([x(64, 200, name="p"), x(64, 150, name="q")], 1)
    return graph(build.dot(x(1, 64), whole, ((1,), (0,))))


def few_concatenated() -> Graph:
    whole = build.concat([x(6, 4, name="p"), x(6, 3, name="q")], 1)
    return graph(build.dot(x(50, 6), whole, ((1,), (0,))))


def convolutions() -> Graph:
    def conv(value: Node, kernel: Node) -> Node:
        ones = (1, 1)
        op = Conv(("NCHW", "OIHW", "NCHW"), ones, ones, (0, 0), ones, ones)
        return Node.of(op, value, kernel)

    first = conv(x(1, 3, 6, 6), weight("k", 4, 3, 3, 3))
    return graph(conv(build.exp(first), weight("m", 2, 4, 3, 3)))


def bytes_() -> Graph:
    long = Node.of(Erf(), Node.of(Erf(), Node.of(Cast(DType.F32), x(90, dtype=DType.U8))))
    return graph(Node.of(Cast(DType.U8), long))


def short_bytes() -> Graph:
    return graph(Node.of(Cast(DType.I8), build.exp(Node.of(Cast(DType.F32), x(9, dtype=DType.U8)))))


CASES: dict[str, tuple[Callable[[], Graph], Pass, bool]] = {
    "merged": (products, MergeDotsSharingRhsPass(), True),
    "apart": (small_products, MergeDotsSharingRhsPass(), False),
    "split": (concatenated, SplitMatmulOverConcatPass(), True),
    "whole": (few_concatenated, SplitMatmulOverConcatPass(), False),
    "channels": (convolutions, ChannelsLastPass(), True),
    "tabulated": (bytes_, TabulateBytesPass(), True),
    "computed": (short_bytes, TabulateBytesPass(), False),
}
"""Graphs, the pass that has a choice, and whether it usually makes the rewrite."""


def run(made: Graph, one: Pass, choices: RewriteChoices) -> Graph:
    facts = Target("generic", device="cpu")
    return one.run(made, Trace(), PassContext(facts, choices=choices))


@pytest.mark.parametrize("name", CASES)
def test_a_rewrite_is_made_or_left_as_asked(name: str) -> None:
    made, one, usual = CASES[name]
    given = made()
    open_choices = RewriteChoices(every=True)
    usually = run(given, one, open_choices)
    found = open_choices.named()
    assert found and all(choice.applied is usual for choice in found.values())
    closed = RewriteChoices()
    assert _text(run(given, one, closed)) == _text(usually)
    assert bool(closed.met) is usual, "what a pass would not do costs nothing when nobody asks"
    values = _values(given)
    for chosen in found:
        asked = RewriteChoices({chosen: not usual})
        other = run(given, one, asked)
        assert _text(other) != _text(usually)
        assert asked.named()[chosen].applied is not usual
        wanted = interpret(given, values, values)
        for output, array in interpret(other, values, values).items():
            np.testing.assert_allclose(array, wanted[output], 1e-5, 1e-5)
        again = RewriteChoices({chosen: usual})
        assert _text(run(given, one, again)) == _text(usually)


def test_equal_places_have_one_name_and_others_another() -> None:
    def names(width: int) -> set[str]:
        choices = RewriteChoices()
        w = weight("w", 100, width)
        run(
            graph(*(build.dot(x(100, name=n), w, ((0,), (0,))) for n in "ab")),
            MergeDotsSharingRhsPass(),
            choices,
        )
        return set(choices.named())

    assert len(names(100)) == 1 and names(100) == names(100) != names(120)


SPEC: dict[str, Any] = {
    "xlac": 1,
    "model": "two_products",
    "inputs": {"a": "f32[20, 8]", "b": "f32[20, 8]", "w": "f32[8, 8]"},
    "graph": {"y": "matmul(a, w)", "z": "matmul(b, w)"},
    "outputs": ["y", "z"],
}


def test_a_document_says_what_is_made(tmp_path: Path) -> None:
    from xlac.debug import decisions

    file, cpu = tmp_path / "two.yaml", find("cpu")
    file.write_text(json.dumps(SPEC))
    model, target = load(file), cpu.target(Request())
    open_ = lower(model, target, wanted=Asked(every_rewrite=True))
    text = decisions.schedules(open_)
    (name,) = open_.choices.named()
    assert f"rewrites:\n  # products by one matrix: y (dot)\n  {name}: left\n" in text
    written = tmp_path / "schedules.yaml"
    written.write_text(text)
    assert read(written).rewrites == {name: False}
    assert len(lower(model, target, wanted=read(written)).program.steps) == 2
    written.write_text(f"rewrites: {{{name}: applied}}\nschedules: {{}}\n")
    merged = lower(model, target, wanted=read(written))
    assert merged.choices.named()[name].applied
    assert len(merged.program.steps) != 2
    rng = np.random.default_rng(0)
    given = {n: rng.standard_normal((20 if n != "w" else 8, 8)).astype("f4") for n in "abw"}
    out = {"y": np.zeros((20, 8), "f4"), "z": np.zeros((20, 8), "f4")}
    executable(merged, cpu).run(given, out)
    np.testing.assert_allclose(out["y"], given["a"] @ given["w"], 1e-5, 1e-5)
    np.testing.assert_allclose(out["z"], given["b"] @ given["w"], 1e-5, 1e-5)


def _text(made: Graph) -> str:
    from xlac.ir.text import show

    return show(made, arrays=False)


def _values(made: Graph) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    found: dict[str, Any] = {}
    for node in made.nodes():
        if node.op.mnemonic == "param":
            kind = node.type.dtype.numpy
            drawn = (
                rng.standard_normal(static(node.shape))
                if node.type.dtype.is_float
                else rng.integers(0, 200, static(node.shape))
            )
            found[node.op.name] = drawn.astype(kind)  # type: ignore[attr-defined]
    return found
