"""Chooses places by memory and predicted time: each device computes one run of nodes, in the order
of the graph.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import escape
from itertools import accumulate

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Elementwise
from xlac.model import Model, SaidPlace
from xlac.ops.control.control import Pick
from xlac.ops.cost import cost
from xlac.ops.tensor.leaf import Const, Param
from xlac.placement.cut import nbytes
from xlac.placement.devices import LEAVES
from xlac_sdk.programs.program import Program, Role
from xlac_sdk.source import Diagnostic, LimitError, UnsupportedError

MOST_DEVICES = 4
MOST_PARTS = 200
"""Into how many parts a long model is cut at most; a run of nodes is some of them."""


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
    """What was chosen: runs in order, and the predicted time and bytes of copies between them."""

    runs: tuple[DeviceRun, ...]
    copies: float
    crossing: int

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
        total = self.copies + sum(run.seconds for run in self.runs)
        lines.append(
            f"copies of {self.crossing:,} bytes: {_time(self.copies)}; in all {_time(total)}"
        )
        return "\n".join(lines)


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
        return _Choice(self, _Parts.of(model.graph)).best()

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


@dataclass(slots=True, eq=False)
class _Parts:
    """The nodes of a graph in parts, in order, each with its paths."""

    paths: list[list[str]]
    nodes: list[list[Node]]
    weights: list[dict[Node, int]] = field(default_factory=list)  # that a part reads, with bytes
    live: list[int] = field(default_factory=list)  # bytes of values while a part is computed
    crossing: list[int] = field(default_factory=list)  # bytes that are read from a part on

    @staticmethod
    def of(graph: Graph) -> _Parts:
        """Nodes of one path together; those without a path with the next that has one."""
        computed = [n for n in graph.order if not isinstance(n.op, (*LEAVES, Pick))]
        every = list(dict.fromkeys(n.name for n in computed if n.name))
        size = -(-len(every) // MOST_PARTS) or 1
        number = {path: at // size for at, path in enumerate(every)}
        count = -(-len(every) // size)
        made = _Parts([every[n * size : (n + 1) * size] for n in range(count)], [])
        made.nodes = [[] for _ in range(count)]
        at: dict[Node, int] = {}
        last = max(count - 1, 0)
        for node in reversed(computed):
            last = number.get(node.name, last)
            at[node] = last
            if made.nodes:
                made.nodes[last].append(node)
        made._weigh(graph, at)
        return made

    def _weigh(self, graph: Graph, at: Mapping[Node, int]) -> None:
        count = len(self.nodes)
        self.weights = [{} for _ in range(count)]
        ends: dict[Node, int] = dict.fromkeys(graph.outputs.values(), count - 1)
        for node, part in at.items():
            for given in node.inputs:
                source = given.inputs[0] if isinstance(given.op, Pick) else given
                if isinstance(source.op, Const) or (
                    isinstance(source.op, Param) and source.op.kind != "input"
                ):
                    self.weights[part][source] = nbytes(source)
                else:
                    ends[source] = max(ends.get(source, part), part)
        live, crossing = [0] * (count + 1), [0] * (count + 1)
        for node, end in ends.items():
            begin = at.get(node, 0)
            amount = nbytes(node)
            live[begin] += amount
            live[end + 1] -= amount
            if node in at and end > begin:
                crossing[begin + 1] += amount
                crossing[end + 1] -= amount
        self.live = list(accumulate(live))[:count]
        self.crossing = list(accumulate(crossing))[:count]


@dataclass(slots=True, eq=False)
class _Choice:
    """The search: for each set of devices that are taken and each number of parts that they have,
    the least time.
    """

    asked: AutomaticPlaces
    parts: _Parts
    sums: dict[str, list[float]] = field(init=False)  # seconds of the first parts, by target

    def best(self) -> ChosenPlaces:
        count, targets = len(self.parts.nodes), list(self.asked.devices)
        if not count:
            return ChosenPlaces((DeviceRun(targets[0], (), 0.0, 0),), 0.0, 0)
        self.sums = {
            target: [0.0, *accumulate(sum(map(device.seconds, n)) for n in self.parts.nodes)]
            for target, device in self.asked.devices.items()
        }
        found: dict[tuple[frozenset[str], int], tuple[float, tuple[tuple[str, int], ...]]]
        found = {(frozenset(), 0): (0.0, ())}
        for start in range(count):
            here = [(key[0], value) for key, value in found.items() if key[1] == start]
            if not here:
                continue
            needs = list(self._needs(start))
            copy = self._copy(start) if start else 0.0
            for taken, (seconds, ends) in here:
                for target in targets:
                    if target in taken:
                        continue
                    for stop in range(start + 1, start + 1 + self._room(target, needs)):
                        now = seconds + copy + self.sums[target][stop] - self.sums[target][start]
                        key = (taken | {target}, stop)
                        if key not in found or now < found[key][0]:
                            found[key] = (now, (*ends, (target, stop)))
        whole = [value for (_, stop), value in found.items() if stop == count]
        if not whole:
            raise self._too_large()
        return self._told(min(whole)[1])

    def _needs(self, start: int) -> Iterator[int]:
        """The bytes that a run from a part on needs, for every number of parts."""
        held: set[Node] = set()
        weights = most = 0
        for read, live in zip(self.parts.weights[start:], self.parts.live[start:], strict=True):
            weights += sum(amount for node, amount in read.items() if node not in held)
            held |= read.keys()
            most = max(most, live)
            yield weights + most

    def _room(self, target: str, needs: Sequence[int]) -> int:
        """How many parts fit on a device; `needs` grows."""
        limit = self.asked.devices[target].memory
        return len(needs) if limit is None else bisect_right(needs, limit)

    def _copy(self, start: int) -> float:
        return self.asked.latency + self.parts.crossing[start] / self.asked.rate

    def _told(self, ends: Sequence[tuple[str, int]]) -> ChosenPlaces:
        runs, start, copies, crossing = [], 0, 0.0, 0
        for target, stop in ends:
            paths = tuple(path for part in self.parts.paths[start:stop] for path in part)
            seconds = self.sums[target][stop] - self.sums[target][start]
            needs = list(self._needs(start))[stop - start - 1]
            runs.append(DeviceRun(target, paths, seconds, needs))
            if start:
                copies, crossing = copies + self._copy(start), crossing + self.parts.crossing[start]
            start = stop
        return ChosenPlaces(tuple(runs), copies, crossing)

    def _too_large(self) -> LimitError:
        whole = list(self._needs(0))[-1]
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
