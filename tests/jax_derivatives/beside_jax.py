"""Derivatives of a function of JAX beside JAX's: imported as `from_jax` does, differentiated by us
and interpreted, all in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from xlac.autodiff.gradient import linearize
from xlac.frontends.jax.lowered import lower
from xlac.ir.graph import Graph, zeros
from xlac.ir.interpret import interpret
from xlac.ops import build
from xlac.ops.tensor.leaf import param

STEP = 1e-6
TOLERANCE, OF_DIFFERENCES = 1e-9, 1e-5


class Nothing(Exception):
    """No float goes in, or none comes out."""


class NotTheirs(Exception):
    """JAX does not differentiate it."""


def compare(
    function: Callable[..., Any], args: Sequence[Any], smooth: bool, second: bool = True
) -> None:
    """The value, its change along a direction, the gradient by a cotangent, and how that changes
    along the direction, are JAX's; of a `smooth` function the change is that of central
    differences, too.

    Raises Nothing where there is nothing to differentiate, NotTheirs where JAX does not do so,
    AssertionError where they differ, and whatever stands in the way.
    """
    given = [np.asarray(a) for a in args]
    wrt = [n for n, a in enumerate(given) if a.dtype == np.float64]
    kept = [n for n, leaf in enumerate(_leaves(function, given)) if leaf.dtype == np.float64]
    if not wrt or not kept:
        raise Nothing

    def real(*moving: Any) -> list[Any]:
        """The results that change, of the arguments that change."""
        known: list[Any] = list(given)
        for n, value in zip(wrt, moving, strict=True):
            known[n] = value
        leaves = jax.tree.leaves(function(*known))
        return [leaves[n] for n in kept]

    rng = np.random.default_rng(len(given))
    primals = [given[n] for n in wrt]
    moves = [rng.normal(size=p.shape) for p in primals]
    shapes = jax.eval_shape(real, *primals)
    cotangents = [rng.normal(size=s.shape) for s in shapes]
    try:
        wanted = jax.jit(_theirs(real, second))(primals, moves, cotangents)
    except Exception as error:  # whatever JAX raises, it is no case of ours
        raise NotTheirs from error
    found = _ours(function, given, wrt, kept, moves, cotangents, second)
    for part, ours in found.items():
        for n, (a, b) in enumerate(zip(ours, wanted[part], strict=True)):
            b = np.asarray(b)
            size = float(np.max(np.abs(b), where=np.isfinite(b), initial=1e-3))
            np.testing.assert_allclose(
                np.broadcast_to(a, b.shape), b, TOLERANCE, TOLERANCE * size, err_msg=f"{part} {n}"
            )
    if smooth:
        run = jax.jit(real)
        up, down = (
            run(*(p + s * STEP * t for p, t in zip(primals, moves, strict=True))) for s in (1, -1)
        )
        for n, (a, u, d) in enumerate(zip(found["change"], up, down, strict=True)):
            with np.errstate(invalid="ignore"):
                slope = (np.asarray(u) - np.asarray(d)) / (2 * STEP)
            slope = np.where(
                np.isfinite(u), slope, 0.0
            )  # a window in padding alone is infinite, and stays so
            size = float(np.max(np.abs(slope), initial=1.0))
            np.testing.assert_allclose(
                np.broadcast_to(a, slope.shape),
                slope,
                OF_DIFFERENCES,
                OF_DIFFERENCES * size,
                err_msg=f"differences {n}",
            )


def _leaves(function: Callable[..., Any], given: Sequence[Any]) -> list[Any]:
    return jax.tree.leaves(jax.eval_shape(function, *given))


def _theirs(real: Callable[..., Any], second: bool) -> Callable[..., Any]:
    def run(primals: Any, moves: Any, cotangents: Any) -> dict[str, Any]:
        def back(*x: Any) -> Any:
            return jax.vjp(real, *x)[1](cotangents)

        value, change = jax.jvp(real, tuple(primals), tuple(moves))
        found = {"value": value, "change": change, "gradient": back(*primals)}
        if second:
            found["change of the gradient"] = jax.jvp(back, tuple(primals), tuple(moves))[1]
        return found

    return run


def _ours(
    function: Callable[..., Any],
    given: Sequence[Any],
    wrt: Sequence[int],
    kept: Sequence[int],
    moves: Sequence[Any],
    cotangents: Sequence[Any],
    second: bool,
) -> dict[str, list[Any]]:
    lowered = lower(jax.jit(function), given, {})
    graph = lowered.model.graph
    inputs = dict(zip(lowered.kept, graph.inputs, strict=True))
    read = [n for n in wrt if n in inputs]  # JAX leaves out arguments that are not read
    outputs = list(graph.outputs.values())
    results, sources = [outputs[n] for n in kept], [inputs[n] for n in read]
    linear = linearize(results, sources)
    weights = [build.param(f"w{n}", r.type.dtype, r.shape) for n, r in enumerate(results)]
    back = linear.transposed(list(weights))
    parts = {"value": linear.values, "change": list(linear.tangents), "gradient": back}
    if second:
        again = linearize(back, sources)
        parts["change of the gradient"] = list(again.tangents)
        back_sources = again.sources
    nodes, place = {}, {}
    for part, each in parts.items():
        for n, node in enumerate(each):
            like = results[n] if part in ("value", "change") else sources[n]
            nodes[f"{part} {n}"] = zeros(like.type) if node is None else node
        place[part] = len(each)
    params = [*graph.inputs, *linear.sources, *weights, *(back_sources if second else ())]
    values = {param(inputs[n]).name: given[n] for n in inputs}
    directions = [moves[wrt.index(n)] for n in read]
    values |= {param(s).name: t for s, t in zip(linear.sources, directions, strict=True)}
    values |= {param(w).name: c for w, c in zip(weights, cotangents, strict=True)}
    with np.errstate(all="ignore"):
        found = interpret(
            Graph("derivatives", tuple(dict.fromkeys(params)), nodes), values, lowered.model.weights
        )
    made = {part: [found[f"{part} {n}"] for n in range(count)] for part, count in place.items()}
    for part in made.keys() - {"value", "change"}:
        each = dict(zip(read, made[part], strict=True))
        made[part] = [each.get(n, np.zeros(())) for n in wrt]
    return made
