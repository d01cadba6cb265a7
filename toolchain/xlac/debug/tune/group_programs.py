"""Programs of one group, with the compiler's schedules and with others, on the same inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from xlac.codegen.kernel_dedup import LoweringCache
from xlac.codegen.lower import lower
from xlac.codegen.schedules.decisions import Decisions
from xlac.codegen.schedules.digest import digest
from xlac.codegen.schedules.document import Asked
from xlac.codegen.schedules.schedule import Schedule
from xlac.debug.compare import agree
from xlac.debug.errors.propagate import outputs_of
from xlac.debug.group_alone import group_alone
from xlac.debug.tune.race import Call
from xlac.debug.verify import draws
from xlac.debug.verify.subject import built_anew, promise_of, ran, same_bits
from xlac.driver import Lowered
from xlac.fusion.group import Group
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.memory.planner import planned
from xlac.runtime.compiled import Compiled
from xlac_sdk.backend import Backend
from xlac_sdk.kernel_ir.text import show
from xlac_sdk.target import Target

Parts = Mapping[str, Schedule]


def other_templates(group: Group, target: Target) -> Mapping[str, Sequence[Schedule]]:
    """Schedules of other templates that a group could have, by part."""
    decisions = Decisions("tried", offered={})
    lower(group, target, "tried", decisions)
    assert decisions.offered is not None
    return decisions.offered


@dataclass(frozen=True, slots=True, eq=False)
class GroupProgram:
    """A program of a group, its schedules by part, and the text of its kernels."""

    lowered: Lowered
    parts: Parts
    text: str


class GroupPrograms:
    """Lowers, builds and runs one group of a model alone, on random inputs. A call runs its kernels
    `repeats` times, so that short ones are not lost beside the cost of a call.
    """

    def __init__(
        self, group: Group, model: Lowered, backend: Backend, repeats: int = 1, seed: int = 0
    ) -> None:
        self.model, self.backend, self.repeats = model, backend, repeats
        self.partition, _ = group_alone(group)
        self.name = digest(self.partition.groups[0])
        rng = np.random.default_rng(seed)
        kinds = (draws.random, draws.special)
        self.draws: list[dict[str, Array]] = [
            {
                node.op.name: draw(node.type.dtype, static(node.type.shape), rng)  # type: ignore[attr-defined]
                for node in self.partition.graph.inputs
            }
            for draw in kinds
        ]
        self.built: dict[str, Compiled] = {}
        self.last: tuple[str, GroupProgram] | None = None

    def program(self, parts: Parts) -> GroupProgram:
        """The group lowered with these schedules, and the compiler's for other parts. Raises
        SourceError where they do not fit.
        """
        cache = LoweringCache(self.model.target, Asked({self.name: parts} if parts else {}))
        lowerings = cache.lowered(self.partition)
        program = planned(self.partition, lowerings, self.model.model.weights)[0]
        program = replace(program, steps=program.steps * self.repeats)
        lowered = Lowered(
            self.model.model, self.model.target, self.partition, cache, program, self.partition
        )
        settled = next(iter(lowerings.values())).schedules
        return GroupProgram(lowered, settled, "\n".join(show(k) for k in program.kernels))

    def known(self, parts: Parts) -> GroupProgram:
        """The same for the schedules that others are compared with: those of the last call are
        lowered once.
        """
        key = repr(sorted(parts.items()))
        if self.last is None or self.last[0] != key:
            self.last = key, self.program(parts)
        return self.last[1]

    def compiled(self, program: GroupProgram) -> Compiled:
        """The executable of a program; the last few are kept."""
        if program.text not in self.built:
            while len(self.built) > 2:
                self.built.pop(next(iter(self.built)))
            self.built[program.text] = built_anew(program.lowered, self.backend)
        return self.built[program.text]

    def call(self, program: GroupProgram) -> Call:
        """A call of a program into arrays that it owns."""
        compiled, given = self.compiled(program), self.draws[0]
        out = {s.name: np.zeros(s.extents({}), s.dtype.numpy) for s in compiled.program.outputs}
        inputs = {s.name: given[s.name] for s in compiled.program.inputs}
        return lambda: compiled.run(inputs, out)

    @cached_property
    def usual(self) -> list[dict[str, Array]]:
        """The results of the compiler's own schedules."""
        compiled = self.compiled(self.program({}))
        return [ran(compiled, given) for given in self.draws]

    @cached_property
    def meant(self) -> dict[str, Any]:
        """The results in float64, with the error that the documentation allows."""
        promise = promise_of(self.model.target, self.model.model)
        graph, weights = self.partition.graph, self.model.model.weights
        return dict(outputs_of(graph, self.draws[0], weights, promise))

    def alike(self, program: GroupProgram, rounding: bool) -> bool:
        """Whether a program's results are those of the compiler's schedules, to the bit; or, where
        `rounding` may change, within the documented error of the exact ones.
        """
        compiled = self.compiled(program)
        same = all(
            same_bits(usual[name], array)
            for given, usual in zip(self.draws, self.usual, strict=True)
            for name, array in ran(compiled, given).items()
        )
        if same or not rounding:
            return same
        results = ran(compiled, self.draws[0])
        return all(agree(meant, results[name]) for name, meant in self.meant.items())
