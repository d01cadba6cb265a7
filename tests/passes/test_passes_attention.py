"""Attention written by hand becomes the operation, where the target takes that and where it
means the same.
"""

from __future__ import annotations

from pathlib import Path

import attention_forms
import numpy as np
import pytest
from attention_forms import (
    BOOL,
    KEPT,
    SAID,
    B,
    S,
    W,
    by_hand,
    einsum,
    grouped_heads,
    halves,
    p,
    product,
    repeated_heads,
    shared_keys,
    simple,
    softmax,
    turned,
)

from xlac.codegen.claims import is_kept
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.ir.dims import static, symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.nn.attention import Attention
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.leaf import Param
from xlac.passes.pipeline import optimize
from xlac.passes.specialize import substituted
from xlac_sdk.target import Target

SPECS = Path(__file__).parents[2] / "specs"
WHOLE, PARTS = Target("whole", claims=frozenset({"attention"})), Target("parts")


def graph(y: Node) -> Graph:
    found = Graph("g", (), {"y": y})
    return Graph("g", tuple(n for n in found.nodes() if isinstance(n.op, Param)), found.outputs)


def told(g: Graph) -> list[Attention]:
    return [node.op for node in g.nodes() if isinstance(node.op, Attention)]


def feeds(g: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    found = {}
    for node in g.inputs:
        assert isinstance(node.op, Param)
        shape, dtype = static(node.shape), node.type.dtype
        drawn = rng.random(shape) < 0.6 if dtype is BOOL else rng.standard_normal(shape)
        found[node.op.name] = drawn.astype(dtype.numpy)
        if dtype is BOOL and node.shape[0] == B:
            found[node.op.name][0, :, 0] = False
    return found


def same(g: Graph, other: Graph, tolerance: float = 1e-12) -> None:
    given = feeds(g)
    wanted, found = (interpret(one, given, {}, float64=True)["y"] for one in (g, other))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", SAID)
def test_what_is_attention_is_said_so_and_means_the_same(name: str) -> None:
    make, attributes = SAID[name]
    g = graph(make())
    found = optimize(g, WHOLE, weights={}, verify_each=True, is_kept=is_kept)
    (op,) = told(found)
    assert {key: getattr(op, key) for key in attributes} == attributes
    assert not any(isinstance(n.op, Reduce) for n in found.nodes())
    same(g, found, 1e-3 if name == "halves" else 1e-12)


@pytest.mark.parametrize("name", SAID)
def test_a_target_of_parts_gets_what_was_written(name: str) -> None:
    seen = []
    optimize(
        graph(SAID[name][0]()),
        PARTS,
        weights={},
        observers=[lambda stage, a, b, _: seen.append(stage == "attention" and a is not b)],
        is_kept=is_kept,
    )
    assert not any(seen)


@pytest.mark.parametrize("name", KEPT)
def test_what_means_something_else_stays(name: str) -> None:
    g = graph(KEPT[name]())
    found = optimize(g, WHOLE, weights={}, verify_each=True, is_kept=is_kept)
    assert not told(found)
    same(g, found, 1e-3 if name == "halves in between" else 1e-12)


def test_fast_precision_leaves_out_the_rounding_of_halves() -> None:
    g = graph(halves(narrow=True))
    found = optimize(g, WHOLE, weights={}, precision="fast", is_kept=is_kept)
    assert told(found)
    same(g, found, 1e-3)
    assert told(
        optimize(
            graph(simple(weights=by_hand)), WHOLE, weights={}, precision="fast", is_kept=is_kept
        )
    )


def test_keys_and_values_are_not_repeated() -> None:
    """Heads that share keys do so in the operation."""
    for form, heads in ((repeated_heads, (6, 2)), (grouped_heads, (6, 2)), (shared_keys, (6, 1))):
        (node,) = [
            n
            for n in optimize(graph(form()), WHOLE, weights={}, is_kept=is_kept).nodes()
            if isinstance(n.op, Attention)
        ]
        assert (node.inputs[0].shape[1], node.inputs[1].shape[1]) == heads
        assert node.inputs[2].shape[1] == heads[1]


def test_open_sizes() -> None:
    batch, time, past = symbol("batch", 1, 4), symbol("time", 1, 9), symbol("past", 1, 9)
    q, k, v = p("q", batch, time, 3, W), p("k", batch, past, 3, W), p("v", batch, past, 3, W)
    scores = build.add(einsum("bthw,bshw->bhts", q, k), p("m", batch, 1, 1, past))
    g = graph(einsum("bhts,bshw->bthw", softmax(scores), v))
    found = optimize(g, WHOLE, weights={}, verify_each=True, is_kept=is_kept)
    assert told(found)
    same(
        substituted(g, {"batch": 2, "time": 3, "past": 4}),
        substituted(found, {"batch": 2, "time": 3, "past": 4}),
    )


@pytest.mark.parametrize("lengths", ["T", "S", "BHW"])
def test_lengths_of_one(lengths: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views leave out axes of length 1, and so may masks that are constants."""
    for length in lengths:
        monkeypatch.setattr(attention_forms, length, 1)
    for make, *_ in (*SAID.values(), *((form,) for form in KEPT.values())):
        g = graph(make())
        same(g, optimize(g, WHOLE, weights={}, is_kept=is_kept), 1e-3)


@pytest.mark.parametrize("name", ["gpt2_decode", "bert_layer"])
@pytest.mark.parametrize("is_open", [False, True])
def test_the_shipped_specs(name: str, is_open: bool) -> None:
    model = load(SPECS / f"{name}.yaml")
    model = model if is_open else specialized(model)
    (node,) = [
        n
        for n in optimize(model.graph, WHOLE, weights=model.weights, is_kept=is_kept).nodes()
        if isinstance(n.op, Attention)
    ]
    assert node.name == {"gpt2_decode": "mixed", "bert_layer": "context"}[name]
    assert not told(optimize(model.graph, PARTS, weights=model.weights, is_kept=is_kept))


def test_bodies_of_loops_are_entered() -> None:
    def step(q: Node, k: Node, v: Node) -> tuple[Node, ...]:
        return product(softmax(product(q, turned(k))), v), k, v

    shapes = [n.type for n in (p("q", 1, 2, 3, W), p("k", 1, 2, S, W), p("v", 1, 2, S, W))]
    body = build.graph("step", shapes, step)
    y = build.apply(
        "scan",
        *(p(n, *t.shape) for n, t in zip("qkv", shapes, strict=True)),
        body=body,
        length=3,
        carries=1,
    )
    found = optimize(graph(y[0] if isinstance(y, tuple) else y), WHOLE, weights={}, is_kept=is_kept)
    assert any(told(b) for n in found.nodes() for b in n.op.bodies())
