"""Error propagation through operations that move, select, order and repeat elements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from xlac.debug.errors.approximation import LEAST_EXPONENT, Approximation, exact
from xlac.ir.dims import static
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, attributes
from xlac.ops.error_bounds import FUNCTIONS, unit_roundoff

Inputs = Sequence[Approximation]

MOVED: dict[str, int | None] = {
    **dict.fromkeys(
        ("reshape", "broadcast", "transpose", "slice", "gather", "dyn_slice", "barrier"), 1
    ),
    "pad": 2,
    "dyn_update": 2,
    "concat": None,
}
"""Operations that only move elements, and how many of their first operands they move (None: all);
further operands are indices.
"""

CHOSEN = frozenset({"max", "min"})
"""Combinations whose result is one of the elements: its error is at most the largest of theirs."""


def moved(node: Node, inputs: Inputs) -> Array | None:
    """The errors, moved as the elements are; infinite where an index has an error."""
    count = MOVED[node.op.mnemonic]
    data = inputs if count is None else inputs[:count]
    places = () if count is None else inputs[count:]
    if not exact(places):
        return _gathered(node, *inputs) if node.op.mnemonic == "gather" else _anything(node)
    if exact(data):
        return None
    return _evaluated(node, [*(i.bound for i in data), *(i.value for i in places)])


MOST_COMPONENTS = 3  # components of an index up to which all neighbours are looked at


def _gathered(node: Node, x: Approximation, places: Approximation) -> Array:
    """For a gather whose indices may each be off by one: the largest difference to a neighbour."""
    axis = attributes(node.op)["index_vector_dim"]
    indices = places.value if axis < places.value.ndim else places.value[..., None]
    room = places.bound.reshape(indices.shape)
    count = indices.shape[axis]
    if count > MOST_COMPONENTS or bool((room > 1).any()):
        return _anything(node)
    here = _evaluated(node, [x.value, places.value])
    error = np.zeros(here.shape)
    shape = [count if a == axis else 1 for a in range(indices.ndim)]
    for signs in product((-1, 0, 1), repeat=count):
        step = np.asarray(signs).reshape(shape) * np.ceil(room).astype(np.int64)
        moved_to = (indices + step).astype(indices.dtype).reshape(places.value.shape)
        with np.errstate(all="ignore"):
            there = _evaluated(node, [x.value, moved_to])
            apart = np.where(there == here, 0.0, np.abs(there - here))
        error = np.maximum(error, apart + _evaluated(node, [x.bound, moved_to]))
    return error


def combined(node: Node, inputs: Inputs, value: Array, at: Sequence[int]) -> Array | None:
    """For `reduce`, `window`, `cumulative` and `scatter` with any combination but a sum of
    floats.
    """
    if exact(inputs) and (attributes(node.op)["combine"] != "mul" or value.dtype.kind != "f"):
        return None
    combine = attributes(node.op)["combine"]
    given = [i.value for i in inputs]
    if combine in CHOSEN or (combine in ("and", "or", "xor") and value.dtype == bool):
        errors = [inputs[n].bound for n in at]
        # the identity of min is infinity: the maximum is computed as a minimum of negated errors
        if combine == "min":
            errors = [-e for e in errors]
        if combine in CHOSEN:
            for n, e in zip(at, errors, strict=True):
                given[n] = e
            error = np.abs(_evaluated(node, given))
            return np.where(np.isfinite(error) | _infinite(inputs, at), error, 0.0)
        return np.full(value.shape, float(any(bool(e.any()) for e in errors)))
    if combine == "mul":
        sizes = list(given)
        for n in at:
            sizes[n] = np.abs(given[n].astype(np.float64)) + inputs[n].bound
        most = _evaluated(node, sizes)
        factors = sum(given[n].size for n in at)  # an upper bound
        dtype = node.type.dtype
        lost = 2.0 ** LEAST_EXPONENT[dtype.compute] * np.maximum(most, 1)
        rounded = factors * (2 * unit_roundoff(dtype) * most + lost)
        if exact([inputs[n] for n in at]):
            return np.asarray(rounded)
        return np.asarray(most - np.abs(value) + rounded)
    return _anything(node)


def _infinite(inputs: Inputs, at: Sequence[int]) -> bool:
    return any(bool(np.isinf(inputs[n].bound).any()) for n in at)


def sorted_values(node: Node, inputs: Inputs, values: Sequence[Array]) -> tuple[Array | None, ...]:
    """The error of a sorted key is at most the largest in its line; values that are sorted along
    with keys that may change places can be any element of the line.
    """
    op = attributes(node.op)
    if exact(inputs):
        return (None,) * len(values)
    if op["body"] is not None:
        return tuple(np.full(v.shape, np.inf) for v in values)
    axis, keys = op["axis"], op["keys"]
    unsettled = np.zeros((1,) * values[0].ndim, bool)
    for key in inputs[:keys]:
        worst = key.bound.max(axis=axis, keepdims=True, initial=0.0)
        if key.error is None:
            continue
        with np.errstate(all="ignore"):
            steps = np.diff(np.sort(key.value.astype(np.float64), axis=axis), axis=axis)
            near = (steps <= 2 * worst).any(axis=axis, keepdims=True)
        unsettled = unsettled | (near & (worst > 0))
    errors: list[Array | None] = []
    for number, (x, value) in enumerate(zip(inputs, values, strict=True)):
        worst = x.bound.max(axis=axis, keepdims=True, initial=0.0)
        if number >= keys or keys > 1:
            wide = x.value.astype(np.float64)
            if wide.shape[axis]:
                with np.errstate(all="ignore"):
                    span = wide.max(axis, keepdims=True) - wide.min(axis, keepdims=True)
                worst = worst + np.where(unsettled, span, 0.0)
        errors.append(np.array(np.broadcast_to(worst, value.shape)))
    return tuple(errors)


def _evaluated(node: Node, arrays: Sequence[Array]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(node.op.evaluate(*arrays), np.float64)


def _anything(node: Node) -> Array:
    return np.full(static(node.type.shape), np.inf)


def unknown(node: Node, inputs: Inputs, values: Sequence[Array]) -> tuple[Array | None, ...]:
    """For an operation without a rule: exact operands give an exact result where nothing inside
    rounds, otherwise the error is infinite.
    """
    if exact(inputs) and not any(_rounds(body) for body in node.op.bodies()):
        return (None,) * len(values)
    return tuple(np.full(v.shape, np.inf) for v in values)


def _rounds(body: Graph) -> bool:
    """Whether an operation inside may round."""
    for node in body.nodes():
        floats = any(t.dtype.is_float for t in node.results)
        if floats and (node.op.mnemonic in (*FUNCTIONS, "dot", "conv") or node.op.bodies()):
            return True
    return False
