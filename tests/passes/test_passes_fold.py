"""Equal nodes are merged, and what is constant is computed while compiling."""

from __future__ import annotations

import numpy as np
from pass_graphs import Untouched, counts, graph, weight, x

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control import control
from xlac.ops.control.effect import Barrier
from xlac.ops.tensor.leaf import Param
from xlac.passes.cse import CsePass
from xlac.passes.fold import FoldPass
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac.passes.weights import Weights
from xlac_sdk.dtypes import DType


def test_cse_merges_equal_nodes_but_no_barriers() -> None:
    a = x(3)
    g = graph(build.add(build.exp(a), build.exp(a)))
    assert counts(CsePass().run(g, Trace(), PassContext()))["exp"] == 1
    held = graph(build.add(Node.of(Barrier(), a), Node.of(Barrier(), a)))
    assert CsePass().run(held, Trace(), PassContext()) is held


def test_constants_fold_when_small() -> None:
    a = build.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    g = FoldPass().run(graph(build.mul(x(2, 3), build.exp(a))), Trace(), PassContext())
    assert counts(g) == {"param": 1, "const": 1, "mul": 1}


def test_constants_do_not_grow() -> None:
    a, b = (
        build.constant(np.arange(300, dtype=np.float32)),
        build.constant(np.arange(300, dtype=np.float32) + 1),
    )
    outer = build.mul(build.spread(a, (300, 300), (0,)), build.spread(b, (300, 300), (1,)))
    g = graph(build.add(x(300, 300), outer))
    assert FoldPass().run(g, Trace(), PassContext()) is g


def test_long_sums_of_constants_are_not_computed_at_compile_time() -> None:
    rows = build.constant(np.ones((64, 1), np.float32))
    a, b = (build.spread(rows, (64, n), (0, 1)) for n in (1 << 18, 1 << 18))
    g = graph(build.add(x(64, 64), build.dot(a, b, ((1,), (1,)))))
    assert FoldPass(work=1 << 40, operations=1 << 20).run(g, Trace(), PassContext()) is g


def test_loops_are_not_run_at_compile_time() -> None:
    types = [Type(DType.I32)]
    cond = build.graph("c", types, lambda i: build.compare(i, "lt", 10**6))
    body = build.graph("b", types, lambda i: build.add(i, 1))
    g = graph(Node.of(control.While(cond, body), build.constant(0)))
    assert FoldPass().run(g, Trace(), PassContext()) is g


def test_weight_expressions_become_derived_weights_unread() -> None:
    weights = Weights(Untouched())
    product = build.mul(weight("w", 4, 3), build.spread(weight("s", 4), (4, 3), (0,)))
    g = FoldPass().run(
        graph(build.dot(x(5, 3), product, ((1,), (1,)))), Trace(), PassContext(weights=weights)
    )
    assert counts(g) == {"param": 2, "dot": 1}
    assert "w~1" in weights


def test_halves_of_weights_stay_halves_until_something_is_computed() -> None:
    wide = build.compute(build.param("b", DType.BF16, (4,), "weight"))
    g = graph(build.add(x(4), wide))
    assert FoldPass().run(g, Trace(), PassContext(weights=Weights(Untouched()))) is g
    g = FoldPass().run(
        graph(build.add(x(4), build.exp(wide))), Trace(), PassContext(weights=Weights(Untouched()))
    )
    assert counts(g) == {"param": 2, "add": 1}


def test_derived_weights_are_computed_once_in_float64() -> None:
    third = np.full((1000,), 1 / 3, np.float32)
    weights = Weights({"w": third})
    total = weight("w", 1000)
    for _ in range(30):
        total = build.mul(total, np.float32(1.1))
    derived = weights.derive(total)
    assert isinstance(derived.op, Param)
    exact = (third.astype(np.float64) * np.float64(np.float32(1.1)) ** 30).astype(np.float32)
    assert np.array_equal(weights[derived.op.name], exact)
    assert weights[derived.op.name] is weights[derived.op.name]


def test_integers_that_are_widened_to_64_bits_stay_narrow() -> None:
    stored = build.constant(np.arange(4, dtype=np.int32))
    wide = build.cast(stored, DType.I64)
    g = graph(build.mul(build.cast(build.param("a", DType.I32, (4,)), DType.I64), wide))
    assert FoldPass().run(g, Trace(), PassContext()) is g
    one = build.cast(build.constant(np.int32(3)), DType.I64)
    assert "cast" not in counts(FoldPass().run(graph(one), Trace(), PassContext()))
