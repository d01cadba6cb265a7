"""Products: without transposes, several by one matrix at once, of the parts of a concatenation."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from pass_graphs import counts, graph, weight, x

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor.leaf import Param
from xlac.passes.canonicalize_dots import CanonicalizeDotsPass
from xlac.passes.merge_dots_sharing_rhs import MergeDotsSharingRhsPass
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac.passes.split_matmul_over_concat import SplitMatmulOverConcatPass
from xlac_sdk.dtypes import DType


def test_dots_need_no_transposes_and_merge_axes() -> None:
    q, k = x(2, 4, 6, 5), x(2, 4, 7, 5, name="k")
    g = graph(build.dot(q, build.transpose(k, (0, 1, 3, 2)), ((3,), (2,)), ((0, 1), (0, 1))))
    after = CanonicalizeDotsPass().run(g, Trace(), PassContext())
    assert counts(after) == {"param": 2, "reshape": 3, "dot": 1}
    (dot,) = (n for n in after.nodes() if n.op.mnemonic == "dot")
    assert [i.shape for i in dot.inputs] == [(8, 6, 5), (8, 7, 5)]


def test_reshapes_cancel_between_dots() -> None:
    hidden = build.exp(build.dot(x(2, 3, 4), weight("a", 4, 5), ((2,), (0,))))
    g = CanonicalizeDotsPass().run(
        graph(build.dot(hidden, weight("b", 5, 6), ((2,), (0,)))), Trace(), PassContext()
    )
    assert counts(g)["reshape"] == 2, "one before the first, one after the last"


WIDE = 100  # of a matrix that half the first cache of a target without facts does not hold


def row_times(value: Node, w: Node) -> Node:
    return build.dot(value, w, ((0,), (0,)))


def test_products_by_one_matrix_are_made_at_once() -> None:
    """A layer of an unrolled recurrence: what its inputs give needs no other step, what its own
    state gives does.
    """
    w, r = weight("w", WIDE, WIDE), weight("r", WIDE, WIDE)
    h, states = x(WIDE, name="h"), []
    for step in range(4):
        h = build.apply("tanh", build.add(row_times(x(WIDE, name=f"x{step}"), w), row_times(h, r)))
        states.append(h)
    g = graph(*states)
    found = MergeDotsSharingRhsPass().run(g, Trace(), PassContext())
    assert counts(g)["dot"] == 8 and counts(found)["dot"] == 5
    rng = np.random.default_rng(0)
    feeds = {
        p.op.name: rng.standard_normal(WIDE).astype(np.float32)
        for p in g.inputs
        if isinstance(p.op, Param)
    }
    weights = {name: (rng.standard_normal((WIDE, WIDE)) / 10).astype(np.float32) for name in "wr"}
    for y, wanted in interpret(g, feeds, weights).items():
        np.testing.assert_allclose(
            interpret(found, feeds, weights)[y], wanted, rtol=1e-5, atol=1e-6
        )


def test_products_of_levels_that_need_each_other_are_made_level_by_level() -> None:
    """Two values through two layers that share their weights; merging across layers would be a
    cycle.
    """
    w = weight("w", WIDE, WIDE)
    first = [row_times(x(WIDE, name=name), w) for name in "ab"]
    found = MergeDotsSharingRhsPass().run(
        graph(*(row_times(value, w) for value in first)), Trace(), PassContext()
    )
    assert counts(found)["dot"] == 2
    assert [n.inputs[0].shape for n in found.nodes() if isinstance(n.op, Dot)] == [
        (2, WIDE),
        (2, WIDE),
    ]


def test_products_whose_merging_would_be_a_cycle_stay() -> None:
    """What one product by v needs comes from w, what one by w needs from v: at most one of the
    pairs is merged.
    """
    v, w = weight("v", WIDE, WIDE), weight("w", WIDE, WIDE)
    one, other = row_times(x(WIDE, name="a"), v), row_times(x(WIDE, name="b"), w)
    found = MergeDotsSharingRhsPass().run(
        graph(row_times(one, w), row_times(other, v)), Trace(), PassContext()
    )
    assert counts(found)["dot"] == 3


def test_small_matrices_and_many_rows_stay() -> None:
    small, large = weight("s", 8, 8), weight("w", WIDE, WIDE)
    for g in (
        graph(*(row_times(x(8, name=n), small) for n in "ab")),
        graph(*(build.dot(x(9, WIDE, name=n), large, ((1,), (0,))) for n in "ab")),
        graph(row_times(x(WIDE), large)),
    ):
        assert MergeDotsSharingRhsPass().run(g, Trace(), PassContext()) is g


HEADS, PAST, WIDTH = 2, 300, 64


def same(g: Graph, found: Graph) -> None:
    """Both compute the same."""
    rng = np.random.default_rng(0)
    feeds = {
        p.op.name: rng.standard_normal(p.shape).astype(np.float32)
        for p in g.inputs
        if isinstance(p.op, Param)
    }
    for y, wanted in interpret(g, feeds, {}).items():
        np.testing.assert_allclose(interpret(found, feeds, {})[y], wanted, rtol=1e-5, atol=1e-5)


def put_together(name: str) -> Node:
    """What was there, one more row and another three, a unit taken out."""
    parts = [x(1, HEADS, n, WIDTH, name=f"{name}{n}") for n in (PAST, 1, 3)]
    return build.reshape(build.concat(parts, 2), (HEADS, PAST + 4, WIDTH))


def test_products_of_few_rows_read_the_parts_of_a_concatenation() -> None:
    """Scores with keys, which are columns, and sums over values."""
    scores = build.dot(x(HEADS, 1, WIDTH), put_together("k"), ((2,), (2,)), ((0,), (0,)))
    sums = build.dot(x(HEADS, 1, PAST + 4, name="w"), put_together("v"), ((2,), (1,)), ((0,), (0,)))
    g = graph(scores, sums)
    found = SplitMatmulOverConcatPass().run(g, Trace(), PassContext())
    assert counts(found) == Counter(param=8, reshape=6, dot=6, concat=1, slice=3, add=2)
    same(g, found)


@pytest.mark.parametrize("rows", [1, 9])
def test_a_concatenation_that_is_needed_is_written(rows: int) -> None:
    """As a result, or because many rows read it."""
    keys = put_together("k")
    scores = build.dot(x(HEADS, rows, WIDTH), keys, ((2,), (2,)), ((0,), (0,)))
    g = graph(scores, keys) if rows == 1 else graph(scores)
    assert SplitMatmulOverConcatPass().run(g, Trace(), PassContext()) is g


def test_parts_of_halves_are_not_rounded_one_by_one() -> None:
    values = build.concat([x(n, WIDTH, dtype=DType.F16, name=f"v{n}") for n in (PAST, 1)], 0)
    g = graph(build.dot(x(PAST + 1, dtype=DType.F16), values, ((0,), (0,))))
    assert SplitMatmulOverConcatPass().run(g, Trace(), PassContext()) is g
