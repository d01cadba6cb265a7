"""Shardings of GSPMD (`mhlo.sharding`) as those of Shardy.

They list devices and name no axes. A module's axes are the fewest with which each of its shardings,
and each group of its collectives, is along whole axes; they are called d0, d1, …, from that along
which the numbers of devices differ most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from xlac.frontends.stablehlo.text.syntax import MlirRegion, Module, Operation

SHARDING = "mhlo.sharding"
MESH = "gspmd"
TILES = re.compile(
    r"\{ ?devices=\[(\d{1,7}(?:,\d{1,7})*)\]"
    r"(?:<=\[(\d{1,7}(?:,\d{1,7})*)\](?:T\((\d{1,2}(?:,\d{1,2})*)\))?|(\d{1,7}(?:,\d{1,7})*))"
    r"( ?last_tile_dim_replicate| ?last_tile_dims=\{([^{}]*)\})?"
)
MOST = 1 << 17  # devices

Pieces = list[tuple[int, int]]
"""Loops over devices, the outermost first: the distance of their numbers, and how many there
are.
"""


def with_named_axes(module: Module) -> Module:
    """The module with Shardy's mesh and shardings in place of GSPMD's, if it has these alone."""
    if module.meshes or not (texts := {*_texts(module)}):
        return module
    tiles = {text: found for text in texts if (found := tiled(text)) is not None}
    axes = _axes(list(tiles.values()), module)
    if axes is None:
        return module
    named = {text: _shardy(found, axes) for text, found in tiles.items()}

    def region(old: MlirRegion) -> MlirRegion:
        operations = [operation(op) for op in old.operations]
        return MlirRegion(old.arguments, operations, old.at)

    def operation(op: Operation) -> Operation:
        regions = [region(inner) for inner in op.regions]
        return replace(op, attributes=_renamed(op.attributes, named), regions=regions)

    functions = {
        name: replace(
            function,
            attributes=[_renamed(given, named) for given in function.attributes],
            body=region(function.body),
        )
        for name, function in module.functions.items()
    }
    shown = ", ".join(f'"d{n}"={size}' for n, (_, size) in enumerate(axes))
    return replace(module, functions=functions, meshes={MESH: f"[{shown}]"})


def _renamed(given: Mapping[str, Any], named: Mapping[str, str]) -> Mapping[str, Any]:
    text = given.get(SHARDING)
    known = named.get(text) if isinstance(text, str) else None
    return given if known is None else {**given, "sdy.sharding": known}


def _texts(module: Module) -> Iterator[str]:
    """The shardings of a module."""
    for function in module.functions.values():
        for given in (*function.attributes, *(op.attributes for op in _all(function.body))):
            if isinstance(text := given.get(SHARDING), str):
                yield text


def _all(region: MlirRegion) -> Iterator[Operation]:
    for op in region.operations:
        yield op
        for inner in op.regions:
            yield from _all(inner)


def tiled(text: str) -> list[Pieces] | None:
    """For each axis of a value the loops over devices that divide it, and those of the devices that
    have the same; None for a sharding that is no division.
    """
    match = TILES.match(" ".join(text.split()))
    if match is None or (match[6] or "replicated").strip() != "replicated":
        return None
    tiles = [int(n) for n in match[1].split(",")]
    count = prod(tiles)
    if not 0 < count <= MOST:
        return None
    devices = _devices(match, count)
    pieces = None if devices is None else loops(devices)
    if pieces is None:
        return None
    found = _consumed(pieces, tiles)
    return found if found is None or match[5] is None else found[:-1]


def _devices(match: re.Match[str], count: int) -> np.ndarray[Any, Any] | None:
    """The numbers of devices in the order of the tiles."""
    if match[4]:
        devices = np.array([int(n) for n in match[4].split(",")])
        return devices if len(devices) == count else None
    shape = [int(n) for n in match[2].split(",")]
    order = [int(n) for n in match[3].split(",")] if match[3] else list(range(len(shape)))
    if prod(shape) != count or sorted(order) != list(range(len(shape))):
        return None
    return np.arange(count).reshape(shape).transpose(order).reshape(-1)


def loops(devices: np.ndarray[Any, Any]) -> Pieces | None:
    """The loops that give numbers of devices, which begin with 0; None where there are none."""
    count, inner, pieces = len(devices), 1, Pieces()
    while inner < count:
        step, times = int(devices[inner]), 1
        while inner * times < count and devices[inner * times] == step * times:
            times += 1
        pieces.insert(0, (step, times))
        inner *= times
    made = np.zeros(1, np.int64)
    for step, times in pieces:
        made = (made[:, None] + np.arange(times) * step).reshape(-1)
    return pieces if inner == count and np.array_equal(made, devices) else None


def _consumed(pieces: Pieces, tiles: Sequence[int]) -> list[Pieces] | None:
    """The loops of each number of tiles, which split them where they end within one."""
    left, found = list(pieces), []
    for tile in tiles:
        own, need = Pieces(), tile
        while need > 1:
            step, times = left.pop(0)
            if times <= need and need % times == 0:
                own.append((step, times))
                need //= times
            elif times % need == 0:
                own.append((step * (times // need), need))
                left.insert(0, (step, times // need))
                need = 1
            else:
                return None
        found.append(own)
    return found


def _axes(tiles: Sequence[Sequence[Pieces]], module: Module) -> Pieces | None:
    """The axes, the outermost first; None where loops do not fit into one mesh."""
    count = module.attributes.get("mhlo.num_partitions")
    every = [piece for each in tiles for pieces in each for piece in pieces]
    every += [(1, count)] if isinstance(count, int) and 0 < count <= MOST else []
    for function in module.functions.values():
        for op in _all(function.body):
            groups = op.attributes.get("replica_groups")
            if isinstance(groups, np.ndarray) and groups.ndim == 2 and groups.size:
                row = np.sort(groups[0])
                every += loops(row - row[0]) or []
    ends = sorted({1, *(step for step, _ in every), *(step * times for step, times in every)})
    pairs = list(pairwise(ends))
    if len(ends) < 2 or any(high % low for low, high in pairs):
        return None
    return [(low, high // low) for low, high in reversed(pairs)]


def _shardy(tiles: Sequence[Pieces], axes: Pieces) -> str:
    """A sharding in Shardy's words."""
    parts = []
    for pieces in tiles:
        names = [
            f'"d{n}"'
            for step, times in pieces
            for n, (stride, size) in enumerate(axes)
            if step <= stride and stride * size <= step * times
        ]
        parts.append("{" + ", ".join(names) + "}")
    return f"<@{MESH}, [{', '.join(parts)}]>"
