"""Bodies: what does not change leaves loops, what is dead goes, calls and known branches are
inlined.
"""

from __future__ import annotations

import numpy as np
import pytest
from pass_graphs import F32, counts, graph, weight, x

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control import control
from xlac.ops.tensor.leaf import Param
from xlac.passes.capture import captured
from xlac.passes.control.dce import DcePass
from xlac.passes.control.hoist_loop_invariants import HoistLoopInvariantsPass
from xlac.passes.control.inline import InlinePass
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.dtypes import DType


def test_a_body_reads_a_weight_under_another_shape_for_itself() -> None:
    """So that schedules may pack it while compiling, as outside of a loop."""
    h, m = x(4, name="h"), x(4, 4, name="m")
    body = Graph("step", (h, m), {"h": build.dot(h, m, ((0,), (0,)))})
    loop = Node.of(control.Scan(body, 3, 1, 0), x(4), build.reshape(weight("w", 1, 16), (4, 4)))
    (found,) = [n for n in captured(graph(loop)).nodes() if isinstance(n.op, control.Scan)]
    assert len(found.inputs) == 1 and found.op.body is not None
    assert [n.op.name for n in found.op.body.nodes() if isinstance(n.op, Param)] == ["h", "w"]


def recurrent(length: int = 6) -> Graph:
    """h = exp(min(h + x[t] @ w, 0)) with w made in the loop."""

    def step(h: Node, s: Node, w: Node) -> tuple[Node, Node]:
        shared = build.sqrt(build.mul(w, w))
        new = build.exp(build.minimum(build.add(h, build.dot(s, shared, ((0,), (0,)))), 0.0))
        return new, new

    body = build.graph("step", [Type(F32, (3,)), Type(F32, (4,)), Type(F32, (4, 3))], step)
    scan = Node.of(
        control.Scan(body, length, 1, 1), x(3, name="h"), x(length, 4), x(4, 3, name="w")
    )
    return graph(build.pick(scan, 1))


def test_scan_projects_all_its_inputs_at_once() -> None:
    g = recurrent()
    after = DcePass().run(
        HoistLoopInvariantsPass().run(g, Trace(), PassContext()), Trace(), PassContext()
    )
    scan = next(n for n in after.nodes() if n.op.mnemonic == "scan")
    (body,) = scan.op.bodies()
    assert "dot" not in counts(body) and "sqrt" not in counts(body)
    dot = next(n for n in after.nodes() if n.op.mnemonic == "dot")
    assert dot.shape == (6, 3)
    assert len(body.inputs) == 2, "the carry and its projected slice"
    given = {
        n: np.random.default_rng(3).normal(size=s).astype(np.float32)
        for n, s in (("h", 3), ("x", (6, 4)), ("w", (4, 3)))
    }
    assert np.allclose(interpret(g, given)["y0"], interpret(after, given)["y0"], rtol=1e-5)


def test_invariants_leave_a_while() -> None:
    types = [Type(DType.I32), Type(F32, (3,)), Type(F32, (3,))]
    cond = build.graph("c", types, lambda i, total, w: build.compare(i, "lt", 3))
    body = build.graph(
        "b", types, lambda i, total, w: (build.add(i, 1), build.add(total, build.exp(w)), w)
    )
    loop = Node.of(control.While(cond, body), build.constant(0), x(3), x(3, name="w"))
    g = graph(build.pick(loop, 1))
    after = DcePass().run(
        HoistLoopInvariantsPass().run(g, Trace(), PassContext()), Trace(), PassContext()
    )
    assert counts(after)["exp"] == 1
    inner = next(n for n in after.nodes() if n.op.mnemonic == "while").op.bodies()[1]
    assert "exp" not in counts(inner) and len(inner.inputs) == 3, "w itself is not carried any more"
    given = {"x": np.zeros(3, np.float32), "w": np.ones(3, np.float32)}
    assert np.allclose(interpret(after, given)["y0"], 3 * np.e)


def test_a_carry_that_never_changes_is_shared() -> None:
    body = build.graph("b", [Type(F32, (3,)), Type(F32, (3,))], lambda h, w: (build.add(h, w), w))
    scan = Node.of(control.Scan(body, 4, 2, 0), x(3), x(3, name="w"))
    after = HoistLoopInvariantsPass().run(
        graph(build.pick(scan, 0), build.pick(scan, 1)), Trace(), PassContext()
    )
    assert next(n for n in after.nodes() if isinstance(n.op, control.Scan)).op.carries == 1  # type: ignore[attr-defined]
    assert after.outputs["y1"].op.mnemonic == "param"


def test_dead_results_and_operands_go() -> None:
    branches = tuple(
        build.graph(
            f"b{k}", [Type(F32, (3,))] * 2, lambda a, b, k=k: (build.mul(a, float(k)), build.exp(b))
        )
        for k in (1, 2)
    )
    cond = Node.of(control.Cond(branches), x(dtype=DType.I32, name="i"), x(3), x(3, name="unused"))
    after = DcePass().run(graph(build.pick(cond, 0)), Trace(), PassContext())
    found = next(n for n in after.nodes() if isinstance(n.op, control.Cond))
    assert len(found.inputs) == 2 and len(found.results) == 1 and "pick" not in counts(after)


def test_dead_carries_go_and_those_that_feed_others_stay() -> None:
    types = [Type(DType.I32), Type(F32), Type(F32), Type(F32)]
    cond = build.graph("c", types, lambda i, a, b, dead: build.compare(i, "lt", 3))
    body = build.graph(
        "b",
        types,
        lambda i, a, b, dead: (
            build.add(i, 1),
            build.add(a, b),
            build.mul(b, 2.0),
            build.exp(dead),
        ),
    )
    first = [build.constant(v, F32) for v in (0.0, 1.0, 5.0)]
    loop = Node.of(control.While(cond, body), build.constant(0), *first)
    after = DcePass().run(graph(build.pick(loop, 1)), Trace(), PassContext())
    found = next(n for n in after.nodes() if isinstance(n.op, control.While))
    assert len(found.results) == 3
    assert interpret(after, {})["y0"] == 7


def test_calls_are_inlined_with_all_their_results() -> None:
    body = build.graph(
        "f", [Type(F32, (3,)), Type(F32, (3,))], lambda a, b: (build.add(a, b), build.exp(b))
    )
    call = Node.of(control.Call(body, "f"), x(3), x(3, name="z"))
    g = graph(build.pick(call, 0), build.pick(call, 1))
    after = InlinePass().run(g, Trace(), PassContext())
    assert counts(after) == {"param": 2, "add": 1, "exp": 1}


@pytest.mark.parametrize(("index", "expected"), [(0, 1.0), (1, 2.0), (7, 2.0), (-1, 2.0)])
def test_a_known_branch_is_taken(index: int, expected: float) -> None:
    branches = tuple(
        build.graph(f"b{k}", [Type(F32)], lambda a, k=k: build.add(a, float(k))) for k in (1, 2)
    )
    g = graph(Node.of(control.Cond(branches), build.constant(index), build.constant(0.0, F32)))
    after = InlinePass().run(g, Trace(), PassContext())
    assert "cond" not in counts(after) and interpret(after, {})["y0"] == expected


@pytest.mark.parametrize("length", [0, 1])
def test_scans_of_no_step_and_one(length: int) -> None:
    body = build.graph(
        "b",
        [Type(F32, (2,)), Type(F32, (2,)), Type(F32)],
        lambda h, s, k: (build.add(h, s), build.mul(s, k)),
    )
    scan = Node.of(control.Scan(body, length, 1, 1), x(2, name="h"), x(length, 2), x(name="k"))
    g = graph(build.pick(scan, 0), build.pick(scan, 1))
    after = InlinePass().run(g, Trace(), PassContext())
    assert "scan" not in counts(after)
    given = {
        "h": np.ones(2, np.float32),
        "x": np.full((length, 2), 3, np.float32),
        "k": np.array(2, np.float32),
    }
    before, now = interpret(g, given), interpret(after, {n: given[n] for n in given})
    assert all(np.array_equal(before[name], now[name]) for name in before)
