"""Which axes of the mesh divide the factors of an operation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xlac.spmd.mesh import AxisNames, Mesh, Sharding
from xlac.spmd.rules.rule import Dims, Factor, ShardingRule

Assignment = Mapping[Factor, AxisNames]
"""The mesh axes among which each factor of a node is divided."""


def assigned(
    rule: ShardingRule,
    operands: Sequence[Sharding],
    results: Sequence[Sharding],
    mesh: Mesh,
    but: Collection[Factor] = (),
) -> dict[Factor, AxisNames]:
    """The mesh axes of each factor: as the results are to be divided, else as the operands are; of
    the factors `but`, none.

    A mesh axis divides one factor of a node at most: of several axes that divide a factor, those
    that another has are left out. Where one divides a sum in all operands, they stay where they
    are: the partial sums are combined.
    """
    said: dict[Factor, list[AxisNames]] = {f: [] for f in rule.combine}
    _note_all(said, rule.operands, operands)
    said = {f: s for f, s in said.items() if f in rule.combine and s and len(set(s)) == 1}
    _note_all(said, rule.results, results)
    _note_all(said, rule.operands, operands)
    axes: dict[Factor, AxisNames] = {}
    used: set[str] = set()
    for factor, options in said.items():
        for said_names in options if factor not in but else ():
            names = without(said_names, used)
            if names and rule.fits(factor, mesh.parts(names)):
                axes[factor] = names
                used |= set(names)
                break
    return axes


def without(names: AxisNames, used: Collection[str]) -> AxisNames:
    """The mesh axes that nothing else uses."""
    return tuple(name for name in names if name not in used)


def _note_all(
    said: dict[Factor, list[AxisNames]], every: Sequence[Dims], shardings: Sequence[Sharding]
) -> None:
    for dims, sharding in zip(every, shardings, strict=True):
        for factor, names in zip(dims, sharding, strict=True):
            if factor is not None:
                said.setdefault(factor, []).append(names)


def sharding_of(dims: Dims, axes: Assignment) -> Sharding:
    """How a value with such factors is divided."""
    return tuple(() if factor is None else axes.get(factor, ()) for factor in dims)
