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
from xlac.model import Model
from xlac.runtime.compiled import Compiled
from xlac.spmd.mesh import Mesh, assembled, slices
from xlac.spmd.model import of_rank
from xlac.spmd.partition import Partitioned
from xlac_sdk.backend import Backend
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.hashing import blake2b
from xlac_sdk.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class RankProgram:
    """A lowered program of one rank, and how the model was partitioned. `whole` has the shapes of
    the model's outputs.
    """

    lowered: Lowered
    plan: Partitioned
    rank: int
    whole: Mapping[str, tuple[int, ...]]

    @property
    def digest(self) -> str:
        """Names the plan: ranks run together only where theirs are the same."""
        text = f"{self.plan.mesh}\n{show(self.plan.graph)}\n{sorted(self.plan.outputs.items())}"
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def compiled(self, backend: Backend) -> Compiled:
        """The program loaded; its collectives are those of the current communicator."""
        return executable(self.lowered, backend)

    def parts(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """This rank's parts of whole inputs."""
        return {
            name: np.ascontiguousarray(
                array[slices(self.plan.mesh, self.rank, self.plan.inputs[name], array.shape)]
            )
            if name in self.plan.inputs
            else array
            for name, array in inputs.items()
        }

    def whole_output(self, name: str, parts: Mapping[int, Array]) -> Array:
        """An output from the parts of ranks, by number."""
        sharding = self.plan.outputs[name]
        return assembled(parts, self.plan.mesh, sharding, self.whole[name])

    def divided(self, name: str) -> bool:
        """Whether ranks hold different parts of an output."""
        return any(self.plan.outputs[name])


def rank_program(
    model: Model, mesh: Mesh, rank: int, backend: Backend, target: Target, **options: Any
) -> RankProgram:
    """Lowers the program of a rank; `options` are those of `driver.lower`. The model's sizes must
    be fixed. Raises UnsupportedError where the target has no collectives and the program needs
    them.
    """
    whole = {name: static(node.shape) for name, node in model.graph.outputs.items()}
    own, plan = of_rank(model, mesh, rank, target)
    if plan.reasons and not target.collectives:
        problem = f"{backend.name} has no collectives, and the program needs {len(plan.reasons)}"
        raise UnsupportedError(Diagnostic("XL7806", problem, hint="--target cpu has"))
    lowered = lower(own, target, **options)
    return RankProgram(lowered, plan, rank, whole)


def memory_of(program: RankProgram) -> dict[str, int]:
    """Bytes that a rank needs: its arena, its state, and its parts of weights."""
    made = program.lowered.program
    weights = sum(array.nbytes for array in made.constants.values())
    return {"arena": made.arena_bytes, "state": made.state_bytes, "weights": weights}
