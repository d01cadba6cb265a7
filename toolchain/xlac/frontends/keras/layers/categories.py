"""Categories: their numbers, counts of them and vectors with 1 at them."""

from __future__ import annotations

import numpy as np

from xlac.frontends.keras.call import LayerCall
from xlac.frontends.keras.registry import layer
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

INTEGERS = {"int32": DType.I32, "int64": DType.I64}
MODES = ("int", "one_hot", "multi_hot", "count")


def encoded(
    call: LayerCall, indices: Node, mode: str, depth: int, dtype: DType, weights: Node | None = None
) -> Node:
    """Indices as an output mode wants them: themselves, a vector with 1 at each, or for each
    example one with 1 at all of them or with how often they occur. Those beyond `depth` count
    nowhere.
    """
    if call.flag("sparse"):
        call.unsupported("sparse results are not supported")
    if mode == "int":
        return build.cast(indices, dtype)
    rank = indices.type.rank
    if not indices.type.dtype.is_integer:
        indices = build.cast(indices, DType.I64)
    if mode == "one_hot" and rank > 1 and indices.shape[-1] == 1:
        indices, rank = build.reshape(indices, indices.shape[:-1]), rank - 1
    if weights is not None:
        dtype = weights.type.dtype
    each = build.apply1("one_hot", indices, depth=depth, dtype=dtype)
    if mode == "one_hot":
        return each
    if weights is not None:
        each = build.mul(each, build.reshape(weights, (*weights.shape, 1)))
    return build.reduce(each, "max" if mode == "multi_hot" else "add", min(rank - 1, 1))


@layer("CategoryEncoding")
def category_encoding(call: LayerCall) -> Node:
    """Categories, given as integers, as vectors."""
    mode = call.choice("output_mode", (*MODES[1:], "binary"), "multi_hot")
    mode = "multi_hot" if mode == "binary" else mode
    x, weights = call.inputs[0], None
    if "count_weights" in call.kwargs or len(call.inputs) > 1:
        given = call.kwargs.get("count_weights", call.inputs[-1])
        if not isinstance(given, Node) or mode != "count":
            call.fail("count_weights is a tensor, and goes with output_mode 'count'")
        weights = build.cast(given, call.dtype)
    return encoded(call, x, mode, call.integer("num_tokens"), _type_of_vectors(call), weights)


def _type_of_vectors(call: LayerCall) -> DType:
    """The type of a layer's results, which may be one of integers too."""
    return INTEGERS[call.policy] if call.policy in INTEGERS else call.dtype  # noqa: SIM401 - raises


@layer("Discretization")
def discretization(call: LayerCall) -> Node:
    """The number of the bin that contains each element."""
    mode = call.choice("output_mode", MODES, "int")
    bounds = call.get("bin_boundaries")
    if not isinstance(bounds, list) or not bounds:
        call.unsupported("bins that are not in the file are not supported: adapt them, save again")
    edges = build.constant(np.asarray(bounds, np.float32))
    x = build.cast(call.x, DType.F32)
    above = build.compare(build.reshape(x, (*x.shape, 1)), "ge", edges)
    bins = build.reduce(build.cast(above, DType.I32), "add", x.type.rank)
    dtype = DType.I32 if mode == "int" else call.dtype
    return encoded(call, bins, mode, len(bounds) + 1, dtype)


@layer("IntegerLookup")
def integer_lookup(call: LayerCall) -> Node:
    """The place of each integer in a vocabulary, or the integer at each place."""
    mode = call.choice("output_mode", (*MODES, "tf_idf", "tf-idf", "binary"), "int")
    mode = {"binary": "multi_hot", "tf-idf": "tf_idf"}.get(mode, mode)
    unknown = call.integer("num_oov_indices", 1, least=0)
    mask = call.whole("mask_token")
    front = unknown + (1 if mask is not None and mode == "int" else 0)
    vocabulary, given = _vocabulary(call, mask, mode, unknown)
    x = build.cast(call.x, DType.I64)
    if call.flag("invert"):
        return _inverted(call, x, vocabulary, front, mask)
    places = _looked_up(call, x, vocabulary, front, unknown, front - unknown)
    if mask is not None:
        beyond = 0 if mode == "int" else np.iinfo(np.int64).max
        places = build.select(build.compare(x, "eq", mask), build.like(beyond, x), places)
    size = front + len(vocabulary)
    if call.flag("pad_to_max_tokens"):
        size = call.integer("max_tokens", least=size)
    if mode != "tf_idf":
        return encoded(call, places, mode, size, DType.I64)
    counts = build.cast(encoded(call, places, "count", size, DType.I64), DType.F32)
    return build.mul(counts, build.constant(_frequencies(call, size, front, given), DType.F32))


def _vocabulary(
    call: LayerCall, mask: int | None, mode: str, unknown: int
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], bool]:
    """The tokens, of the configuration or of the file beside it, and whether those for masked and
    unknown integers were among them.
    """
    tokens = call.get("vocabulary")
    if tokens is None:
        text = call.store.asset("vocabulary.txt")
        if text is None:
            call.unsupported("its vocabulary is not in the file: give or adapt it, save as .keras")
        try:
            tokens = [int(line) for line in text.splitlines() if line]
        except ValueError as error:
            call.fail(f"its vocabulary holds something that is no integer: {error}"[:200])
    if (
        not isinstance(tokens, list)
        or not tokens
        or not all(isinstance(n, int) and abs(n) < 1 << 63 for n in tokens)
    ):
        call.fail(f"vocabulary is {tokens!r}"[:100] + ", not a list of integers")
    # no more of them than tokens could begin with, however many the configuration says
    others = [call.whole("oov_token")] * min(unknown, len(tokens) + 1)
    special = [mask] * (mask is not None and mode == "int") + others
    leading = bool(special) and tokens[: len(special)] == special
    kept = tokens[len(special) :] if leading else tokens
    if not kept or len(set(kept)) < len(kept):
        call.fail("its vocabulary is empty, or has a token twice")
    return np.asarray(kept, np.int64), leading


def _looked_up(
    call: LayerCall,
    x: Node,
    vocabulary: np.ndarray[tuple[int], np.dtype[np.int64]],
    front: int,
    unknown: int,
    start: int,
) -> Node:
    """The place of each integer, by halving the sorted vocabulary; those that it lacks have the
    places from `start` on, or -1 if there are none.
    """
    if (
        call.choice("oov_method", ("floormod", "farmhash"), "floormod") != "floormod"
        and unknown > 1
    ):
        call.unsupported("oov_method 'farmhash' is not supported", "'floormod' is")
    order = np.argsort(vocabulary)
    ascending = build.constant(vocabulary[order])
    low, step = build.like(0, x), 1 << max(len(order) - 1, 1).bit_length() - 1
    while step:
        above = build.add(low, step)
        inside = build.compare(above, "lt", len(order))
        reached = build.compare(build.take(ascending, above, 0), "le", x)
        low = build.select(build.apply1("and", inside, reached), above, low)
        step //= 2
    found = build.compare(build.take(ascending, low, 0), "eq", x)
    places = build.take(build.constant(order + front), low, 0)
    if unknown == 0:
        other = build.like(-1, x)
    elif unknown == 1:
        other = build.like(start, x)
    else:
        other = build.add(build.apply1("mod", x, unknown), start)
    return build.select(found, places, other)


def _inverted(
    call: LayerCall,
    x: Node,
    vocabulary: np.ndarray[tuple[int], np.dtype[np.int64]],
    front: int,
    mask: int | None,
) -> Node:
    """The integer at each place of the vocabulary."""
    if call.get("output_mode", "int") != "int":
        call.fail("invert goes with output_mode 'int'")
    oov = call.whole("oov_token")
    at = build.sub(x, front)
    inside = build.apply1(
        "and", build.compare(at, "ge", 0), build.compare(at, "lt", len(vocabulary))
    )
    tokens = build.take(build.constant(vocabulary), at, 0)
    tokens = build.select(inside, tokens, build.like(-1 if oov is None else oov, x))
    if mask is None:
        return tokens
    return build.select(build.compare(x, "eq", 0), build.like(mask, x), tokens)


def _frequencies(
    call: LayerCall, size: int, front: int, given: bool
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """The weight of each place: kept in the file, or given to the layer for its vocabulary, whose
    mean then goes for unknown integers.
    """
    kept = call.store.array(0, "idf_weights")
    if kept is None:
        listing = call.get("idf_weights")
        if isinstance(listing, dict):
            listing = listing.get("config", {}).get("value")
        if not isinstance(listing, list) or not listing:
            call.fail("its weight 'idf_weights' is missing")
        weights = np.asarray(listing, np.float64)
        before = 0 if given else front
        kept = np.pad(weights, (before, 0), constant_values=weights.mean())
        kept = np.pad(kept, (0, max(size - len(kept), 0)))
    if kept.shape != (size,):
        call.fail(f"its weight 'idf_weights' has shape {list(kept.shape)}, and should [{size}]")
    return kept.astype(np.float32)
