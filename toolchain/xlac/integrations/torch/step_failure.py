"""What a training step of a PyTorch module reports: integers out of range before it runs, and
numbers that are not finite after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from xlac.frontends.torch.tensors import array_of
from xlac.integrations.torch.program import seed_tensor
from xlac.integrations.torch.step_graph import RATES
from xlac.integrations.torch.step_program import StepProgram
from xlac.ops.tensor.leaf import param
from xlac.training.data.column import IndexRange
from xlac.training.data.index_ranges import in_range
from xlac.training.failures.replay import failure
from xlac_sdk.source import SourceError


def check_ranges(
    names: Sequence[str], ranges: Mapping[int, IndexRange], tensors: Sequence[torch.Tensor]
) -> None:
    """Raises SourceError (XL6307) for a class label or a row of an embedding that does not exist.
    `names` and `ranges` are those of the tensors, by position.
    """
    for at, held in ranges.items():
        in_range({names[at]: array_of(tensors[at])}, {names[at]: held})


def not_finite(
    program: StepProgram,
    state: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    rates: torch.Tensor,
    loss: torch.Tensor,
    options: Mapping[str, Any],
) -> SourceError:
    """The error for a step that has changed nothing, as its loss or its gradients were not finite:
    what it took the numbers from (XL6031, XL6032), found by running it once more.
    """
    model, exported = program.graph.model, program.exported
    given = {RATES: rates, **dict(zip(exported.inputs, tensors, strict=True))}
    if exported.seeded:
        given["seed"] = seed_tensor()
    arrays = {param(n).name: array_of(given[param(n).name]) for n in model.inputs}
    kept = {
        one.name: array_of(tensor if one.perm is None else tensor.permute(one.perm))
        for one, tensor in zip(program.graph.state, state, strict=True)
    }
    models = {"step": model, "evaluate": model}
    finite = bool(torch.isfinite(loss))
    return failure(models, options, kept, arrays, [("step", arrays)], finite, None)
