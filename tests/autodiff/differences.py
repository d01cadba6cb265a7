"""Derivatives beside differences: a graph's change along a direction, computed three ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
STEP = 1e-6


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
    params: Sequence[Node], outputs: Sequence[Node], values: Mapping[str, Array], seed: int = 0, tolerance: float = 2e-6
) -> None:  # fmt: skip
    """Asserts that the change forwards, its transpose and differences in f64 agree."""
    wrt = [p for p in params if p.type.dtype.is_float]
    outputs = [o for o in outputs if o.type.dtype.is_float]
    assert wrt and outputs
    found = linearize(outputs, wrt)
    weights = [build.param(f"w{n}", o.type.dtype, o.shape) for n, o in enumerate(outputs)]
    back = found.transposed(list(weights))
    rng = np.random.default_rng(seed)
    names = [p.op.name for p in wrt]  # type: ignore[attr-defined]
    t = {f"t{n}": rng.normal(size=values[name].shape) for n, name in enumerate(names)}
    w = {f"w{n}": rng.normal(size=tuple(o.shape)) for n, o in enumerate(outputs)}  # type: ignore[arg-type]

    forwards = evaluated([*params, *found.sources], found.changes, {**values, **t})
    backwards = evaluated([*params, *weights], back, {**values, **w})
    kept = evaluated(params, found.values, values)
    plain = evaluated(params, outputs, values)
    for a, b in zip(kept, plain, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-9)
    up, down = (
        evaluated(params, outputs, {**values, **{name: values[name] + sign * STEP * t[f"t{n}"] for n, name in enumerate(names)}})
        for sign in (1, -1)
    )  # fmt: skip
    for k, (a, u, d) in enumerate(zip(forwards, up, down, strict=True)):
        with np.errstate(all="ignore"):
            difference = (u - d) / (2 * STEP)
        inside = np.isfinite(difference)  # the others lie outside of where the function is defined
        size = np.abs(difference[inside]).max(initial=1.0)
        a = np.broadcast_to(a, u.shape)
        np.testing.assert_allclose(a[inside], difference[inside], tolerance, tolerance * size, err_msg=f"result {k}")  # fmt: skip
    if not all(np.all(np.isfinite(a)) for a in forwards):
        return
    left = sum(float(np.sum(w[f"w{n}"] * a)) for n, a in enumerate(forwards))
    right = sum(float(np.sum(t[f"t{n}"] * b)) for n, b in enumerate(backwards))
    scale = sum(float(np.sum(np.abs(w[f"w{n}"] * a))) for n, a in enumerate(forwards)) + 1
    assert abs(left - right) <= 1e-9 * scale, f"forwards {left}, backwards {right}"
