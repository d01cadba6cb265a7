"""Expansion: what becomes primitives, and what schedules or kernels take whole."""

from __future__ import annotations

import pytest
from pass_graphs import F32, counts, graph, softmax_of, x

from xlac.codegen import claims
from xlac.codegen.claims import kind_taken
from xlac.fusion.group import Kind
from xlac.fusion.partition import partition
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control import control
from xlac.passes.expand import ExpandPass
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac_sdk.target import Target


def test_expansion_keeps_the_origin() -> None:
    g = ExpandPass().run(graph(softmax_of(x(3, 4))), Trace(), PassContext())
    assert "softmax" not in counts(g)
    assert all(node.name == "probabilities" for node in g.nodes() if node.inputs)


def test_a_claimed_composite_keeps_its_name() -> None:
    g = graph(softmax_of(x(3, 4)))
    assert (
        ExpandPass().run(g, Trace(), PassContext(Target("t", claims=frozenset({"softmax"})))) is g
    )


def test_what_a_schedule_takes_whole_is_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows_of_eight(node: Node, target: Target) -> bool:
        return target.vector_bytes > 0 and node.shape[-1] == 8

    monkeypatch.setitem(claims.TAKEN, "softmax", (Kind.SORT, rows_of_eight))
    vectors, scalars = Target("t", vector_bytes=64), Target("t")
    eight, nine = (graph(softmax_of(x(4, n))) for n in (8, 9))
    assert ExpandPass().run(eight, Trace(), PassContext(vectors, is_kept=claims.is_kept)) is eight
    assert [g.kind for g in partition(eight, vectors, kind_taken=kind_taken).groups] == [Kind.SORT]
    for g, target in ((nine, vectors), (eight, scalars)):
        assert not counts(
            ExpandPass().run(g, Trace(), PassContext(target, is_kept=claims.is_kept))
        )["softmax"]


def test_expansion_enters_bodies_and_composites_in_composites() -> None:
    body = build.graph("body", [Type(F32, (3,))], lambda h: build.apply("log_softmax", h, axis=0))
    scan = Node.of(control.Scan(body, 2, 1, 0), x(3))
    g = ExpandPass().run(graph(scan), Trace(), PassContext())
    inner = next(n for n in g.nodes() if n.op.mnemonic == "scan").op.bodies()[0]
    assert "log_softmax" not in counts(inner) and "softmax" not in counts(inner)


def test_what_kernels_can_compute_stays() -> None:
    tanh = build.apply("tanh", x(3))
    assert isinstance(tanh, Node)
    assert counts(ExpandPass().run(graph(tanh), Trace(), PassContext()))["tanh"] == 1
