"""Every way to call a compiled thing that takes x and y."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import xlac

X, Y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
SPEC = """
xlac: 1
model: both
dims: {n: {min: 1, max: 64, opt: 4}}
inputs: {x: 'f32[n]', y: 'f32[n]'}
graph: {sum: x + y, product: x * y}
outputs: [sum, product]
"""


class Way(NamedTuple):
    """Something to call with x and y, and how its arguments are made of arrays."""

    call: Any
    given: Callable[[Any], Any] = lambda array: array


def traced(x: Any, y: Any) -> Any:
    return {"sum": x + y, "product": x * y}


def torch_way() -> Way:
    torch = pytest.importorskip("torch")

    class Both(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any, y: Any) -> Any:
            return traced(x, y)

    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    return Way(
        xlac.from_torch(Both(), x, y),
        lambda value: torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value,
    )


def jax_way() -> Way:
    pytest.importorskip("jax")
    return Way(xlac.from_jax(traced, X, Y))


def warm(model: Any) -> Way:
    """After so many calls that the backend's quick function has taken over."""
    for _ in range(20):
        model(X, Y)
    return Way(model)


WAYS: dict[str, Callable[[Path], Way]] = {
    "compiled": lambda spec: Way(xlac.compile(spec, dims={"n": 4})),
    "quick": lambda spec: warm(xlac.compile(spec, dims={"n": 4})),
    "reference": lambda spec: Way(xlac.compile(spec, "reference", dims={"n": 4})),
    "symbolic": lambda spec: warm(xlac.compile(spec, sizes="symbolic")),
    "specializing": lambda spec: warm(xlac.compile(spec)),
    "jit": lambda spec: Way(xlac.jit(traced)),
    "from_jax": lambda spec: jax_way(),
    "from_torch": lambda spec: torch_way(),
}
# whose sizes are known, and that compile for no others
FIXED = [name for name in WAYS if name not in ("jit", "from_jax", "symbolic", "specializing")]
