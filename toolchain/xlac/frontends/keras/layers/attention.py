"""Attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.masks import as_bool, both, column
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


def _mask(call: LayerCall, query: Node, value: Node, key: Node) -> Node | None:
    """Which keys each query may attend to: (batch, 1, queries, keys). The arguments are tensors as
    the layer was called with them, which have masks.
    """
    masks: list[Node] = []
    asked = call.kwargs.get("attention_mask")
    if isinstance(asked, Node):
        mask = as_bool(asked)
        if mask.type.rank == 3:
            mask = build.reshape(mask, (mask.shape[0], 1, *mask.shape[1:]))
        masks.append(mask)
    for name, x in (("query_mask", query), ("value_mask", value), ("key_mask", key)):
        held = _mask_of(call, name, x)
        if held is None:
            continue
        if held.type.rank != 2:
            call.fail(f"{name} is (batch, time), got {held.type}")
        batch, time = held.shape
        queries, keys = (time, 1) if name == "query_mask" else (1, time)
        masks.append(build.reshape(held, (batch, 1, queries, keys)))
    if call.kwargs.get("use_causal_mask"):
        masks.append(_causal(query.shape[1], key.shape[1]))
    return both("and", masks) if masks else None


def _mask_of(call: LayerCall, name: str, x: Node) -> Node | None:
    """The mask of an argument: the one given beside it, else its own. MultiHeadAttention takes the
    query's own alone, as Keras does.
    """
    asked, own = call.kwargs.get(name), call.importer.masks.of(x)
    if isinstance(asked, Node) and (name, call.layer.kind) != ("query_mask", "MultiHeadAttention"):
        return as_bool(asked)
    has_key = len(call.inputs) > 2 or isinstance(call.kwargs.get("key"), Node)
    return own if name != "key_mask" or has_key else None


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
    given = _arguments(call)
    query, value, key = (call.floats(x) for x in given)
    bias = call.flag("use_bias", True)
    q = _projected(call, query, "query", heads, key_width, bias)
    k = _projected(call, key, "key", kv_heads, key_width, bias)
    v = _projected(call, value, "value", kv_heads, width, bias)
    mask = _mask(call, *given)
    if call.layer.kind == "MultiHeadAttention":
        for x in given:
            call.importer.masks.set(x, None)
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
    of_query, of_value = (*call.masks, None, None)[:2]
    masks = []
    if of_value is not None:
        masks.append(build.reshape(of_value, (of_value.shape[0], 1, *of_value.shape[1:])))
    if call.kwargs.get("use_causal_mask"):
        seen = _causal(query.shape[1], key.shape[1])
        masks.append(build.reshape(seen, (1, query.shape[1], key.shape[1])))
    if masks:
        hidden = 65504.0 if scores.type.dtype is DType.F16 else 1e9  # as Keras
        scores = build.select(both("and", masks), scores, build.sub(scores, hidden))
    weights = build.apply1("softmax", scores, axis=-1)
    y = build.dot(weights, value, ((2,), (1,)), ((0,), (0,)))
    return y if of_query is None else build.select(column(of_query, 3), y, build.like(0.0, y))


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
