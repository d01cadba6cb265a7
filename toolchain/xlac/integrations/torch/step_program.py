"""The program of a training step for one set of shapes, and the parameters that it updates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from xlac.api import compile
from xlac.frontends.torch.exported import Exported
from xlac.integrations.torch import dtensors, optimizers
from xlac.integrations.torch.argument_ranges import argument_ranges
from xlac.integrations.torch.bound_state import BoundState
from xlac.integrations.torch.optimizers import OptimizerRule, refuse
from xlac.integrations.torch.program import Output, TensorProgram, TorchInput
from xlac.integrations.torch.step_graph import LOSS, RATES, LearnedParameter, StepGraph
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.runtime.compiled import Compiled
from xlac.training.data.column import IndexRange
from xlac.training.step import FINITE
from xlac_sdk.dtypes import DType


@dataclass(eq=False)
class StepProgram:
    """A step compiled for one set of shapes, with the binding of its state. `ranges` are the valid
    numbers of integer arguments (class labels, rows of an embedding), by position.
    """

    graph: StepGraph
    program: TensorProgram
    state: BoundState
    exported: Exported
    ranges: Mapping[int, IndexRange]


def check_parameters(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, rule: OptimizerRule
) -> None:
    """Raises SourceError for parameters of the optimizer that are not the model's, or not on
    the CPU, and for DTensors.
    """
    if dtensors.divided(model):
        raise refuse(
            "the model is divided among processes: its parameters are DTensors",
            "torch.compile(model, backend='xlac'), and PyTorch's optimizer",
        )
    own = {id(p) for p in model.parameters()}
    for n, group in enumerate(optimizer.param_groups):
        for at, p in enumerate(group["params"]):
            which = f"parameter {at} of group {n} of the optimizer"
            if id(p) not in own:
                problem = f"{which}, {list(p.shape)}, is not one of the model's"
                raise refuse(
                    problem,
                    "make the optimizer of model.parameters(), after the model is where it stays",
                )
            if p.device.type != "cpu" or p.layout is not torch.strided:
                raise refuse(
                    f"{which} is on {p.device}, and a step takes those of the CPU", "model.cpu()"
                )
        optimizers.group_optimizer(rule, group, n)


def learned_parameters(
    optimizer: torch.optim.Optimizer, rule: OptimizerRule, pairs: Sequence[int]
) -> list[LearnedParameter]:
    """The parameters that require a gradient, each with its rule of update and the number of its
    pair of rate and steps: `pairs` has that of every parameter of the optimizer.
    """
    learned: list[LearnedParameter] = []
    pair = iter(pairs)
    for n, group in enumerate(optimizer.param_groups):
        group_rule = optimizers.group_optimizer(rule, group, n)
        for p in group["params"]:
            at = next(pair)
            if p.requires_grad:
                learned.append(LearnedParameter(p, group_rule, at))
    return learned


def compiled_step(
    exported: Exported, graph: StepGraph, precision: str, options: dict[str, Any]
) -> StepProgram:
    """The program of a step's graph, by `options` of `xlac.compile`."""
    model: Model = replace(graph.model, precision=precision)
    compiled = compile(model, **options)
    assert isinstance(compiled, Compiled)
    names = [*exported.inputs, RATES]
    used = {param(n).name for n in model.inputs}
    inputs = [TorchInput(at, name, None, False) for at, name in enumerate(names) if name in used]
    loss = model.graph.outputs[LOSS]
    results = [Output(LOSS, loss.type.dtype, (), None), Output(FINITE, DType.BOOL, (), None)]
    program = TensorProgram(model, compiled, inputs, results, "seed" if exported.seeded else "")
    held = argument_ranges(exported.model.graph)
    ranges = {at: held[name] for at, name in enumerate(exported.inputs) if name in held}
    return StepProgram(graph, program, BoundState(compiled, graph.state), exported, ranges)
