"""Runs operations as users make them, beside references that know nothing of the ops' code."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

RNG = np.random.default_rng(7)


def run(name: str, *arrays: Any, **attributes: Any) -> Any:
    """The results of an operation made as users make it."""
    given = [np.asarray(a) for a in arrays]
    params = tuple(build.param(f"x{n}", DType.of(a.dtype), a.shape) for n, a in enumerate(given))
    made = build.apply(name, *params, **attributes)
    nodes = made if isinstance(made, tuple) else (made,)
    graph = Graph(name, params, {f"y{n}": node for n, node in enumerate(nodes)})
    with np.errstate(all="ignore"):
        found = list(interpret(graph, {f"x{n}": a for n, a in enumerate(given)}).values())
    return found if len(found) > 1 else found[0]


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape)


def close(found: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, tolerance, tolerance)
