"""Derivatives beside differences: a graph's change along a direction, computed three ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS, Sample
from xlac.ir.verify import verify
from xlac.ops import build
from xlac.ops.sampling import draw
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

Array = NDArray[Any]
STEP, WIDER = 1e-6, (1 + 5**0.5) / 2  # of two steps, and how much the other is wider
DIRECTIONS = 2


def widened(sample: Sample) -> Sample:
    """The sample with every float as f64."""
    types = tuple(t.with_dtype(DType.F64) if t.dtype.is_float else t for t in sample.inputs)
    return replace(sample, inputs=types)


def drawn(sample: Sample, seed: int = 0) -> dict[str, Array]:
    """Values of a sample away from whole numbers, where many functions have corners."""
    rng = np.random.default_rng(seed + 1)
    found = {}
    for number, value in enumerate(draw(sample, seed)):
        if value.dtype == np.float64:
            value = np.asarray(value + rng.uniform(0.01, 0.03, value.shape))
        found[f"x{number}"] = value
    return found


def applied(name: str, sample: Sample) -> tuple[list[Node], tuple[Node, ...]]:
    """Parameters for the operands of a sample, and the operation's results."""
    params = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(sample.inputs)]
    return params, results(Node.of(OPS[name](**sample.attributes), *params))


def evaluated(
    params: Sequence[Node],
    nodes: Sequence[Node | None],
    values: Mapping[str, Array],
    weights: Mapping[str, Array] | None = None,
    float64: bool = False,
) -> list[Array]:
    """The values of nodes over parameters, interpreted; 0 for None."""
    kept = {str(n): node for n, node in enumerate(nodes) if node is not None}
    answers = {}
    if kept:
        graph = Graph("derivative", tuple(params), kept)
        verify(graph)
        with np.errstate(all="ignore"):
            answers = interpret(graph, values, weights, float64)
    return [answers.get(str(n), np.zeros(())) for n in range(len(nodes))]


def compare(
    params: Sequence[Node],
    outputs: Sequence[Node],
    values: Mapping[str, Array],
    seed: int = 0,
    tolerance: float = 2e-6,
) -> None:
    """Asserts that the change forwards, its transpose and differences in f64 agree, in two random
    directions.
    """
    wrt = [p for p in params if p.type.dtype.is_float]
    outputs = [o for o in outputs if o.type.dtype.is_float]
    assert wrt and outputs
    found = linearize(outputs, wrt)
    weights = [build.param(f"w{n}", o.type.dtype, o.shape) for n, o in enumerate(outputs)]
    back = found.transposed(list(weights))
    plain = evaluated(params, outputs, values)
    for a, b in zip(evaluated(params, found.values, values), plain, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-9)
    for rng in (np.random.default_rng((seed, direction)) for direction in range(DIRECTIONS)):
        t = {f"t{n}": rng.normal(size=values[name_of(p)].shape) for n, p in enumerate(wrt)}
        w = {f"w{n}": rng.normal(size=tuple(o.shape)) for n, o in enumerate(outputs)}  # type: ignore[arg-type]
        forwards = evaluated([*params, *found.sources], found.tangents, {**values, **t})
        backwards = evaluated([*params, *weights], back, {**values, **w})
        moves = {name_of(p): t[f"t{n}"] for n, p in enumerate(wrt)}
        differ(lambda v: evaluated(params, outputs, v), values, moves, forwards, tolerance)
        paired(forwards, list(w.values()), backwards, list(t.values()))


def name_of(param: Node) -> str:
    name: str = param.op.name  # type: ignore[attr-defined]
    return name


def differ(
    function: Callable[[Mapping[str, Array]], Sequence[Array]],
    values: Mapping[str, Array],
    moves: Mapping[str, Array],
    changes: Sequence[Array],
    tolerance: float,
) -> None:
    """Asserts that the changes of a function along a direction are those of central differences in
    f64.

    Two steps are taken: together they are exact to the fourth order, and where they differ much
    there is a corner or a pole between, about which they say nothing. That may be so of few
    elements. No ratio of small integers is near that of the steps, so neither is a count of corners
    within them.
    """

    def slopes(step: float) -> list[Array]:
        up, down = (
            function({**values, **{n: values[n] + k * step * t for n, t in moves.items()}})
            for k in (1, -1)
        )
        return [(u - d) / (2 * step) for u, d in zip(up, down, strict=True)]

    with np.errstate(all="ignore"):
        pairs = list(zip(slopes(STEP), slopes(WIDER * STEP), strict=True))
    for k, (change, (near, far)) in enumerate(zip(changes, pairs, strict=True)):
        inside = np.isfinite(near) & np.isfinite(far)  # others lie where there is no function
        near, far, change = (np.broadcast_to(a, inside.shape)[inside] for a in (near, far, change))
        smooth = np.abs(near - far) <= 1e-3 * (1 + np.abs(near))
        assert np.sum(~smooth) <= 0.1 * smooth.size, f"result {k} has corners everywhere"
        slope = ((WIDER**2 * near - far) / (WIDER**2 - 1))[smooth]
        size = np.abs(slope).max(initial=1.0)
        np.testing.assert_allclose(
            change[smooth], slope, tolerance, tolerance * size, err_msg=f"result {k}"
        )


def paired(
    forwards: Sequence[Array],
    weights: Sequence[Array],
    backwards: Sequence[Array],
    moves: Sequence[Array],
) -> None:
    """Asserts that one is the transpose of the other, where all is finite."""
    if not all(np.all(np.isfinite(a)) for a in (*forwards, *backwards)):
        return
    left = sum(float(np.sum(w * a)) for w, a in zip(weights, forwards, strict=True))
    right = sum(float(np.sum(t * b)) for t, b in zip(moves, backwards, strict=True))
    scale = 1 + sum(float(np.sum(np.abs(w * a))) for w, a in zip(weights, forwards, strict=True))
    assert abs(left - right) <= 1e-9 * scale, f"forwards {left}, backwards {right}"
