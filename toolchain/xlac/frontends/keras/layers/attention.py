"""Attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.registry import layer
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType


def _projected(call: LayerCall, x: Node, side: str, heads: int, width: int, bias: bool) -> Node:
    """x (batch, time, features) times a kernel (features, heads, width): all heads beside one
    another.
    """
    inner = call.child(side, f"{_mark(call)}{side}_dense", lambda name: name == side)
    kernel = inner.weight("kernel", (x.shape[-1], heads, width), _rows)
    learned = [kernel]
    learned += [inner.weight("bias", (heads, width), lambda b: b.reshape(-1))] if bias else []
    return build.apply1("linear", x, *learned, units=heads * width, bias=bias)


def _mark(call: LayerCall) -> str:
    """The prefix of the names of the projections."""
    return "_" if call.layer.kind == "GroupQueryAttention" else ""


def _rows(kernel: Array) -> Array:
    return kernel.reshape(kernel.shape[0], -1).T


def _joined(call: LayerCall, x: Node, heads: int, width: int, bias: bool, units: Dim) -> Node:
    """All heads of x times a kernel (heads, width, units)."""
    known = ("attention_output", "output")
    inner = call.child("output", f"{_mark(call)}output_dense", lambda name: name in known)
    if not isinstance(units, int):
        call.fail("the number of features must be known")
    kernel = inner.weight("kernel", (heads, width, units), lambda k: k.reshape(-1, units).T)
    learned = [kernel]
    learned += [inner.weight("bias", (units,))] if bias else []
    return build.apply1("linear", x, *learned, units=units, bias=bias)


def _arguments(call: LayerCall) -> tuple[Node, Node, Node]:
    """Query, value and key, in Keras's order."""
    named = [call.kwargs.get(name) for name in ("query", "value", "key")]
    given = [*call.inputs, *(n for n in named if isinstance(n, Node))]
    if len(given) not in (2, 3):
        call.fail(f"it takes query, value and key, and is called with {len(given)} tensors")
    query, value, key = (*given, given[1])[:3]
    if any(x.type.rank != 3 for x in (query, value, key)):
        call.unsupported(f"only (batch, time, features) is supported, got {query.type}")
    return query, value, key


def _mask(call: LayerCall, query: Node, key: Node) -> Node | None:
    """Which keys each query may attend to: (batch, 1, queries, keys)."""
    for name in ("query_mask", "value_mask", "key_mask"):
        if call.kwargs.get(name) is not None:
            call.unsupported(f"the argument {name} is not supported", "attention_mask is")
    given = call.kwargs.get("attention_mask")
    mask: Node | None = None
    if isinstance(given, Node):
        mask = given if given.type.dtype is DType.BOOL else build.compare(given, "ne", 0)
        if mask.type.rank == 3:
            mask = build.reshape(mask, (mask.shape[0], 1, *mask.shape[1:]))
    if call.kwargs.get("use_causal_mask"):
        seen = _causal(query.shape[1], key.shape[1])
        mask = seen if mask is None else build.apply1("and", mask, seen)
    return mask


def _causal(queries: Dim, keys: Dim) -> Node:
    """Which keys are not after each query: (1, 1, queries, keys)."""
    shape = (1, 1, queries, keys)
    return build.compare(build.iota(shape, 2), "ge", build.iota(shape, 3))


def _several(call: LayerCall, heads: int, kv_heads: int, key_width: int, width: int) -> Node:
    """Attention with several heads between two projections."""
    if call.kwargs.get("return_attention_scores"):
        call.unsupported("return_attention_scores is not supported")
    for name in ("use_gate", "sliding_window"):
        if call.get(name):
            call.unsupported(f"{name} is not supported")
    query, value, key = (call.floats(x) for x in _arguments(call))
    bias = call.flag("use_bias", True)
    q = _projected(call, query, "query", heads, key_width, bias)
    k = _projected(call, key, "key", kv_heads, key_width, bias)
    v = _projected(call, value, "value", kv_heads, width, bias)
    mask = _mask(call, query, key)
    parts = [
        build.transpose(build.reshape(x, (*x.shape[:2], n, size)), (0, 2, 1, 3))
        for x, n, size in ((q, heads, key_width), (k, kv_heads, key_width), (v, kv_heads, width))
    ]
    y = build.apply1("attention", *parts, *([] if mask is None else [mask]), scale=key_width**-0.5)
    y = build.reshape(build.transpose(y, (0, 2, 1, 3)), (*query.shape[:2], heads * width))
    wanted = call.get("output_shape")
    if isinstance(wanted, list) and len(wanted) == 1:
        (wanted,) = wanted
    if wanted is not None and not isinstance(wanted, int):
        call.unsupported(f"output_shape {wanted!r} is not supported")
    return _joined(call, y, heads, width, bias, query.shape[-1] if wanted is None else wanted)


@layer("MultiHeadAttention")
def multi_head(call: LayerCall) -> Node:
    """Attention of query, value and key."""
    heads, width = call.integer("num_heads"), call.integer("key_dim")
    axes = call.get("attention_axes")
    if axes not in (None, [1], 1, [-2]):
        call.unsupported(f"attention_axes {axes} are not supported")
    return _several(call, heads, heads, width, call.integer("value_dim", width))


@layer("GroupQueryAttention")
def grouped(call: LayerCall) -> Node:
    """Attention in which several queries share a key and a value."""
    heads, shared = call.integer("num_query_heads"), call.integer("num_key_value_heads")
    width = call.integer("head_dim")
    return _several(call, heads, shared, width, width)


def _weighed(call: LayerCall, scores: Node, value: Node, query: Node, key: Node) -> Node:
    """The mean of values, weighted by softmax of scores (batch, queries, keys)."""
    if call.kwargs.get("return_attention_scores"):
        call.unsupported("return_attention_scores is not supported")
    if call.kwargs.get("use_causal_mask"):
        seen = _causal(query.shape[1], key.shape[1])
        seen = build.reshape(seen, (1, query.shape[1], key.shape[1]))
        scores = build.select(seen, scores, build.like(-1e9, scores))
    weights = build.apply1("softmax", scores, axis=-1)
    return build.dot(weights, value, ((2,), (1,)), ((0,), (0,)))


def _scaled(call: LayerCall, shape: Sequence[Dim], name: str = "scale") -> Node:
    return call.weight(name, shape)


@layer("Attention")
def attention(call: LayerCall) -> Node:
    """softmax(query key') value, of [query, value, key]."""
    query, value, key = _arguments(replace(call, kwargs={}))
    mode = call.choice("score_mode", ("dot", "concat"), "dot")
    if mode == "dot":
        scores = build.dot(query, key, ((2,), (2,)), ((0,), (0,)))
        if call.flag("use_scale"):
            scores = build.mul(scores, _scaled(call, ()))
        return _weighed(call, scores, value, query, key)
    sums = _sums(query, key)
    if call.flag("use_scale"):
        sums = build.mul(sums, _scaled(call, ()))
    scores = build.reduce(build.apply1("tanh", sums), "add", 3)
    scores = build.mul(scores, _scaled(call, (), "concat_score_weight"))
    return _weighed(call, scores, value, query, key)


def _sums(query: Node, key: Node) -> Node:
    """Every query plus every key: (batch, queries, keys, features)."""
    batch, queries, features = query.shape
    return build.add(
        build.reshape(query, (batch, queries, 1, features)),
        build.reshape(key, (batch, 1, key.shape[1], features)),
    )


@layer("AdditiveAttention")
def additive(call: LayerCall) -> Node:
    """Attention whose scores are the sums of tanh(query + key), scaled by feature."""
    query, value, key = _arguments(replace(call, kwargs={}))
    parts = build.apply1("tanh", _sums(query, key))
    if call.flag("use_scale", True):
        parts = build.mul(parts, _scaled(call, (query.shape[-1],)))
    return _weighed(call, build.reduce(parts, "add", 3), value, query, key)
