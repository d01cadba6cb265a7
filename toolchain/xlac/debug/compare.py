"""Runs a model compiled and interpreted, and compares the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from xlac.codegen.claims import is_kept
from xlac.debug.errors.approximation import Approximation
from xlac.debug.verify.deviation import deviation
from xlac.debug.verify.exact import estimated
from xlac.debug.verify.subject import ran, states_of
from xlac.driver import executable, lower
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
        """The subject with another graph and other inputs and weights."""
        return replace(self, model=replace(self.model, graph=graph, weights=weights), inputs=inputs)

    def optimized(self, trace: Trace | None = None) -> tuple[Graph, Weights]:
        """The optimized graph, with only the rewrites that the trace permits, and its weights."""
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

    @property
    def given(self) -> dict[str, Array]:
        """The inputs, and the first values of states."""
        return {**states_of(self.model.graph), **self.inputs}

    def interpreted(self, trace: Trace) -> RunOutcome:
        """Interprets the optimized graph in float64, so that only the passes can be at fault."""

        def run() -> Mapping[str, Array]:
            graph, weights = self.optimized(trace)
            return interpret(graph, self.given, weights, float64=True)

        return self._compared(run)

    def outcome(self) -> RunOutcome:
        """Compiles and runs, and compares with the interpreter."""

        def run() -> Mapping[str, Array]:
            return ran(executable(lower(self.model, self.target), self.backend), self.inputs)

        return self._compared(run)

    def _compared(self, run: Callable[[], Mapping[str, Array]]) -> RunOutcome:
        wanted = estimated(self.model.graph, self.given, self.model.weights)
        try:
            outputs = run()
        except Exception as error:
            return RunOutcome(type(error).__name__, str(error).partition("\n")[0])
        apart = [n for n, meant in wanted.items() if n in outputs and not agree(meant, outputs[n])]
        return (
            RunOutcome("differs", f"outputs {', '.join(apart)}") if apart else RunOutcome("right")
        )


def agree(meant: Approximation, result: Array) -> bool:
    """Whether a result, in its own type or in float64, is within the tolerance of the expected
    one.
    """
    array = np.asarray(result)
    return deviation(array, meant, DType.of(array.dtype)).right
