"""Counts n-grams: TfIdfVectorizer (ONNX operator set 9)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from xlac.frontends.limits import check_parts, check_size
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType


@operator("TfIdfVectorizer", since=9)
def tf_idf_vectorizer(call: OperatorCall) -> Node:
    """The count of each n-gram of the pool in each row, or its presence, times its weight."""
    if "pool_strings" in call.attributes:
        call.fail("a pool of text is not supported", "turn the text into numbers before the model")
    x = call[0]
    rows = build.reshape(x, [1, -1]) if x.type.rank == 1 else x
    places = np.asarray(call.attr("ngram_indexes"), np.int64)
    longest, gaps = call.attr("max_gram_length"), call.attr("max_skip_count")
    if not isinstance(rows.shape[1], int) or places.size == 0 or places.min() < 0 or gaps < 0:
        call.fail("the number of tokens in a row, and the places of what is counted, must be known")
    counts = []
    for width, pool in enumerate(_pools(call), 1):
        wanted = call.attr("min_gram_length") <= width <= longest and pool.size
        gap = range(gaps + 1 if width > 1 else 1) if wanted else ()
        if wanted and width > 1:  # skips larger than the row match nothing
            gap = range(check_parts(min(gaps + 1, -(-rows.shape[1] // (width - 1)))))
        occurrences = [
            _counted(rows, pool, by + 1) for by in gap if (width - 1) * (by + 1) < rows.shape[1]
        ]
        total = build.full(0, (rows.shape[0], len(pool)), DType.F32)
        for part in occurrences:
            total = build.add(total, part)
        counts.append(total)
    result = _placed(build.concat(counts, 1), places)
    result = _weighed(call, result)
    return build.reshape(result, result.shape[1:]) if x.type.rank == 1 else result


def _weighed(call: OperatorCall, counts: Node) -> Node:
    mode, weights = call.attr("mode"), call.attr("weights", None)
    scale = build.constant(np.asarray(weights or 1, np.float32))
    match mode:
        case "TF":
            return counts
        case "IDF":
            return build.mul(build.cast(build.compare(counts, "gt", 0.0), DType.F32), scale)
        case "TFIDF":
            return build.mul(counts, scale)
    call.fail(f"mode '{mode}' is not TF, IDF or TFIDF")


def _pools(call: OperatorCall) -> list[Array]:
    """The n-grams of each length: arrays (number, n) of tokens."""
    tokens = np.asarray(call.attr("pool_int64s"), np.int64)
    starts = [*call.attr("ngram_counts"), tokens.size]
    return [tokens[a:b].reshape(-1, width) for width, (a, b) in enumerate(pairwise(starts), 1)]


def _counted(rows: Node, pool: Array, by: int) -> Node:
    """The count of each n-gram in each row with tokens `by` apart: (rows, n-grams) as f32."""
    width, length = pool.shape[1], rows.shape[1]
    assert isinstance(length, int)
    fits = length - (width - 1) * by
    hit: Node | None = None
    for token in range(width):
        here = build.reshape(
            build.cut(rows, 1, token * by, token * by + fits), [rows.shape[0], fits, 1]
        )
        same = build.compare(here, "eq", build.constant(pool[:, token], rows.type.dtype))
        hit = same if hit is None else build.apply1("and", hit, same)
    assert hit is not None
    return build.reduce(build.cast(hit, DType.F32), "add", [1])


LISTED = 1 << 28  # bytes of an intermediate


def _placed(counts: Node, places: Array) -> Node:
    """Columns in the order of `ngram_indexes`; columns without an n-gram are 0."""
    known = build.concat([counts, build.full(0, (counts.shape[0], 1), DType.F32)], 1)
    check_size((int(places.max()) + 1, counts.shape[0]), 8, LISTED)
    source = np.full(int(places.max()) + 1, places.size, np.int64)
    source[places] = np.arange(places.size)
    return build.take(known, build.constant(source), 1)
