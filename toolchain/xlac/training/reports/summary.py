"""A summary of training before it runs: which weights learn, and the memory that a step needs."""

from __future__ import annotations

from typing import Any

from xlac.driver import lower, specialized
from xlac.ir.dims import size_hint
from xlac.memory.limit import MemoryLimit, needed
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.spec.summary import statistics
from xlac.spec.training.ema import PREFIX
from xlac.spec.training.section import Training
from xlac.training.program import graphs_of
from xlac.training.reports.memory_report import recomputed
from xlac_sdk.target import Target


def summarize_training(
    model: Model, training: Training, target: Target, memory: MemoryLimit | None = None
) -> dict[str, Any]:
    """Which weights learn, by which optimizer, and bytes: of weights, of the optimizer's state, of
    sums and averages, and of the arenas of a step and an evaluation as compiled for `target` (for
    one micro-batch, where a step has several). Raises SourceError, and UnsupportedError where there
    is no derivative.
    """
    graphs = graphs_of(model, training)
    sizes = {name: symbol.opt for name, symbol in model.dims.items()}
    if training.batch in sizes:
        sizes[training.batch] = -(-sizes[training.batch] // training.accumulate)
    step = specialized(graphs.step, sizes)
    named = {"step": graphs.step, "evaluate": graphs.evaluate, **graphs.accumulate}
    arenas = {
        name: lower(specialized(graph, sizes), target).program.arena_bytes
        for name, graph in named.items()
    }
    measured = {param(node).name for node in statistics(training.graph)}
    learned = [t for t in graphs.state if t.name in training.learns]
    weights = sum(t.type.nbytes for t in graphs.state if t.learns)
    inputs = sum(node.type.nbytes for node in step.inputs)
    sums = sum(t.type.nbytes for t in graphs.state if t.transient)
    averages = [t for t in graphs.state if training.ema and t.name.startswith(PREFIX)]
    averaged = sum(t.type.nbytes for t in averages)
    kept = sum(t.type.nbytes for t in graphs.state) - weights - sums - averaged
    limited = {} if memory is None else {"memory": within_memory(specialized(step), memory, target)}
    return {
        **limited,
        "metrics": [metric.name for metric in graphs.metrics],
        "losses": list(graphs.losses),
        "optimizer": ", ".join(_optimizers(training)),
        "learns": {
            "tensors": len(learned),
            "parameters": sum(size_hint(t.type.size) for t in learned),
        },
        "lora": sorted(training.factors),
        "averages": {"tensors": len(averages), "decay": training.ema.decay}
        if training.ema
        else None,
        "frozen": sorted(set(training.weights) - set(training.learns) - measured),
        "sizes": sizes,
        "accumulate": training.accumulate,
        "bytes": {
            "weights": weights,
            "optimizer": kept,
            "averages": averaged,
            "sums": sums,
            "inputs": inputs,
            **arenas,
        },
        "peak_bytes": weights + kept + averaged + sums + inputs + max(arenas.values()),
    }


def within_memory(model: Model, memory: MemoryLimit, target: Target) -> dict[str, Any]:
    """The effect of a memory limit: bytes that a call needs with and without it, and what is
    recomputed. Raises LimitError for a limit that cannot be met.
    """
    unlimited, limited = lower(model, target).program, lower(model, target, memory=memory).program
    return {
        "limit": memory.nbytes,
        "bytes": needed(limited, memory.weights_in_memory),
        "unlimited": needed(unlimited, memory.weights_in_memory),
        "recomputed": recomputed(limited),
    }


def _optimizers(training: Training) -> list[str]:
    """Names of each loss's optimizers, groups last; with the loss where there are several."""
    optimizers: list[str] = []
    for objective in training.objectives:
        used = sorted(objective.learns.values(), key=lambda one: bool(one.group))
        suffix = f" ({objective.name})" if objective.name else ""
        optimizers += dict.fromkeys(f"{one.name}{suffix}" for one in used)
    return optimizers
