"""Chooses places by memory and predicted time: each device computes one run of nodes, in the order
of the graph.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape
from itertools import accumulate

from xlac.ir.graph import Node
from xlac.ir.op import Elementwise
from xlac.model import Model, SaidPlace
from xlac.ops.cost import cost
from xlac.placement.model_parts import MOST_PARTS, ModelParts
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.source import Diagnostic, LimitError, UnsupportedError

MOST_DEVICES = 4
MOST_PARTS_OF_FOUR = 40
"""Into how many parts a model is cut for so many devices, as all runs of parts are tried."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What a device has: bytes for weights, state and values, None for any number; and operations,
    and bytes of its memory, in a second.
    """

    memory: int | None = None
    flops: float = 100e9
    rate: float = 20e9

    def holds(self, needed: int) -> bool:
        """Whether so many bytes fit."""
        return self.memory is None or needed <= self.memory

    def seconds(self, node: Node) -> float:
        """The predicted time of a node; element-wise ones are fused, and move no bytes."""
        needs = cost(node)
        moved = 0 if isinstance(node.op, Elementwise) else needs.read + needs.written
        return self.takes(needs.flops, moved)

    def takes(self, flops: float, moved: float) -> float:
        """The predicted time of so many operations and bytes."""
        return max(flops / self.flops, moved / self.rate)


@dataclass(frozen=True, slots=True)
class DeviceRun:
    """Nodes of a device, by the first and the last path: the predicted time, and bytes that its
    weights and values need at most.
    """

    target: str
    paths: tuple[str, ...]
    seconds: float
    memory: int


@dataclass(frozen=True, slots=True)
class ChosenPlaces:
    """What was chosen: runs in order; the predicted time and bytes of copies between them; and the
    part of that time in which a run between them computes.
    """

    runs: tuple[DeviceRun, ...]
    copies: float
    crossing: int
    hidden: float = 0.0

    @property
    def places(self) -> tuple[SaidPlace, ...]:
        """The places, of which that of the longest run names all nodes that no other does."""
        most = max(self.runs, key=lambda run: len(run.paths))
        said = [(path, run.target) for run in self.runs if run is not most for path in run.paths]
        said.sort(key=lambda one: -len(one[0]))  # what is inside of a block before the block
        named = [SaidPlace(escape(path), (target,)) for path, target in said]
        return (*named, SaidPlace("*", (most.target,)))

    def told(self, devices: Mapping[str, DeviceLimits]) -> str:
        """A line for each run, and one for the copies."""
        lines = []
        for run in self.runs:
            limit = devices[run.target].memory
            of = "" if limit is None else f" of {limit:,}"
            ends = run.paths[0] if len(run.paths) == 1 else f"{run.paths[0]} … {run.paths[-1]}"
            lines.append(
                f"chosen: {ends} on {run.target}: {_time(run.seconds)} predicted, at most "
                f"{run.memory:,}{of} bytes"
            )
        hidden = f", of which {_time(self.hidden)} are hidden" if self.hidden > 1e-9 else ""
        lines.append(
            f"copies of {self.crossing:,} bytes: {_time(self.copies)}{hidden}; "
            f"in all {_time(self.seconds)}"
        )
        return "\n".join(lines)

    @property
    def seconds(self) -> float:
        """The predicted time of a call."""
        return sum(run.seconds for run in self.runs) + self.copies - self.hidden


@dataclass(frozen=True, slots=True)
class AutomaticPlaces:
    """Places that are to be chosen for a model: among `devices`, by target, with copies between
    them of `rate` bytes a second after `latency` seconds.
    """

    devices: Mapping[str, DeviceLimits]
    latency: float = 5e-6
    rate: float = 10e9

    def chosen(self, model: Model) -> ChosenPlaces:
        """The places of the least predicted time within the limits. Raises LimitError where there
        are none, and UnsupportedError for too many devices.
        """
        if not 1 <= len(self.devices) <= MOST_DEVICES:
            problem = f"places are chosen among {MOST_DEVICES} devices at most"
            raise UnsupportedError(Diagnostic("XL7835", problem, hint="name some of them"))
        most = MOST_PARTS if len(self.devices) < MOST_DEVICES else MOST_PARTS_OF_FOUR
        return _Choice(self, ModelParts.of(model.graph, most)).best()

    def check(self, programs: Iterable[tuple[str, Program]]) -> None:
        """Raises LimitError for a device whose programs, now that they are there, need more than
        it has.
        """
        needed: dict[str, int] = {}
        for target, one in programs:
            weights = sum(slot.nbytes for slot in one.slots if slot.role is Role.CONSTANT)
            amount = one.arena_bytes + one.state_bytes + weights
            needed[target] = needed.get(target, 0) + amount
        for target, amount in needed.items():
            device = self.devices.get(target)
            if device is not None and not device.holds(amount):
                problem = f"{target} is given {device.memory:,} bytes, and needs {amount:,}"
                hint = "state a smaller limit, so that fewer nodes are placed there"
                raise LimitError(Diagnostic("XL7835", problem, hint=hint))


@dataclass(frozen=True, slots=True)
class _Taken:
    """A run of parts on a device, after others, and when it ends."""

    target: str
    parts: tuple[int, int]
    end: float


@dataclass(slots=True, eq=False)
class _Choice:
    """The search: all runs that fit are tried, but for those whose beginnings take longer than a
    whole that was found.
    """

    asked: AutomaticPlaces
    parts: ModelParts
    sums: dict[str, list[float]] = field(init=False)  # seconds of the first parts, by target
    needed: dict[int, list[int]] = field(init=False, default_factory=dict)  # bytes, by first part
    found: tuple[_Taken, ...] = field(init=False, default=())

    def best(self) -> ChosenPlaces:
        count, targets = len(self.parts.nodes), list(self.asked.devices)
        if not count:
            return ChosenPlaces((DeviceRun(targets[0], (), 0.0, 0),), 0.0, 0)
        self.sums = {
            target: [0.0, *accumulate(sum(map(device.seconds, n)) for n in self.parts.nodes)]
            for target, device in self.asked.devices.items()
        }
        self._try((), targets)
        if not self.found:
            raise self._too_large()
        return self._told(self.found)

    def _try(self, taken: tuple[_Taken, ...], left: Sequence[str]) -> None:
        """Tries all runs of the devices that are left, after those that are taken."""
        count, start = len(self.parts.nodes), taken[-1].parts[1] if taken else 0
        for target in left:
            others = [other for other in left if other != target]
            last = start + self._room(target, start)
            for stop in range(last if not others else start + 1, last + 1):
                if start < stop <= count and (others or stop == count):
                    end = self._end(taken, target, start, stop)
                    now = (*taken, _Taken(target, (start, stop), end))
                    if self.found and end >= self.found[-1].end:
                        break  # longer runs end later
                    if stop == count:
                        self.found = now
                    else:
                        self._try(now, others)

    def _end(self, taken: Sequence[_Taken], target: str, start: int, stop: int) -> float:
        """When a run ends. It begins when the one before has ended and all that it reads is there;
        copies of what is read later pass meanwhile.
        """
        begin = taken[-1].end if taken else 0.0
        for one in taken:
            nbytes = self.parts.passing(one.parts, (start, stop))
            if nbytes:
                begin = max(begin, one.end + self._copy(nbytes))
        return begin + self.sums[target][stop] - self.sums[target][start]

    def _needs(self, start: int) -> list[int]:
        """The bytes that a run from a part on needs, for every number of parts."""
        if start not in self.needed:
            held: set[Node] = set()
            weights = most = 0
            needs = self.needed[start] = []
            for read, live in zip(self.parts.weights[start:], self.parts.live[start:], strict=True):
                weights += sum(amount for node, amount in read.items() if node not in held)
                held |= read.keys()
                most = max(most, live)
                needs.append(weights + most)
        return self.needed[start]

    def _room(self, target: str, start: int) -> int:
        """How many parts from one on fit on a device."""
        limit, needs = self.asked.devices[target].memory, self._needs(start)
        return len(needs) if limit is None else bisect_right(needs, limit)

    def _copy(self, nbytes: int) -> float:
        return self.asked.latency + nbytes / self.asked.rate

    def _told(self, taken: Sequence[_Taken]) -> ChosenPlaces:
        runs, copies, crossing = [], 0.0, 0
        for number, one in enumerate(taken):
            start, stop = one.parts
            paths = tuple(path for part in self.parts.paths[start:stop] for path in part)
            seconds = self.sums[one.target][stop] - self.sums[one.target][start]
            runs.append(DeviceRun(one.target, paths, seconds, self._needs(start)[stop - start - 1]))
            for before in taken[:number]:
                nbytes = self.parts.passing(before.parts, one.parts)
                crossing += nbytes
                copies += self._copy(nbytes) if nbytes else 0.0
        waited = taken[-1].end - sum(run.seconds for run in runs)
        return ChosenPlaces(tuple(runs), copies, crossing, max(0.0, copies - waited))

    def _too_large(self) -> LimitError:
        whole = self._needs(0)[-1]
        limits = ", ".join(
            f"{target} {device.memory:,}"
            for target, device in self.asked.devices.items()
            if device.memory is not None
        )
        problem = f"no placement fits: the model needs up to {whole:,} bytes, of {limits}"
        hint = "a target without a limit, such as --target cpu, takes what does not fit elsewhere"
        return LimitError(Diagnostic("XL7835", problem, hint=hint))


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:,.1f} us"
