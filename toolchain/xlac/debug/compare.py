"""Runs a model as compiled and as interpreted, and tells whether the two agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.model import Model
from xlac.passes.trace import Trace
from xlac_sdk.backend import Backend
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

TOLERANCE = {DType.F64: 1e-9, DType.F32: 1e-3, DType.F16: 3e-2, DType.BF16: 2e-1}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: "right", "differs" (with the outputs at fault) or the name of an exception."""

    kind: str
    detail: str = ""

    @property
    def right(self) -> bool:
        return self.kind == "right"

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@dataclass(frozen=True, slots=True)
class Subject:
    """A model with inputs, and the target that it is compiled for."""

    model: Model
    inputs: Mapping[str, Array]
    target: Target
    backend: Backend

    def on(self, graph: Graph, inputs: Mapping[str, Array], weights: Mapping[str, Array]) -> Subject:
        """The same with another graph and its values."""
        return replace(self, model=replace(self.model, graph=graph, weights=weights), inputs=inputs)

    def outcome(self, trace: Trace | None = None) -> Outcome:
        """Compiles and runs, with no more rewrites than the trace permits, and compares with the interpreter."""
        from xlac.compiler import executable, lower

        graph = self.model.graph
        wanted = interpret(graph, self.inputs, self.model.weights, float64=True)
        try:
            compiled = executable(lower(self.model, self.target, trace=trace), self.backend)
            found = compiled(**{node.op.name: self.inputs[node.op.name] for node in graph.inputs})  # type: ignore[attr-defined]
        except Exception as error:
            return Outcome(type(error).__name__, str(error).partition("\n")[0])
        outputs = found if isinstance(found, dict) else {next(iter(graph.outputs)): found}
        apart = [name for name, want in wanted.items() if not agree(want, np.asarray(outputs[name]))]
        return Outcome("differs", f"outputs {', '.join(apart)}") if apart else Outcome("right")


def agree(wanted: Array, found: Array) -> bool:
    """Whether a result is what exact arithmetic gives, up to the rounding that its element type explains."""
    if wanted.shape != found.shape:
        return False
    tolerance = TOLERANCE.get(DType.of(found.dtype), 0.0)
    a, b = wanted.astype(np.float64), found.astype(np.float64)
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max(initial=0.0))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
