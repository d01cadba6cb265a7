"""The ranks of an artefact in its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support import schema
from xlac_sdk.support.counts import number_of

if TYPE_CHECKING:  # most artefacts have no ranks
    from xlac_sdk.host.ranks.parts import RankParts


@dataclass(frozen=True, slots=True)
class MeshAxisFacts:
    """An axis of a mesh."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class DividedFacts:
    """The shape of a whole input or output, and the mesh axes that divide each of its axes."""

    shape: tuple[int, ...]
    axes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class RanksFacts:
    """The mesh of a program that ranks run together, numbered in row-major order; for each rank the
    number of its weights; inputs and outputs by name.
    """

    mesh: tuple[MeshAxisFacts, ...]
    parts: tuple[int, ...]
    arrays: Mapping[str, DividedFacts]

    @staticmethod
    def of(parts: RankParts | None) -> RanksFacts | None:
        """The facts of some ranks; None for a program that one process runs."""
        if parts is None:
            return None
        return RanksFacts(
            tuple(MeshAxisFacts(name, size) for name, size in parts.mesh),
            parts.part_of,
            {name: DividedFacts(one.shape, one.axes) for name, one in parts.arrays.items()},
        )

    def check(self) -> None:
        """Raises ValueError where there are not as many parts as ranks."""
        if prod(axis.size for axis in self.mesh) != len(self.parts):
            raise ValueError("ranks.parts: not as many as the mesh has ranks")

    def alone(self) -> UnsupportedError:
        """The error of a process that would run the artefact by itself."""
        shown = ",".join(f"{axis.name}={axis.size}" for axis in self.mesh)
        problem = f"the artefact is for {number_of(len(self.parts), 'rank')}, mesh {shown}"
        hint = "a program that mpicc builds calls it: docs/DISTRIBUTED.md"
        return UnsupportedError(Diagnostic("XL7806", problem, hint=hint))


_AXIS = schema.record(
    MeshAxisFacts, {"name": schema.text(r"(?s).+"), "size": schema.count(1, 1 << 20)}
)
_DIVIDED = schema.record(
    DividedFacts,
    {
        "shape": schema.many(schema.count(), 64),
        "axes": schema.many(schema.many(schema.text(), 8), 64),
    },
)
_RANKS = schema.record(
    RanksFacts,
    {
        "mesh": schema.many(_AXIS, 8, 1),
        "parts": schema.many(schema.count(), least=1),
        "arrays": schema.table(schema.text(), _DIVIDED),
    },
)


def ranks_of(value: object, place: str) -> RanksFacts:
    """The ranks of an artefact, from a manifest."""
    facts: RanksFacts = _RANKS(value, place)
    return facts
