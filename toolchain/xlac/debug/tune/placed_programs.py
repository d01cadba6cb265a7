"""Programs of a whole model with other rewrites, or some values computed elsewhere than where
fusion put them, timed in turn: the groups that only one of the two has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xlac.codegen.schedules.digest import digest
from xlac.codegen.schedules.document import Asked
from xlac.codegen.schedules.schedule import Schedule
from xlac.debug import profile
from xlac.debug.compare import agree
from xlac.debug.decisions import label
from xlac.debug.errors.propagate import outputs_of
from xlac.debug.tune.stamped_model import (
    GroupsOfKernels,
    StampedModel,
    TunedModel,
    in_turn,
    lower_quartile,
)
from xlac.debug.verify.subject import promise_of, same_bits
from xlac.driver import Lowered
from xlac.fusion.group import Group, Placement, origins
from xlac.fusion.placement import Placements, named_choices, partitions
from xlac.passes.rewrite.choices import APPLIED, LEFT, WORDS
from xlac_sdk.source import XlacError

Answer = dict[str, Any]
Placed = Mapping[str, str]
"""Where values are computed, and whether rewrites are made, by name in words."""

Groups = Mapping[str, Mapping[str, Schedule]]

KEPT = 3  # programs that are not built again


def asked_of(placed: Placed, groups: Groups | None = None) -> Asked:
    """Rewrites and placements from plain data, beside schedules of groups."""
    words = {each.value: each for each in Placement}
    return Asked(
        groups or {},
        Placements({name: words[word] for name, word in placed.items() if word in words}),
        {name: WORDS[word] for name, word in placed.items() if word in WORDS},
        every_rewrite=True,
    )


class PlacedPrograms:
    """Lowers, builds and times a model with other rewrites and values computed elsewhere."""

    def __init__(self, model: TunedModel) -> None:
        self.model = model
        self.built: dict[str, StampedModel] = {}

    def rewrites(self, seconds: float) -> list[Answer]:
        """The rewrites about which there is a choice, with the other answer, and the share of a
        call of the groups that compute what they are about (1 where that is unknown); the largest
        first.
        """
        lowered = self.model.lowered_with(asked_of({}))
        choices = lowered.choices.named()
        if not choices:
            return []
        groups = [g for part in partitions(lowered.fused) for g in part.groups]
        share, described = self._share(lowered, seconds), []
        for name, one in choices.items():
            place = one.node.origin
            near = [g for g in groups if place is not None and place in origins(g)]
            other = LEFT if one.applied else APPLIED
            what = f"{one.what}: {label(one.node)}"
            took = share(near) if near else 1.0
            described.append({"name": name, "what": what, "others": [other], "share": took})
        return sorted(described, key=lambda answer: -answer["share"])

    def choices(self, seconds: float, placed: Placed) -> list[Answer]:
        """The values about which fusion has a choice, with what may be chosen instead, and the
        share of a call of the groups that compute or read it; the largest first.
        """
        lowered = self.model.lowered_with(asked_of(placed)) if placed else self.model.lowered
        groups = [g for part in partitions(lowered.fused) for g in part.groups]
        share, described = self._share(lowered, seconds), []
        for name, (node, now) in named_choices(lowered.fused).items():
            near = [g for g in groups if node in g.members or node in g.inputs]
            described.append(
                {
                    "name": name,
                    "what": f"{label(node)} {node.types}",
                    "now": now.value,
                    "others": [p.value for p in Placement if p is not now],
                    "share": share(near),
                }
            )
        return sorted(described, key=lambda one: -one["share"])

    def _share(self, lowered: Lowered, seconds: float) -> Callable[[Iterable[Group]], float]:
        """What gives the share of a call that some groups take."""
        model, spent = self.model, dict[str, float]()
        kernels = GroupsOfKernels(lowered)
        profiled = profile.take(lowered, model.backend, model.inputs, seconds, model.begin)
        for row in profiled.rows:
            if (name := kernels.group_of(row.name)) is not None:
                spent[name] = spent.get(name, 0.0) + row.seconds

        def share(groups: Iterable[Group]) -> float:
            took = sum(spent.get(one, 0.0) for one in {digest(group) for group in groups})
            return took / max(profiled.seconds, 1e-12)

        return share

    def race(
        self, best: Placed, other: Placed, seconds: float, rounding: bool, limit: float
    ) -> Answer:
        """Times the model with other placements beside the best ones: how many times as long the
        groups take that only one of them has. The results of one that takes at most `limit` times
        as long are compared with those of the compiler's placements.
        """
        try:
            second = self.program(other)
        except XlacError as error:
            return {"why": "misfit", "text": str(error)}
        pairs = self.pairs(best, other, seconds, 1)
        if not pairs:
            return {"why": "same"}
        before, after = pairs[0]
        if after <= limit * before and not self.alike(second, rounding):
            return {"why": "rounding"}
        return {"why": "measured", "ratio": after / before}

    def pairs(
        self, best: Placed, other: Placed, seconds: float, bursts: int
    ) -> list[tuple[float, float]]:
        """Seconds of the groups that only one of two programs has, by burst: the lower quartiles of
        calls in turn. Empty where both have the same.
        """
        sides = self.program(best), self.program(other)
        counts = [{name: len(steps) for name, steps in s.of_step.items()} for s in sides]
        names = [n for n in counts[0] | counts[1] if counts[0].get(n) != counts[1].get(n)]
        found: list[tuple[float, float]] = []
        for _ in range(bursts if names else 0):
            before, after = (
                lower_quartile(sum(call.get(name, 0.0) for name in names) for call in calls)
                for calls in in_turn(*sides, seconds / bursts)
            )
            if before > 0 and after > 0:
                found.append((before * sides[0].rate(), after * sides[0].rate()))
        return found

    def program(self, placed: Placed) -> StampedModel:
        """The model with values computed where it is asked. Raises SourceError where they cannot
        be. The last few are kept, and that with the compiler's placements.
        """
        key = json.dumps(sorted(placed.items()))
        if key not in self.built:
            lowered = self.model.lowered_with(asked_of(placed)) if placed else self.model.lowered
            made = StampedModel(self.model, lowered)
            while len(self.built) > KEPT:
                self.built.pop(next(one for one in self.built if one != "[]"))
            self.built[key] = made
        return self.built[key]

    def alike(self, program: StampedModel, rounding: bool) -> bool:
        """Whether the results of the first call are those with the compiler's placements, to the
        bit; or, where `rounding` may change, within the documented error of the exact ones (which
        depend on earlier calls where a model has state: then never).
        """
        usual = self.program({}).outputs
        if all(same_bits(usual[name], array) for name, array in program.outputs.items()):
            return True
        model = self.model.lowered.model
        if not rounding or model.state:
            return False
        names = (slot.name for slot in self.model.lowered.program.inputs)
        given = dict(zip(names, self.model.inputs, strict=True))
        promise = promise_of(self.model.lowered.target, model)
        meant = outputs_of(model.graph, given, model.weights, promise)
        return all(agree(meant[name], array) for name, array in program.outputs.items())
