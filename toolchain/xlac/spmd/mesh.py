"""A mesh of ranks, and which part of a value each of them holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from xlac.ir.op import Array

AxisNames = tuple[str, ...]

Sharding = tuple[AxisNames, ...]
"""For each axis of a value the mesh axes among which it is divided, the first outermost; empty
where every rank has all of it.
"""


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes with their sizes. Ranks are numbered in row-major order."""

    axes: tuple[tuple[str, int], ...]

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each axis, by name."""
        return dict(self.axes)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return prod(size for _, size in self.axes)

    def parts(self, names: AxisNames) -> int:
        """Into how many parts the axes divide something."""
        sizes = self.sizes
        return prod(sizes[name] for name in names)

    def place(self, rank: int) -> dict[str, int]:
        """The coordinates of a rank."""
        shape = tuple(size for _, size in self.axes)
        return dict(
            zip((n for n, _ in self.axes), map(int, np.unravel_index(rank, shape)), strict=True)
        )

    def along(self, rank: int, name: str) -> tuple[int, list[int]]:
        """The place of a rank along an axis, and the ranks there whose other places are its own."""
        own = self.place(rank)
        others = ((n, self.place(n)) for n in range(self.ranks))
        return own[name], [n for n, at in others if {**at, name: own[name]} == own]

    def number(self, rank: int, names: AxisNames) -> int:
        """The number of a rank in its group along some axes."""
        place, sizes, number = self.place(rank), self.sizes, 0
        for name in names:
            number = number * sizes[name] + place[name]
        return number

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes)


def part_size(size: int, parts: int) -> int:
    """The elements of each of `parts` equal parts of an axis; the last ones may be padding."""
    return -(-size // parts)


def slices(mesh: Mesh, rank: int, sharding: Sharding, shape: Sequence[int]) -> tuple[slice, ...]:
    """Which part of an array of `shape` a rank holds, without padding."""
    slices = []
    for names, size in zip(sharding, shape, strict=True):
        part = part_size(size, mesh.parts(names))
        start = min(part * mesh.number(rank, names), size)
        slices.append(slice(start, min(start + part, size)))
    return tuple(slices)


def part_of(array: Array, mesh: Mesh, rank: int, sharding: Sharding) -> Array:
    """A rank's part of a whole array, padded with zeros at the end of axes that have no equal
    parts. A view where nothing is padded.
    """
    own = array[slices(mesh, rank, sharding, array.shape)]
    shape = tuple(
        part_size(size, mesh.parts(names))
        for size, names in zip(array.shape, sharding, strict=True)
    )
    if own.shape == shape:
        return own
    padded: Array = np.zeros(shape, array.dtype)
    padded[tuple(map(slice, own.shape))] = own
    return padded


def distributed(array: Array, mesh: Mesh, sharding: Sharding) -> Array:
    """The parts of all ranks, with the axes of the mesh first."""
    shape = tuple(size for _, size in mesh.axes)
    parts = [part_of(array, mesh, rank, sharding) for rank in range(mesh.ranks)]
    return np.stack(parts).reshape(*shape, *parts[0].shape)


def assembled(
    parts: Mapping[int, Array], mesh: Mesh, sharding: Sharding, shape: Sequence[int]
) -> Array:
    """The whole array from the parts of ranks, by number, without their padding; where ranks hold
    the same part, that of the first.
    """
    whole: Array = np.empty(tuple(shape), next(iter(parts.values())).dtype)
    for rank in sorted(parts, reverse=True):
        place = slices(mesh, rank, sharding, shape)
        held = tuple(slice(at.stop - at.start) for at in place)
        whole[place] = parts[rank][held]
    return whole


def owners(mesh: Mesh, sharding: Sharding) -> Iterator[int]:
    """The least rank of each part."""
    used = {name for names in sharding for name in names}
    for rank in range(mesh.ranks):
        place = mesh.place(rank)
        if not any(place[name] for name in place if name not in used):
            yield rank
