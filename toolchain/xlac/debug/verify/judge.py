"""Judges a program for one set of inputs: its groups, the data flow between them, the passes, its
outputs, and the results of other engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from xlac.debug.errors.approximation import Approximation
from xlac.debug.profile import place
from xlac.debug.verify.causes import CauseSearch
from xlac.debug.verify.deviation import deviation
from xlac.debug.verify.engines import ENGINES, EngineUnavailable
from xlac.debug.verify.exact import chain, estimated
from xlac.debug.verify.nodes import GroupJudge, JudgedNode
from xlac.debug.verify.subject import VerifiedProgram, ran, same_bits, states_of
from xlac.debug.verify.verification import VerifiedValue
from xlac.ir.op import Array
from xlac.model import Model
from xlac_sdk.dtypes import DType

Tell = Callable[[str], None]
REFERENCE = "reference"
"""The engine that computes the model's exact results, in float64."""

OURS = (REFERENCE, "its inputs")
"""The references that are ours, not another engine's."""


class DrawJudge:
    """Judges a program for one set of inputs."""

    def __init__(
        self, program: VerifiedProgram, draw: str, inputs: Mapping[str, Array], tell: Tell
    ) -> None:
        self.program, self.draw = program, draw
        self.inputs = {**inputs, **states_of(program.model.graph)}
        self.tell = tell
        self.notes: list[str] = []
        self.symptoms: list[str] = []  # signs of a fault that do not locate it
        self.wrong: list[JudgedNode] = []
        self.judge: GroupJudge | None = None
        self.passes_wrong = False

    def judged(
        self, against: Sequence[str], source: Path | None, first: bool
    ) -> tuple[list[VerifiedValue], list[str], list[str]]:
        """Every comparison, notes and causes. Races are searched for with the `first` inputs
        only.
        """
        results = ran(self.program.compiled, self.inputs)
        model = self.program.model
        exact = estimated(model.graph, self.inputs, model.weights)
        outputs = list(self._outputs(results, exact)) if REFERENCE in against else []
        nodes = list(self._nodes(results, exact)) if self.program.with_taps is not None else []
        values = [*nodes, *self._weighed(outputs, nodes)]
        for name in against:
            if name != REFERENCE:
                values += self._engine(name, source, results, exact, REFERENCE not in against)
        search = CauseSearch(self.program, self.inputs, results, self.tell)
        wrong = self.symptoms or any(not v.right for v in values if v.against in OURS)
        causes = search.unsound() if first else []
        if not causes:
            causes = self._causes(search) if wrong else search.unsteady() if first else []
        return values, self.notes, causes

    def _causes(self, search: CauseSearch) -> list[str]:
        """The cause, where something is wrong."""
        causes: list[str] = []
        if self.wrong:
            assert self.judge is not None
            causes = search.of_node(self.judge, self.wrong[0])
        if not causes and self.passes_wrong:
            causes = search.of_passes()
        if not causes:
            causes = search.stale() or search.unsteady()
        if not causes and self.judge is None:
            causes = search.of_passes()
        return causes or self.symptoms

    def _outputs(
        self, results: Mapping[str, Array], exact: Mapping[str, Approximation]
    ) -> Iterator[VerifiedValue]:
        for slot in self.program.lowered.program.outputs:
            if slot.name in exact:
                off = deviation(results[slot.name], exact[slot.name], slot.dtype)
                node = self.program.model.graph.outputs[slot.name]
                where = place([node.origin]) if node.origin else ""
                yield VerifiedValue(self.draw, slot.name, REFERENCE, off, where)

    def _nodes(
        self, results: Mapping[str, Array], exact: Mapping[str, Approximation]
    ) -> Iterator[VerifiedValue]:
        """The values of every group; also checks that data between groups are unchanged, and the
        passes.
        """
        program = self.program
        again, left = program.tapped_run(self.inputs)
        for name, array in results.items():
            if not same_bits(array, again[name]):
                self.symptoms.append(
                    f"output '{name}' of the program is not that of the same kernels with copies "
                    "between them: a race, or code in the cache that is not this program's"
                )
        lowered = program.lowered
        self.judge = judge = GroupJudge(lowered, self.inputs, left, program.promise)
        graph = lowered.partition.graph
        outputs, between = chain(graph, self.inputs, lowered.model.weights, set(left))
        for judged in judge.all():
            if not judged.own.right:
                self.wrong.append(judged)
            yield self._node(judged, left, between)
        for name, node in graph.outputs.items():
            if name in again and not same_bits(again[name], judge.value(node)):
                self.symptoms.append(
                    f"output '{name}' is not what the last group left: the steps that write it"
                )
        self._passes(outputs, exact)

    def _node(
        self, judged: JudgedNode, left: Mapping[Any, Array], between: Mapping[Any, Array]
    ) -> VerifiedValue:
        inherited = None
        if judged.node in between and judged.node.type.dtype.is_float:
            with np.errstate(all="ignore"):
                apart = np.abs(left[judged.node].astype(np.float64) - between[judged.node])
            inherited = float(np.where(np.isfinite(apart), apart, 0.0).max(initial=0.0))
        return VerifiedValue(
            self.draw,
            judged.name,
            "its inputs",
            judged.own,
            place(judged.places),
            inherited=inherited,
        )

    def _passes(self, outputs: Mapping[str, Array], exact: Mapping[str, Approximation]) -> None:
        """Checks that the lowered graph computes the same as the user's."""
        for name, value in outputs.items():
            if name not in exact:
                continue
            off = deviation(value, replace_type(exact[name], value), _type(value))
            if not off.right:
                self.passes_wrong = True
                self.symptoms.append(
                    f"output '{name}': a pass changed what the graph means ({off})"
                )

    def _weighed(
        self, outputs: list[VerifiedValue], nodes: list[VerifiedValue]
    ) -> Iterator[VerifiedValue]:
        """The outputs; where every group is within its bound, a wrong output is not judged, since
        its error is amplified from permitted rounding.
        """
        explained = bool(nodes) and not self.symptoms and all(v.right for v in nodes)
        for value in outputs:
            if not value.right and explained:
                self.notes.append(
                    f"{self.draw}: output '{value.name}' is far from the exact value, but every "
                    "group keeps its bound: the model amplifies rounding"
                )
                value = replace(value, judged=False)
            yield value

    def _engine(
        self,
        name: str,
        source: Path | None,
        results: Mapping[str, Array],
        exact: Mapping[str, Approximation],
        judged: bool,
    ) -> list[VerifiedValue]:
        model: Model = self.program.model
        try:
            theirs = ENGINES[name](model, source, self.inputs, 0)()
        except EngineUnavailable as why:
            self.notes.append(f"{name}: {why}")
            return []
        verified = []
        for output, array in results.items():
            if output not in theirs or output not in exact:
                continue
            other = theirs[output]
            if other.shape != array.shape:
                other = other.reshape(array.shape) if other.size == array.size else other
            wide = other.astype(np.float64) if _type(array).is_float else other
            room = Approximation(wide, exact[output].error)
            off = deviation(array, room, _type(array))
            if not off.right:
                theirs_off = deviation(other.astype(array.dtype), exact[output], _type(array))
                self.notes.append(
                    f"{self.draw}: {name} on '{output}' is "
                    + ("near the exact value" if theirs_off.right else "itself far from it")
                )
            verified.append(VerifiedValue(self.draw, output, name, off, judged=judged))
        return verified


def replace_type(meant: Approximation, value: Array) -> Approximation:
    """The meaning in the type of a value in float64."""
    floats = value.dtype == np.float64
    return Approximation(meant.value.astype(np.float64) if floats else meant.value, meant.error)


def _type(array: Array) -> DType:
    return DType.of(array.dtype)
