"""Random nests of concatenations, stacks, reshapes and arithmetic, several results at once."""

from __future__ import annotations

import numpy as np
import pytest
from loops_harness import MASKED, PLAIN, check_graph, graph_of, param

from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


def drawn(
    rng: np.random.Generator, shape: tuple[int, ...], sources: list[Node], depth: int
) -> Node:
    """A value of a shape: of sources of as many elements, or joined or computed from others."""
    size = int(np.prod(shape))
    choice = rng.integers(6) if depth else rng.integers(2)
    if choice == 0:
        fitting = [x for x in sources if x.type.size == size]
        if not fitting:
            return build.full(float(rng.integers(3)), shape, DType.F32)
        return build.reshape(fitting[rng.integers(len(fitting))], shape)
    if choice == 1:
        long = [x for x in sources if x.type.size > size and x.type.size % size == 0]
        if not long:
            return build.full(0.5, shape, DType.F32)
        x = long[rng.integers(len(long))]
        flat = build.reshape(x, (x.type.size // size, *shape))
        first = int(rng.integers(x.type.size // size))
        return build.reshape(build.cut(flat, 0, first, first + 1), shape)
    if choice == 2:
        value = drawn(rng, shape, sources, depth - 1)
        sources.append(value)
        return value
    if choice == 3:
        parts = [drawn(rng, shape, sources, depth - 1) for _ in range(2)]
        return build.add(*parts) if rng.integers(2) else build.mul(*parts)
    if choice == 4:  # with axes of one element, and without
        other = tuple(n for s in shape for n in ((s, 1) if rng.integers(3) == 0 else (s,)))
        return build.reshape(drawn(rng, other, sources, depth - 1), shape)
    return joined(rng, shape, sources, depth)


def joined(
    rng: np.random.Generator, shape: tuple[int, ...], sources: list[Node], depth: int
) -> Node:
    """A concatenation along an axis that can be divided."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes:
        return drawn(rng, shape, sources, 0)
    axis = axes[rng.integers(len(axes))]
    count = next(n for n in (int(rng.integers(2, 5)), 2, 3, shape[axis]) if shape[axis] % n == 0)
    piece = (*shape[:axis], shape[axis] // count, *shape[axis + 1 :])
    return build.concat([drawn(rng, piece, sources, depth - 1) for _ in range(count)], axis)


@pytest.mark.parametrize("seed", range(120))
@pytest.mark.sampled(16)
def test_random_pieces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sources: list[Node] = [param(name, (4, 6, 8)) for name in "xy"]
    shapes = [(4, 6, 8), (24, 8), (4, 48), (2, 2, 6, 8), (192,), (96, 2), (4, 16, 3), (64, 3, 1)]
    results = [
        joined(rng, shapes[rng.integers(len(shapes))], sources, 4)
        for _ in range(rng.integers(1, 4))
    ]
    check_graph(graph_of(*results), (MASKED, PLAIN), seed=seed)
