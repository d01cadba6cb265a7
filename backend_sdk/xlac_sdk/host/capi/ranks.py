"""What the C API of a program has in addition where ranks of a mesh run it together, by MPI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import comment
from xlac_sdk.host.capi.arguments import ArrayArgument
from xlac_sdk.host.ranks.parts import DividedArray, RankParts
from xlac_sdk.programs.constants import WeightsOrigin, file_bytes, weights_hash
from xlac_sdk.programs.program import Program, Slot, exchanges
from xlac_sdk.programs.steps import CollectiveStart


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that exchange values: those that differ along some axes of the mesh alone. `number` is
    the C expression of a rank's number in its group, over `place`, its coordinates in the mesh;
    `first` that of the least rank of the group.
    """

    axes: tuple[str, ...]
    number: str
    first: str


@dataclass(frozen=True, slots=True, eq=False)
class RanksApi:
    """The mesh, its groups in the order of first use, the collectives by number, and where the
    requests of each begin; `hashes` and `file_bytes` are those of the weights of each part. The
    collectives of the stages of a pipeline, `stage_of` for each part, come one stage after another.
    """

    mesh: tuple[tuple[str, int], ...]
    groups: tuple[RankGroup, ...]
    collectives: tuple[CollectiveStart, ...]
    requests: tuple[int, ...]  # the first request of each collective; last, the number of all
    parts: int
    part_of: tuple[int, ...]
    digest: int
    hashes: tuple[int, ...]
    arrays: Mapping[str, DividedArray]
    file_bytes: tuple[int, ...] = ()
    stage_of: tuple[int, ...] = ()
    slots: tuple[frozenset[Slot], ...] = ()  # of the program of each stage
    stage_axis: str = ""

    def holders(self, slot: Slot) -> tuple[int, ...]:
        """For each stage 1 where it has a tensor of the state, else 0."""
        return tuple(int(slot in one) for one in self.slots)

    @property
    def count(self) -> int:
        """The number of ranks."""
        return prod(size for _, size in self.mesh)

    @property
    def title(self) -> str:
        """`data=2,model=4`"""
        return comment(",".join(f"{name}={size}" for name, size in self.mesh))

    @property
    def numbering(self) -> str:
        """How a rank's number follows from its coordinates."""
        return comment(_along(dict(self.mesh), tuple(name for name, _ in self.mesh)))

    @property
    def places(self) -> tuple[str, ...]:
        """C expressions of a rank's coordinates."""
        places, below = list[str](), 1
        for _, size in reversed(self.mesh):
            places.append("0" if size == 1 else f"rank / {below} % {size}")
            below *= size
        return tuple(reversed(places))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the collectives, for messages."""
        return tuple(
            one.origin.name if one.origin else one.exchange.kind for one in self.collectives
        )

    @property
    def extremes(self) -> tuple[tuple[str, DType], ...]:
        """The largest and least of floats that collectives ask for, by combination and type: MPI
        does not define its own where there is a NaN.
        """
        asked = ((one.exchange.combine, one.target.slot.dtype) for one in self.collectives)
        return tuple(dict.fromkeys((c, t) for c, t in asked if c in ("max", "min") and t.is_float))

    def group(self, axes: tuple[str, ...]) -> int:
        """The number of the group along some axes."""
        return next(number for number, group in enumerate(self.groups) if group.axes == axes)

    def about(self, array: ArrayArgument) -> str:
        """How an array is divided, for a comment; "" for one that is the same on all ranks."""
        whole = self.arrays.get(array.slot.name)
        if whole is None or not (any(whole.axes) or whole.partial):
            return ""
        sizes, told = dict(self.mesh), list[str]()
        if whole.partial:
            told.append(f"what this rank adds to the sum along {', '.join(whole.partial)}")
        for axis, (names, size) in enumerate(zip(whole.axes, whole.shape, strict=True)):
            if not names:
                continue
            own = array.slot.shape[axis]
            assert isinstance(own, int)
            number = _along(sizes, names)
            text = f"axis {axis} from {own} * {number if len(names) == 1 else f'({number})'} on"
            padded = own * prod(sizes[name] for name in names) > size
            told.append(text + (f", padded beyond {size}" if padded else ""))
        shape = ", ".join(map(str, whole.shape))
        return comment(f"of [{shape}], " + "; ".join(told))


def _along(sizes: Mapping[str, int], names: tuple[str, ...]) -> str:
    """The number of a rank along axes, in terms of its coordinates."""
    terms = list[str]()
    for at, name in enumerate(names):
        below = prod(sizes[inner] for inner in names[at + 1 :])
        terms.append(name if below == 1 else f"{name} * {below}")
    return " + ".join(terms)


def ranks_api(parts: RankParts, weights: WeightsOrigin) -> RanksApi:
    """The interface of a program that ranks run together, with its weights in a place."""
    mesh = parts.mesh
    collectives = _collectives(parts.firsts)
    groups = dict.fromkeys(one.exchange.axes for one in collectives)
    starts = [0]
    for one in collectives:
        count = {"permute": 2, "axis_index": 0}.get(one.exchange.kind, 1)
        starts.append(starts[-1] + count)
    return RanksApi(
        mesh,
        tuple(_group(mesh, axes) for axes in groups),
        collectives,
        tuple(starts),
        len(parts.programs),
        parts.part_of,
        parts.digest,
        () if weights.inside else tuple(map(weights_hash, parts.programs)),
        parts.arrays,
        () if weights.inside else tuple(map(file_bytes, parts.programs)),
        parts.stage_of,
        tuple(frozenset(one.slots) for one in parts.firsts),
        parts.stage_axis,
    )


def _collectives(programs: Iterable[Program]) -> tuple[CollectiveStart, ...]:
    """The collectives of programs, by number."""
    steps = (step for program in programs for step in exchanges(program.every_step))
    by_number = {step.exchange.number: step for step in steps}
    return tuple(by_number[number] for number in sorted(by_number))


def _group(mesh: tuple[tuple[str, int], ...], axes: tuple[str, ...]) -> RankGroup:
    sizes = dict(mesh)
    at = {name: number for number, (name, _) in enumerate(mesh)}
    number, first, below = list[str](), ["rank"], 1
    for name in reversed(axes):
        number.append(f"place[{at[name]}]" + (f" * {below}" if below > 1 else ""))
        below *= sizes[name]
    for name in axes:
        stride = prod(size for _, size in mesh[at[name] + 1 :])
        first.append(f"place[{at[name]}]" + (f" * {stride}" if stride > 1 else ""))
    return RankGroup(axes, " + ".join(reversed(number)), " - ".join(first))
