"""The mesh that collectives of a manual computation refer to."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from xlac.ir.op import Array
from xlac.ops.collective.group import MeshAxes

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ManualScope:
    """A manual computation over the axes `own` of a mesh, in others over the axes `outer`.

    Devices are numbered in row-major order of the mesh.
    """

    mesh: MeshAxes
    own: tuple[str, ...]
    outer: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes along which ranks may exchange values, in the order of the mesh."""
        return tuple(name for name, _ in self.mesh if name in self.own or name in self.outer)

    @property
    def devices(self) -> int:
        """The number of devices."""
        return prod(size for _, size in self.mesh)

    @property
    def numbers(self) -> Array:
        """The number of every device, with an axis for each of the mesh."""
        return np.arange(self.devices).reshape([size for _, size in self.mesh])

    def group_axes(self, groups: Array, ordered: bool = True) -> tuple[str, ...] | None:
        """The axes whose groups are the rows of `groups`, numbers of devices; where `ordered`, in
        this order within each group. Empty: every device is alone. None: there are no such axes.
        """
        if sorted(groups.reshape(-1).tolist()) != list(range(self.devices)):
            return None
        rows = groups if ordered else np.sort(groups, axis=1)
        places = np.unravel_index(rows[0], self.numbers.shape)
        # the axis that changes last from the first member of a group is the outermost
        first = {
            n: int(np.argmax(place != place[0]))
            for n, place in enumerate(places)
            if (place != place[0]).any()
        }
        chosen = sorted(first, key=lambda n: -first[n])
        return self._named(chosen) if self._rows(chosen) == {*map(tuple, rows.tolist())} else None

    def _rows(self, chosen: list[int]) -> set[tuple[int, ...]]:
        """The groups of devices that differ along some axes alone."""
        others = [n for n in range(len(self.mesh)) if n not in chosen]
        size = prod(self.mesh[n][1] for n in chosen)
        return {*map(tuple, self.numbers.transpose(*others, *chosen).reshape(-1, size).tolist())}

    def _named(self, chosen: list[int]) -> tuple[str, ...] | None:
        names = tuple(self.mesh[n][0] for n in chosen)
        return names if {*names} <= {*self.axes} else None

    def number_in_group(self, device: int, axes: tuple[str, ...]) -> int:
        """The number of a device in its group along some axes."""
        place = np.unravel_index(device, self.numbers.shape)
        names, sizes, number = [name for name, _ in self.mesh], dict(self.mesh), 0
        for axis in axes:
            number = number * sizes[axis] + int(place[names.index(axis)])
        return number

    def permutation(self, pairs: Array) -> tuple[tuple[str, ...], Pairs] | None:
        """The fewest axes within whose groups pairs of devices, a source and a target, all move
        alike; and the pairs of numbers in a group. None: not even along all axes.
        """
        if pairs.size and not 0 <= pairs.min() <= pairs.max() < self.devices:
            return None
        if pairs.size == 0:
            return self.axes, ()
        places = [np.unravel_index(side, self.numbers.shape) for side in pairs.T]
        moving = tuple(
            name for n, (name, _) in enumerate(self.mesh) if (places[0][n] != places[1][n]).any()
        )
        for axes in (moving, self.axes):
            if axes and {*axes} <= {*self.axes} and (found := self._alike(pairs, axes)):
                return axes, found
        return None

    def _alike(self, pairs: Array, axes: tuple[str, ...]) -> Pairs | None:
        """The pairs within a group, where they are those of every group."""
        names = [name for name, _ in self.mesh]
        others = [n for n, name in enumerate(names) if name not in axes]
        groups: dict[tuple[int, ...], set[tuple[int, int]]] = {}
        for source, target in pairs.tolist():
            here, there = (np.unravel_index(d, self.numbers.shape) for d in (source, target))
            if any(here[n] != there[n] for n in others):
                return None
            number = self.number_in_group(source, axes), self.number_in_group(target, axes)
            groups.setdefault(tuple(int(here[n]) for n in others), set()).add(number)
        count = prod(self.mesh[n][1] for n in others)
        first = next(iter(groups.values()))
        same = len(groups) == count and all(found == first for found in groups.values())
        return tuple(sorted(first)) if same else None
