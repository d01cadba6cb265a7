"""Runs a model as compiled and as interpreted, and tells whether the two agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from xlac.codegen.claims import is_kept
from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.model import Model
from xlac.passes.pipeline import optimize
from xlac.passes.rewrite.trace import Trace
from xlac.passes.weights import Weights
from xlac_sdk.backend import Backend
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target

TOLERANCE = {DType.F64: 1e-9, DType.F32: 1e-3, DType.F16: 3e-2, DType.BF16: 2e-1}


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: "right", "differs" (with the outputs at fault) or the name of an
    exception.
    """

    kind: str
    detail: str = ""

    @property
    def right(self) -> bool:
        """Whether the results agree."""
        return self.kind == "right"

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """A model with inputs, and the target that it is compiled for."""

    model: Model
    inputs: Mapping[str, Array]
    target: Target
    backend: Backend

    def on(
        self, graph: Graph, inputs: Mapping[str, Array], weights: Mapping[str, Array]
    ) -> ComparedModel:
        """The same with another graph and its values."""
        return replace(self, model=replace(self.model, graph=graph, weights=weights), inputs=inputs)

    def optimized(self, trace: Trace | None = None) -> tuple[Graph, Weights]:
        """The graph after the passes, with no more rewrites than the trace permits, and the weights
        it reads.
        """
        weights = Weights.over(self.model.weights)
        graph = optimize(
            self.model.graph,
            self.target,
            weights=weights,
            precision=self.model.precision,
            trace=trace,
            is_kept=is_kept,
        )
        return graph, weights

    def interpreted(self, trace: Trace) -> RunOutcome:
        """Interprets the optimized graph, so that nothing but the passes can be at fault."""

        def run() -> Mapping[str, Array]:
            graph, weights = self.optimized(trace)
            return interpret(graph, self.inputs, weights)

        return self._compared(run)

    def outcome(self) -> RunOutcome:
        """Compiles and runs, and compares with the interpreter."""
        from xlac.driver import executable, lower

        def run() -> Mapping[str, Array]:
            graph = self.model.graph
            compiled = executable(lower(self.model, self.target), self.backend)
            results = compiled(**{node.op.name: self.inputs[node.op.name] for node in graph.inputs})  # type: ignore[attr-defined]
            return results if isinstance(results, dict) else {next(iter(graph.outputs)): results}

        return self._compared(run)

    def _compared(self, run: Callable[[], Mapping[str, Array]]) -> RunOutcome:
        wanted = interpret(self.model.graph, self.inputs, self.model.weights, float64=True)
        try:
            outputs = run()
        except Exception as error:
            return RunOutcome(type(error).__name__, str(error).partition("\n")[0])
        apart = [
            name for name, want in wanted.items() if not agree(want, np.asarray(outputs[name]))
        ]
        return (
            RunOutcome("differs", f"outputs {', '.join(apart)}") if apart else RunOutcome("right")
        )


def agree(wanted: Array, result: Array) -> bool:
    """Whether a result is what exact arithmetic gives, up to the rounding that its element type
    explains.
    """
    if wanted.shape != result.shape:
        return False
    tolerance = TOLERANCE.get(DType.of(result.dtype), 0.0)
    a, b = wanted.astype(np.float64), result.astype(np.float64)
    finite = np.abs(a[np.isfinite(a)])
    scale = float(finite.max(initial=0.0))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
