"""Lowers each distinct group once: groups with equal structure share their kernels.

A model repeats its blocks; so the sixteen bottlenecks of ResNet-50 cost the lowering, the code and
the compile time of the few that differ. Groups that differ only in scalar constants, as layers of
quantized models do, share them too (`scalar_sharing.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from xlac.codegen.core.lowered_group import (
    BufferCopy,
    KernelLaunch,
    LibraryCall,
    LoweredGroup,
    PackedConstant,
    Scratch,
)
from xlac.codegen.lower import lower
from xlac.codegen.scalar_sharing import SharedKernels, Skeleton, skeleton
from xlac.codegen.schedules.decisions import Decisions, PartMisfit
from xlac.codegen.schedules.digest import digest, named, structure
from xlac.codegen.schedules.document import Asked
from xlac.codegen.schedules.schedule import Schedule
from xlac.codegen.schedules.shipped.database import shipped
from xlac.fusion.group import WITHOUT_KERNELS, Group, Kind, Partition
from xlac.fusion.partition import is_alias
from xlac.fusion.placement import Placements
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac_sdk.support.limits import checkpoint, count_work
from xlac_sdk.target import Target


class LoweringCache:
    """Callable: the lowering of a group, shared by all groups of the same structure. Groups in
    `asked` are lowered with the schedules given there, others with those that ship with the
    compiler, or else with those that it chooses.
    """

    def __init__(self, target: Target, asked: Asked | None = None) -> None:
        """Raises SourceError for schedules that were tuned on another machine."""
        self.target, self.asked = target, asked or Asked()
        self.asked.require(target)
        self.shipped = own = shipped(target) if self.asked.shipped else Asked()
        # where values are to be computed, and which rewrites are to be made
        self.placements = Placements({**own.placements.asked, **self.asked.placements.asked})
        self.rewrites = {**own.rewrites, **self.asked.rewrites}
        self._met: set[str] = set()  # groups and values in `asked` that there are
        self._of_group: dict[Group, LoweredGroup] = {}
        self._of_structure: dict[str, tuple[Group, LoweredGroup]] = {}
        # structures that share kernels with others
        self._sharing: dict[str, tuple[Group, Skeleton, SharedKernels]] = {}
        self._shared: dict[SharedKernels, LoweredGroup] = {}

    def __call__(self, group: Group) -> LoweredGroup:
        if group not in self._of_group:
            self._of_group[group] = self._schedule(group)
        return self._of_group[group]

    def with_temporaries(self, nbytes: int, reorders_sums: bool = False) -> LoweringCache:
        """One for kernels whose temporaries take at most `nbytes`, where there are such; sums may
        be in another order then if it `reorders_sums`. What is met in it counts as met in this one.
        """
        target = replace(self.target, temporary_bytes=nbytes, reorders_sums=reorders_sums)
        smaller = LoweringCache(target, self.asked)
        smaller._met = self._met
        return smaller

    def lowered(self, partition: Partition) -> dict[Group, LoweredGroup]:
        """The kernels or the library call of every group of a partition, and of the bodies inside
        it, in the order in which they run. Aliases, control operations and claimed operations have
        none: they are host steps.
        """
        groups = list(with_kernels(partition))
        self._share(groups)
        return {group: self(group) for group in groups}

    def _share(self, groups: Iterable[Group]) -> None:
        """Finds groups that differ only in scalar constants, and for which the same schedules are
        asked.
        """
        alike: dict[object, dict[str, tuple[Group, Skeleton]]] = {}
        distinct: dict[str, Group] = {}
        for group in groups:
            if group not in self._of_group:
                distinct.setdefault(structure(group), group)
        for own, group in distinct.items():
            if own in self._of_structure:
                continue
            found = skeleton(group, self.target)
            if found is not None:
                which = self._digest(own)
                schedules = str((self.asked.of(which), self.shipped.of(which)))
                alike.setdefault((found.key, schedules), {})[own] = group, found
        for members in alike.values():
            if len(members) > 1:
                first = next(iter(members.values()))[0]
                kernels = SharedKernels(first, [s for _, s in members.values()])
                self._sharing |= {own: (g, s, kernels) for own, (g, s) in members.items()}

    def _schedule(self, group: Group) -> LoweredGroup:
        key = structure(group)
        if key not in self._of_structure:
            self._of_structure[key] = self._lowered(group, key)
        known, lowered = self._of_structure[key]
        return lowered if known is group else translated(known, lowered, group)

    def _lowered(self, group: Group, key: str) -> tuple[Group, LoweredGroup]:
        """Lowers a structure: this group or another one that has it."""
        which = self._digest(key)
        self._met.add(which)
        name = f"{group.anchor.op.mnemonic}_{len(self._of_structure)}"
        if key not in self._sharing:
            return group, self._decided(group, name, which)
        group, own, kernels = self._sharing[key]
        if kernels not in self._shared:
            self._shared[kernels] = self._decided(kernels.group, name, which)
        return group, renamed(self._shared[kernels], kernels.replacements(own))

    def _digest(self, structure: str) -> str:
        """The name of a structure, where there are schedules for some."""
        return named(structure) if self.asked.groups or self.shipped.groups else ""

    def _decided(self, group: Group, name: str, which: str) -> LoweredGroup:
        """Lowers a group with the schedules asked for `which`. Raises SourceError for one that does
        not fit.
        """
        wanted = self.asked.of(which)
        checkpoint(f"kernel {name}")
        if not wanted and (tuned := self.shipped.of(which)):
            decisions = Decisions(name, tuned)
            with suppress(PartMisfit):  # of facts that replace the processor's
                lowered = lower(group, self.target, name, decisions)
                if set(tuned) <= set(decisions.settled) and not self._too_large(lowered):
                    return replace(lowered, schedules=decisions.settled)
        decisions = Decisions(name, wanted)
        try:
            lowered = lower(group, self.target, name, decisions)
        except PartMisfit as error:
            raise self.asked.unfit(which, error) from None
        for part in wanted:
            if part not in decisions.settled:
                raise self.asked.idle(which, part, decisions.settled)
        return replace(lowered, schedules=decisions.settled)

    def _too_large(self, lowered: LoweredGroup) -> bool:
        """Whether a lowered group has a larger temporary than the target asks for."""
        room = self.target.temporary_bytes
        scratch = (v for one in lowered.launches for v in one.arguments if isinstance(v, Scratch))
        return room > 0 and any(room < size_hint(v.size) * v.dtype.nbytes for v in scratch)

    def check_placements(self, partition: Partition) -> None:
        """Raises SourceError for values of a partition that are not computed where it was asked."""
        reasons = self.asked.placements.kept(partition)
        self._met.update(reasons)
        if any(reasons.values()):
            raise self.asked.elsewhere({name: why for name, why in reasons.items() if why})

    def met(self, rewrites: Iterable[str]) -> None:
        """Tells which rewrites there are in the model."""
        self._met.update(rewrites)

    def check_asked(self) -> None:
        """Raises SourceError for schedules of groups that were not lowered, for placements of
        values and for rewrites that there are not, unless they were tuned, as those may be of
        several models.
        """
        if self.asked.tuned is not None:
            return
        groups = [group for group in self.asked.groups if group not in self._met]
        values = [value for value in self.asked.placements.asked if value not in self._met]
        rewrites = [rewrite for rewrite in self.asked.rewrites if rewrite not in self._met]
        if groups or values or rewrites:
            raise self.asked.strange(groups, values, rewrites)

    def table(self) -> dict[str, tuple[Group, Mapping[str, Schedule]]]:
        """The schedules of every group that has kernels, by the name of its structure, with an
        example of such a group.
        """
        lowered_groups = self._of_structure.values()
        return {
            digest(g): (g, lowered.schedules) for g, lowered in lowered_groups if lowered.schedules
        }


def with_kernels(partition: Partition) -> Iterator[Group]:
    """The groups of a partition, and of the bodies inside it, that have kernels or are a call of a
    library, in the order in which they run.
    """
    for group in partition.groups:
        count_work()
        if group.kind is Kind.CONTROL:
            for body in group.anchor.op.bodies():
                yield from with_kernels(partition.inner[body])
        elif group.kind not in WITHOUT_KERNELS and not is_alias(group):
            yield group


def translated(group: Group, lowered: LoweredGroup, other: Group) -> LoweredGroup:
    """Rewrites the lowering of one group to the nodes of another group of the same structure."""
    pairs = zip((*group.inputs, *group.nodes), (*other.inputs, *other.nodes), strict=True)
    return renamed(lowered, dict(pairs))


def renamed(lowered: LoweredGroup, replacements: Mapping[Any, Any]) -> LoweredGroup:
    """Rewrites a lowering to nodes and constants that replace those of its group.

    Every field is traversed, so that anything that refers to nodes is either rewritten or kept.
    """
    translated_kernels: dict[Any, Any] = dict(replacements)

    def of_other(value: Any) -> Any:
        match value:
            case Node():
                return replacements[value]
            case tuple():
                return tuple(map(of_other, value))
            case Scratch() | PackedConstant():
                if value not in translated_kernels:
                    translated_kernels[value] = again(value)
                return translated_kernels[value]
            case LoweredGroup() | KernelLaunch() | LibraryCall() | BufferCopy():
                return again(value)
        return value

    def again(value: Any) -> Any:
        return replace(value, **{f.name: of_other(getattr(value, f.name)) for f in fields(value)})

    translation: LoweredGroup = again(lowered)
    return translation
