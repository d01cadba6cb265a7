"""Attention as people and exporters write it, and what only looks like it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

B, H, T, S, W = 2, 6, 5, 7, 4
F32, F16, BOOL = DType.F32, DType.F16, DType.BOOL
LOWEST = float(np.finfo(np.float32).min)
Form = Callable[[], Node]


def p(name: str, *shape: Dim, dtype: DType = F32) -> Node:
    return build.param(name, dtype, shape)


def inputs(dtype: DType = F32) -> tuple[Node, Node, Node]:
    return (
        p("q", B, H, T, W, dtype=dtype),
        p("k", B, H, S, W, dtype=dtype),
        p("v", B, H, S, W, dtype=dtype),
    )


def product(x: Node, y: Node) -> Node:
    return build.apply1("matmul", x, y)


def turned(x: Node) -> Node:
    rank = x.type.rank
    return build.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def softmax(x: Node, axis: int = -1) -> Node:
    return build.apply1("softmax", x, axis=axis)


def by_hand(scores: Node) -> Node:
    """Softmax from its parts, keeping dimensions."""
    powers = build.exp(build.sub(scores, build.reduce(scores, "max", -1, True)))
    return build.div(powers, build.reduce(powers, "add", -1, True))


def simple(
    mask: Callable[[Node], Node] = lambda s: s, weights: Callable[[Node], Node] = softmax
) -> Node:
    q, k, v = inputs()
    return product(weights(mask(build.div(product(q, turned(k)), math.sqrt(W)))), v)


def causal(gap: int = S - T) -> Node:
    return build.compare(build.iota((T, S), 1), "le", build.add(build.iota((T, S), 0), gap))


def table(gap: int = S - T) -> Node:
    """The same as a constant."""
    return build.constant(np.tri(T, S, gap, dtype=bool)[None, None])


def einsum(equation: str, *operands: Node) -> Node:
    return build.apply1("einsum", *operands, equation=equation)


def sequence_first() -> Node:
    q, k, v = p("q", B, T, H, W), p("k", B, S, H, W), p("v", B, S, H, W)
    return einsum("bhts,bshw->bthw", softmax(einsum("bthw,bshw->bhts", q, k)), v)


def weights_last() -> Node:
    """The weights are the right operand of both products."""
    q, k, v = inputs()
    scores = einsum("bhsw,bhtw->bhst", k, q)
    return einsum("bhsw,bhst->bhwt", v, softmax(scores, axis=2))


def repeated_heads() -> Node:
    q, k, v = p("q", B, 6, T, W), p("k", B, 2, S, W), p("v", B, 2, S, W)
    k, v = (
        build.reshape(
            build.broadcast_to(build.reshape(x, (B, 2, 1, S, W)), (B, 2, 3, S, W)), (B, 6, S, W)
        )
        for x in (k, v)
    )
    return product(softmax(build.add(product(q, turned(k)), p("m", B, 1, 1, S))), v)


def grouped_heads() -> Node:
    q, k, v = p("q", B, 2, 3, T, W), p("k", B, 2, S, W), p("v", B, 2, S, W)
    scores = build.select(
        build.broadcast_to(causal(), (B, 2, 3, T, S)), einsum("bkgtw,bksw->bkgts", q, k), LOWEST
    )
    return einsum("bkgts,bksw->btkgw", softmax(scores), v)


def shared_keys() -> Node:
    q, k, v = p("q", B, H, T, W), p("k", B, S, W), p("v", B, S, W)
    return einsum("bhts,bsw->bhtw", softmax(einsum("bhtw,bsw->bhts", q, k)), v)


def merged_batch() -> Node:
    """As torch.bmm has it: heads belong to the batch, except where the mask is."""
    q, k, v = p("q", B * H, T, W), p("k", B * H, S, W), p("v", B * H, S, W)
    scores = build.add(build.reshape(product(q, turned(k)), (B, H, T, S)), p("m", B, 1, T, S))
    return product(build.reshape(softmax(scores), (B * H, T, S)), v)


def one_head() -> Node:
    q, k, v = p("q", T, W), p("k", S, W), p("v", S, 3)
    return product(softmax(product(q, turned(k))), v)


def learned_queries() -> Node:
    q, k, v = p("q", H, T, W), p("k", B, H, S, W), p("v", B, H, S, W)
    return product(softmax(product(build.broadcast_to(q, (B, H, T, W)), turned(k))), v)


def with_cache() -> Node:
    q, new, v, past, values = (
        p(n, B, H, s, W) for n, s in (("q", 1), ("k", 1), ("v", 1), ("past", 6), ("values", 6))
    )
    keys, values = build.concat((past, new), 2), build.concat((values, v), 2)
    return product(softmax(build.mul(product(q, turned(keys)), 0.5)), values)


def halves(narrow: bool) -> Node:
    """Scores in f32; weights rounded, or also what is in between."""
    q, k, v = inputs(F16)
    scores = build.dot(q, k, ((3,), (3,)), ((0, 1), (0, 1)), None if narrow else F32)
    return build.dot(build.cast(softmax(scores), F16), v, ((3,), (2,)), ((0, 1), (0, 1)))


def hidden(seen: Node, value: float) -> Callable[[Node], Node]:
    return lambda scores: build.select(build.broadcast_to(seen, scores.shape), scores, value)


SAID: dict[str, tuple[Form, dict[str, object]]] = {
    "scores over a root": (simple, {"scale": 0.5}),
    "softmax from its parts": (lambda: simple(weights=by_hand), {"scale": 0.5}),
    "no scale": (sequence_first, {"scale": 1.0}),
    "weights on the right": (weights_last, {}),
    "an added mask": (
        lambda: simple(lambda s: build.add(p("m", B, 1, 1, S), s)),
        {"causal": False},
    ),
    "a subtracted penalty": (lambda: simple(lambda s: build.sub(s, build.mul(p("m", S), 9.0))), {}),
    "a mask of choices": (
        lambda: simple(hidden(p("m", B, 1, T, S, dtype=BOOL), -1e4)),
        {"hidden": -1e4},
    ),
    "nothing to see": (
        lambda: simple(hidden(p("m", B, 1, 1, S, dtype=BOOL), -math.inf)),
        {"hidden": -math.inf},
    ),
    "two masks": (
        lambda: simple(
            lambda s: hidden(causal(), LOWEST)(hidden(p("m", T, S, dtype=BOOL), LOWEST)(s))
        ),
        {"causal": True},
    ),
    "a mask before causality": (
        lambda: simple(lambda s: hidden(causal(), LOWEST)(build.add(s, p("m", H, T, S)))),
        {"causal": True, "hidden": None},
    ),
    "causality compared": (
        lambda: simple(hidden(causal(), LOWEST)),
        {"causal": True, "hidden": None},
    ),
    "causality tabled": (
        lambda: simple(hidden(table(), -math.inf)),
        {"causal": True, "hidden": -math.inf},
    ),
    "another diagonal": (lambda: simple(hidden(causal(0), LOWEST)), {"causal": False}),
    "a table of another diagonal": (lambda: simple(hidden(table(1), LOWEST)), {"causal": False}),
    "hidden keys that count": (
        lambda: simple(hidden(causal(), -2.0)),
        {"causal": False, "hidden": -2.0},
    ),
    "repeated heads": (repeated_heads, {}),
    "grouped heads": (grouped_heads, {"causal": True}),
    "one head of keys": (shared_keys, {}),
    "heads in the batch": (merged_batch, {}),
    "one head": (one_head, {}),
    "learned queries": (learned_queries, {}),
    "a cache": (with_cache, {"scale": 0.5}),
    "halves": (lambda: halves(narrow=False), {}),
}


def read_twice(what: str) -> Node:
    q, k, v = inputs()
    scores = product(q, turned(k))
    weights = softmax(scores)
    other = {"scores": scores, "weights": weights, "largest": build.reduce(scores, "max", -1)}[what]
    return build.add(build.reduce(product(weights, v), "add"), build.reduce(other, "add"))


KEPT: dict[str, Form] = {
    "scores are read": lambda: read_twice("scores"),
    "weights are read": lambda: read_twice("weights"),
    "the largest is read": lambda: read_twice("largest"),
    "softmax over queries": lambda: product(
        softmax(product(inputs()[0], turned(inputs()[1])), 2), inputs()[2]
    ),
    "no largest subtracted": lambda: simple(
        weights=lambda s: build.div((e := build.exp(s)), build.reduce(e, "add", -1, True))
    ),
    "softmax is scaled": lambda: simple(weights=lambda s: build.mul(softmax(s), 2.0)),
    "a scale of data": lambda: simple(lambda s: build.mul(s, p("m", 1))),
    "masks that add twice": lambda: simple(
        lambda s: build.add(build.add(s, p("m", T, S)), p("n", S))
    ),
    "a mask after causality": lambda: simple(
        lambda s: build.add(hidden(causal(), LOWEST)(s), p("m", S))
    ),
    "two hidden scores": lambda: simple(
        lambda s: hidden(causal(), LOWEST)(hidden(p("m", S, dtype=BOOL), -9.0)(s))
    ),
    "a scale after the mask": lambda: simple(lambda s: build.mul(build.add(s, p("m", S)), 0.5)),
    "halves in between": lambda: halves(narrow=True),
}
