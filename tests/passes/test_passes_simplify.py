"""Simplification goes through everything, within precision and fuel; halves, empty tensors and
open sizes pass through every pass.
"""

from __future__ import annotations

import numpy as np
import pytest
from pass_graphs import F32, Untouched, counts, graph, softmax_of, weight, x

from xlac.codegen.claims import is_kept
from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ir.interpret import interpret
from xlac.ir.text import parse
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control import control
from xlac.ops.scalar import arithmetic
from xlac.ops.tensor.leaf import Const, Param
from xlac.passes.pipeline import optimize
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac.passes.simplify import SimplifyPass
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target


def test_simplify_goes_through_broadcast_constants_and_bodies() -> None:
    body = build.graph("body", [Type(F32, (3,))], lambda h: build.mul(build.add(h, -0.0), 1.0))
    scan = Node.of(control.Scan(body, 2, 1, 0), x(3))
    g = SimplifyPass().run(graph(scan), Trace(), PassContext())
    inner = next(n for n in g.nodes() if n.op.mnemonic == "scan").op.bodies()[0]
    assert inner.outputs["y0"] is inner.inputs[0]


def test_rounding_rules_wait_for_fast_precision() -> None:
    g = graph(build.sub(x(3), x(3)), build.mul(x(3, name="z"), 0.0))
    one = x(3)
    g = graph(build.sub(one, one))
    assert SimplifyPass().run(g, Trace(), PassContext()) is g
    assert counts(SimplifyPass().run(g, Trace(), PassContext(precision="fast")))["sub"] == 0


def test_fuel_stops_rewriting() -> None:
    g = graph(build.mul(build.mul(x(3), 1.0), 1.0))
    whole = Trace()
    SimplifyPass().run(g, whole, PassContext())
    assert len(whole.fired) == 2
    assert SimplifyPass().run(g, Trace(fuel=0), PassContext()) is g
    assert counts(SimplifyPass().run(g, Trace(fuel=1), PassContext()))["mul"] == 1


def test_a_graph_from_text() -> None:
    g = parse(
        """graph g {
          x = param() name="x" type=<f32[2, 3]> : f32[2, 3]
          %1 = transpose(x) perm=(1, 0) : f32[3, 2]
          %2 = transpose(%1) perm=(1, 0) : f32[2, 3]
          inputs x
          return y=%2
        }
        """
    )
    assert isinstance(SimplifyPass().run(g, Trace(), PassContext()).outputs["y"].op, Param)


def test_halves_keep_their_rounding() -> None:
    a = x(4, dtype=DType.F16)
    rounded = build.mul(build.mul(a, 3.0), 5.0)
    assert counts(SimplifyPass().run(graph(rounded), Trace(), PassContext()))["mul"] == 2
    assert (
        counts(SimplifyPass().run(graph(rounded), Trace(), PassContext(precision="fast")))["mul"]
        == 1
    )
    assert not isinstance(rounded.op, Const | arithmetic.Add)


@pytest.mark.parametrize("dims", [(0, 3), (3, 0)])
def test_empty_tensors_pass_through(dims: tuple[int, int]) -> None:
    g = graph(build.reduce(build.exp(build.transpose(x(*dims))), "add", 0))
    after = optimize(g, Target("t"), weights={}, verify_each=True, is_kept=is_kept)
    given = {"x": np.zeros(dims, np.float32)}
    assert np.array_equal(interpret(g, given)["y0"], interpret(after, given)["y0"])


def test_symbolic_sizes_pass_through() -> None:
    batch = symbol("batch", 1, 64, 8)
    a = build.param("x", F32, (batch, 4, 6))
    value = build.add(
        build.dot(a, weight("w", 5, 6), ((2,), (1,))),
        build.spread(weight("b", 5), (batch, 4, 5), (2,)),
    )
    value = build.transpose(
        softmax_of(build.mul(build.transpose(value, (0, 2, 1)), 1.0)), (0, 2, 1)
    )
    value = build.reshape(build.reduce(value, "max", 2), (batch * 4,))
    after = optimize(
        graph(build.cut(value, 0, 0, batch)),
        Target("t"),
        weights=Untouched(),
        verify_each=True,
        is_kept=is_kept,
    )
    assert after.outputs["y0"].shape == (batch,)
