"""The programs of training among the ranks of a mesh: each rank has its part of every batch, and
its parts of those state tensors that are divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from xlac.codegen.schedules import document
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.model import Model
from xlac.options import CompileOptions
from xlac.passes.pipeline import Pipeline
from xlac.ranks.agreement import backend_of, rank_0_first
from xlac.ranks.program import RankProgram, rank_program
from xlac.runtime.compiled import Compiled
from xlac.spmd.mesh import Mesh, Sharding, assembled, part_of
from xlac.spmd.model import mesh_of, parsed
from xlac.training.ranks.division import RankTraining, TrainingDivision
from xlac.training.shared_state import TrainingPrograms
from xlac_sdk.host.ranks.communicator import Communicator, current
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.support.counts import number_of

TAKEN = ("target", "threads", "cpu", "triple", "arch", "precision", "schedules", "passes")
"""Options of a trainer that go with a mesh."""


class RankTrainingPrograms(TrainingPrograms):
    """The programs of one rank. Calls take whole batches and return whole outputs, and the state is
    given and read whole; every rank makes the same calls in one order.
    """

    def __init__(
        self, models: Mapping[str, Model], options: Mapping[str, Any], among: RankTraining
    ) -> None:
        super().__init__(models, options)
        target, chosen = _checked(options)
        section = models["step"].ranks
        sizes = parsed(among.mesh) if isinstance(among.mesh, str) else among.mesh
        self._mesh = mesh_of(section, sizes)
        self._ranks = _communicator(self._mesh)
        self._backend = backend_of(self._ranks, target)
        self._facts = self._backend.target_for(chosen.request)
        self._lowering: dict[str, Any] = {
            "pipeline": Pipeline.asked(chosen.passes),
            "wanted": document.read(chosen.schedules),
            "every": False,
        }
        self._precision = chosen.precision
        self._plans: dict[Compiled, RankProgram] = {}
        self._shapes = {name: static(one.type.shape) for name, one in among.tensors.items()}
        rank = self._ranks.rank
        self._division = TrainingDivision.of(models, among, self._mesh, rank, self._facts)
        self._shardings = self._division.shardings
        self._gathered: dict[str, Array] = {}  # whole tensors, until the state changes

    @property
    def here(self) -> Communicator:
        return self._ranks

    # ---- what the ancestor calls -------------------------------------------------------------

    def _made(self, kind: str, sizes: Mapping[str, int]) -> Compiled:
        divided = self._division.of_entry(self.entries[kind].model)
        model = specialized(load(divided, precision=self._precision), sizes)

        def work() -> tuple[RankProgram, Compiled]:
            made = rank_program(
                model,
                self._mesh,
                self._ranks.rank,
                self._backend,
                self._facts,
                idle_axes=True,
                **self._lowering,
            )
            return made, made.compiled(self._backend)

        plan, compiled = rank_0_first(self._ranks, work)
        self._plans[compiled] = plan
        return compiled

    def _run(self, program: Compiled, given: Mapping[str, Any]) -> dict[str, Any]:
        plan = self._plans[program]
        self._gathered = {}
        outputs = super()._run(program, plan.parts(given))
        whole = {}
        for name, array in outputs.items():
            shape = static(plan.outputs[name].shape)
            whole[name] = self._whole(array, plan.plan.outputs[name], shape)
        return whole

    # ---- the state ---------------------------------------------------------------------------

    def begin(self, state: dict[str, Array]) -> None:
        """Sets the whole state, arrays by tensor, of which this rank keeps its parts."""
        self._gathered = {}
        super().begin({name: self._own(name, array) for name, array in state.items()})

    def tensor(self, name: str) -> Array:
        """A copy of one whole tensor of the state. What ranks must gather is kept until the state
        changes: a rank may read again alone what all have read.
        """
        if not any(self._shardings[name]):
            return super().tensor(name)
        if name not in self._gathered:
            own, sharding = super().tensor(name), self._shardings[name]
            self._gathered[name] = self._whole(own, sharding, self._shapes[name])
        return np.array(self._gathered[name])

    def write(self, name: str, array: Array) -> None:
        """Sets one whole tensor of the state."""
        self._gathered.pop(name, None)
        super().write(name, self._own(name, array))

    def _own(self, name: str, array: Array) -> Array:
        sharding = self._shardings[name]
        if not any(sharding):
            return array
        own = part_of(np.asarray(array), self._mesh, self._ranks.rank, sharding)
        return np.ascontiguousarray(own)

    def _whole(self, part: Array, sharding: Sharding, shape: tuple[int, ...]) -> Array:
        """A whole array, on every rank, from the part of each."""
        if not any(sharding):
            return part
        return self._assembled(part, sharding, shape, range(self._mesh.ranks))

    def _assembled(
        self, part: Array, sharding: Sharding, shape: tuple[int, ...], ranks: Iterable[int]
    ) -> Array:
        """A whole array, on every rank, from the parts of some."""
        parts = self._ranks.gather(part)
        if parts is None:
            told = np.frombuffer(self._ranks.broadcast(b""), np.uint8)
            return told.view(part.dtype).reshape(shape).copy()
        whole = assembled({rank: parts[rank] for rank in ranks}, self._mesh, sharding, shape)
        self._ranks.broadcast(whole.tobytes())
        return whole


def _checked(options: Mapping[str, Any]) -> tuple[str, CompileOptions]:
    """The target, and the options that apply. Raises SourceError for others."""
    usual = {f.name: getattr(CompileOptions(), f.name) for f in fields(CompileOptions)}
    for name, value in options.items():
        if name not in TAKEN and value != usual.get(name):
            problem = f"{name} does not go with a mesh"
            raise SourceError(Diagnostic("XL7812", problem, hint="leave it out, or the mesh"))
    taken = {name: options[name] for name in TAKEN if name in options and name != "target"}
    return str(options["target"]), CompileOptions(**taken)


def _communicator(mesh: Mesh) -> Communicator:
    """The ranks of this run. Raises UnsupportedError unless they are as many as the mesh has."""
    here = current()
    if here is None or here.size != mesh.ranks:
        started = "this process is alone" if here is None else f"{here.size} were started"
        problem = f"mesh {mesh} has {number_of(mesh.ranks, 'rank')}, and {started}"
        hint = f"mpirun -n {mesh.ranks} xlac train … --mesh {mesh}"
        raise UnsupportedError(Diagnostic("XL7806", problem, hint=hint))
    return here
