"""The program of one rank: compiled, given its parts of inputs; outputs put together again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.driver import Lowered, executable, lower
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.ir.text import show
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.placement.places import refuse_places
from xlac.runtime.compiled import Compiled
from xlac.spmd.mesh import Mesh, assembled, part_of
from xlac.spmd.model import in_stages, of_rank
from xlac.spmd.partition import Partitioned
from xlac_sdk.backend import Backend
from xlac_sdk.host.call_binding import as_input
from xlac_sdk.programs.program import exchanges
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.hashing import blake2b
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class RankProgram:
    """A lowered program of one rank, and how the model was partitioned. `inputs` and `outputs` are
    the types of the whole model's.
    """

    lowered: Lowered
    plan: Partitioned
    rank: int
    inputs: Mapping[str, Type]
    outputs: Mapping[str, Type]

    @property
    def digest(self) -> str:
        """Names the plan: ranks run together only where theirs are the same."""
        text = f"{self.plan.mesh}\n{show(self.plan.graph)}\n{sorted(self.plan.outputs.items())}"
        started = exchanges(self.lowered.program.every_step)  # in one order on all ranks
        text += f"\n{[(s.exchange.kind, s.exchange.axes, s.sent) for s in started]}"
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def compiled(self, backend: Backend) -> Compiled:
        """The program loaded; its collectives are those of the current communicator."""
        return executable(self.lowered, backend)

    def parts(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """This rank's parts of whole inputs. Raises SourceError for one of another type or shape;
        what is no input is returned as it is.
        """
        return dict(inputs) | parts_of_inputs(inputs, self.inputs, self.plan, self.rank)

    def whole_output(self, name: str, parts: Mapping[int, Array]) -> Array:
        """An output from the parts of ranks, by number."""
        sharding, shape = self.plan.outputs[name], static(self.outputs[name].shape)
        return assembled(parts, self.plan.mesh, sharding, shape)

    def divided(self, name: str) -> bool:
        """Whether ranks hold different parts of an output."""
        return any(self.plan.outputs[name])


def parts_of_inputs(
    given: Mapping[str, Any], types: Mapping[str, Type], plan: Partitioned, rank: int
) -> dict[str, Array]:
    """A rank's parts of whole inputs, of the whole's types. Raises SourceError for one of another
    type or shape; what is no input is left out.
    """
    parts = {}
    for name, type in types.items():
        if name in given and name in plan.inputs:
            array = as_input(name, type.dtype, type.shape, given[name])
            part = part_of(array, plan.mesh, rank, plan.inputs[name])
            parts[name] = np.asarray(part, order="C")
    return parts


def rank_program(
    model: Model,
    mesh: Mesh,
    rank: int,
    backend: Backend,
    target: Target,
    idle_axes: bool = False,
    **options: Any,
) -> RankProgram:
    """Lowers the program of a rank; `options` are those of `driver.lower`, `idle_axes` is that of
    `of_rank`. The model's sizes must be fixed. Raises UnsupportedError where the target has no
    collectives and the program needs them.
    """
    refuse_places(model, "--mesh")
    if in_stages(model, mesh):
        problem = "this makes one program of the model, and stages are several"
        hint = "run, train, explain, plan and build --target c do; else give their axis one rank"
        raise UnsupportedError(Diagnostic("XL7841", problem, hint=hint))
    own, plan = of_rank(model, mesh, rank, target, idle_axes)
    if plan.reasons and not target.collectives:
        problem = f"{backend.name} has no collectives, and the program needs {len(plan.reasons)}"
        hint = "cpu has, GPUs with NCCL, and C that xlac build --target c --mesh writes"
        raise UnsupportedError(Diagnostic("XL7806", problem, hint=hint))
    inputs = {param(node).name: node.type for node in model.inputs}
    outputs = {name: node.type for name, node in model.graph.outputs.items()}
    return RankProgram(lower(own, target, **options), plan, rank, inputs, outputs)


def memory_of(program: RankProgram) -> dict[str, int]:
    """Bytes that a rank needs: its arena, its state, and its parts of weights."""
    made = program.lowered.program
    weights = sum(array.nbytes for array in made.constants.values())
    return {"arena": made.arena_bytes, "state": made.state_bytes, "weights": weights}
