"""Measures a device through its backend: arithmetic, bandwidth of each level, cost of a launch,
width of exchanges and of accesses, how many blocks run at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from xlac_sdk.backend import Backend
from xlac_sdk.machine import measuring
from xlac_sdk.machine.measuring import PARTS, Probes, TimedProbe
from xlac_sdk.machine_facts import LIMITS, TUNABLE
from xlac_sdk.programs.program import Program
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.target import Request, Target
from xlac_sdk.tuning import conclusions
from xlac_sdk.tuning import probe_kernels as kernels
from xlac_sdk.tuning.timing import Run, Times, compiled

CHAIN = 400_000  # turns, of DEEP cycles each: two milliseconds
MOVED = 32 << 20  # bytes that a reading probe reads at least
SIZES = tuple(1 << n for n in range(12, 27))  # that are read again and again
REGISTERS = (8, 16, 32, 64)
SUMS = (4, 6, 12, 14, 24, 28, 48, 56)
CACHES = ("l1_bytes", "l2_bytes", "l3_bytes")
LIVE = 64  # sums of a thread in a tile of a matrix product
WIDTHS = (4, 8, 16, 32, 64, 128)  # bytes of a vector, or of a thread's access
FEW, MANY = 1, 65  # launches of a program
TURNS = 100_000  # of multiply-adds
FITTING = 12  # sums that hide the latency of multiply-adds and fit 16 registers
DEPTHS = (1, 2)  # exponentials of an element, in elementwise kernels
Tell = Callable[[str], object]


@dataclass
class Tuning:
    """What was found: facts of the target and of its hardware, by name, and what was measured."""

    facts: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)


def tune(backend: Backend, target: Target, tell: Tell = lambda line: None) -> Tuning:
    """Measures the device of a target, half a minute or so, and says what it finds. A fact that
    measurements do not say is left out. Raises what the backend raises where it cannot run
    programs.
    """
    tuner = Tuner(backend, target, tell)
    tuner.launch_cost()
    if target.device == "gpu":
        tuner.access_width()
        tuner.thread_width()
        tuner.exchange_width()
        tuner.block_size()
        tuner.blocks_at_once()
    else:
        tuner.vectors()
        tuner.vector_registers()
        tuner.caches()
    return tuner.tuning


def require_tuned(backend: Backend, request: Request) -> None:
    """Raises UnsupportedError for a backend whose targets are the same with and without tuned
    facts.
    """
    probe = (("vector_registers", 7),)
    try:
        loads = backend.target(replace(request, tuned=(("", probe),))).vector_registers == 7
    except SourceError:  # it knows the fact itself
        loads = False
    if not loads:
        problem = f"the {backend.name} backend takes no tuned facts"
        hint = (
            "the `target` of a port returns `Target.tuned(request)`; for cpu: xlac doctor --measure"
        )
        raise UnsupportedError(Diagnostic("XL5043", problem, hint=hint))


class Tuner:
    """The measurements of one device, in turn: each may read what the ones before found."""

    def __init__(self, backend: Backend, target: Target, tell: Tell) -> None:
        self.backend, self.target, self.tell = backend, target, tell
        self.tuning = Tuning()
        self.call = 0.0  # seconds of a call that launches one kernel

    def launch_cost(self) -> None:
        """Microseconds of one launch more, and of a call beside its launches."""
        times = self._times({n: kernels.launches(n) for n in (FEW, MANY)}).least
        self.call = times[FEW]
        launch = max(0.0, (times[MANY] - times[FEW]) / (MANY - FEW))
        more = max(0.0, self.call - launch)
        self._note("launch_us", round(launch * 1e6, 2))
        self._note("call_us", round(more * 1e6, 2))
        self.tell(f"a launch takes {launch * 1e6:.2f} µs, a call {more * 1e6:.0f} µs more")

    def vectors(self) -> None:
        """The width of vectors: the narrowest whose multiply-adds are near the fastest."""
        lanes = [width // 4 for width in WIDTHS]
        programs = {n: kernels.multiply_adds(n, FITTING, TURNS, self.target) for n in lanes}
        times = self._times(programs)
        rates = times.rates(lambda n, time: n * FITTING * TURNS / self._net(time), 4)
        self._rates("multiply-adds a second by bytes of a vector", rates)
        self._steady("vector_bytes", rates, conclusions.narrowest)

    def vector_registers(self) -> None:
        """How many sums are kept in registers."""
        lanes = max(1, self._now("vector_bytes") // 4)
        programs = {n: kernels.multiply_adds(lanes, n, TURNS, self.target) for n in SUMS}
        times = self._times(programs)
        rates = times.rates(lambda n, time: n * lanes * TURNS / self._net(time))
        self._rates("multiply-adds a second by sums at once", rates)

        def registers(found: Mapping[int, float]) -> int:
            enough = {n: rate for n, rate in found.items() if n >= 12}
            return conclusions.registers(enough, REGISTERS)

        self._steady("vector_registers", rates, registers)

    def caches(self) -> None:
        """Sizes of caches, and rates in bytes a cycle."""
        width = max(16, self._now("vector_bytes"))
        programs = {n: kernels.reads(n, max(1, MOVED // n), width) for n in SIZES}
        times = self._times(programs)
        rates = times.rates(lambda n, time: max(n, MOVED) / self._net(time))
        self._rates("bytes a second by bytes read", rates)
        for number, name in enumerate(CACHES):
            self._steady(name, rates, partial(conclusions.level, number))
        probes = self._probes(width, *map(self._now, CACHES))
        measured = {
            probe.name: measuring.summary(measuring.sampled(probe, probes), probes.chain_cycles)
            for probe in probes.probes
        }
        nbytes = {probe.name: probe.nbytes for probe in probes.probes}
        rate = measuring.rates(measured, nbytes)
        self._rates("bytes a cycle", [rate])
        shared = measuring.ranges(measured, nbytes)
        for name, value in measuring.facts(rate, shared).items():
            self._fact(name, value)

    def access_width(self) -> None:
        """The width of a thread's accesses: the narrowest that copies near the fastest."""
        threads = min(128, self.target.block_threads)
        programs, nbytes = {}, 1 << 24
        for width in WIDTHS[:3]:
            lanes = width // 4
            blocks = nbytes // (threads * width * 8)
            programs[width] = kernels.copies(blocks, threads, lanes, 8)
        times = self._times(programs)
        rates = times.rates(lambda width, time: 2 * nbytes / self._net(time))
        self._rates("bytes a second by bytes of an access", rates)
        self._steady("access_bytes", rates, conclusions.narrowest)

    def thread_width(self) -> None:
        """Bytes that a thread of an elementwise kernel that computes functions takes at once, in
        accesses as wide as was found: the fastest.
        """
        threads, count, now = min(128, self.target.block_threads), 1 << 20, self.target.thread_bytes
        most = self._now("access_bytes") // 4
        rates: list[dict[int, float]] = [{}, {}]
        for deep in DEPTHS:
            programs = {}
            for width in (4, 8, 16, 32, 64):
                lanes = min(most, width // 4)
                each = width // 4 // lanes
                blocks = count // (threads * lanes * each)
                programs[width] = kernels.elementwise(blocks, threads, lanes, each, deep)
            found = self._times(programs).rates(lambda width, time: count / self._net(time))
            for means, half in zip(rates, found, strict=True):  # geometric ones
                for width, rate in half.items():
                    means[width] = means.get(width, 1.0) * rate ** (1 / len(DEPTHS))
        self._rates("elements a second by bytes of a thread", rates)
        self._steady("thread_bytes", rates, lambda found: conclusions.fastest(found, now))

    def exchange_width(self) -> None:
        """Threads that exchange values, where the backend leaves it open: that which sums rows
        fastest.
        """
        threads = min(128, self.target.block_threads)
        choices = [w for w in self.backend.warps if w <= threads]
        if len(choices) < 2:
            return
        runs: dict[str, Run] = {}
        for warp in choices:
            program = kernels.exchanged_sums(64 * warp // threads or 1, threads, warp)
            run = self._run(program, warp=warp)
            if run is not None:
                runs[str(warp)] = run
        if not runs:
            return

        def rate(warp: int, time: float) -> float:
            return (64 * warp // threads or 1) * threads // warp / time

        rates = Times.of(runs).rates(rate)
        self._rates("rows summed a second by threads that exchange", rates)
        self._steady("warp", rates, lambda found: conclusions.fastest(found, self.target.warp))

    def block_size(self) -> None:
        """Threads of a block: the most whose work and meetings are near the fastest."""
        most = self.target.block_threads
        sizes = [n for n in (32, 64, 128, 256, 512, 1024) if n <= most]
        whole = 16 * max(sizes)
        programs = {n: kernels.busy(whole // n, n, 50, LIVE, self.target) for n in sizes}
        rates = self._times(programs).rates(lambda n, time: whole / self._net(time))
        self._rates("threads a second by threads of a block", rates)
        self._steady("block_threads", rates, conclusions.widest)

    def blocks_at_once(self) -> None:
        """How many blocks run at once."""
        threads = min(128, self.target.block_threads)
        counts = [1, 2, 4, 8, 16, 32, 64, 128, 256]
        programs = {n: kernels.busy(n, threads, 400, 1, self.target) for n in counts}
        times = self._times(programs)
        shown = {n: round(time * 1e6, 1) for n, time in times.least.items()}
        self._note("microseconds by blocks", shown)
        self._steady(
            "processors", times.halves, lambda found: conclusions.at_once(found, self.call)
        )

    def _probes(self, width: int, l1: int, l2: int, l3: int) -> Probes:
        """The probes of `xlac_sdk.machine.measuring`, as programs."""
        chain = compiled(kernels.chain(CHAIN), self.backend, self.target)
        sizes = {"l1": l1 // 2, "l2": l2 // 2}
        sizes |= {name: int(part * l2) for name, part in PARTS.items()}
        if l3 >= 4 * l2:
            sizes["l3"] = max(2 * l2, min(l3 // 4, 8 * l2))
        sizes["memory"] = max(4 * l3, 16 * l2)
        probes = [self._flat(name, size, width) for name, size in sizes.items()]
        # rows 4096 bytes apart, in all a quarter of the second-level cache
        block = kernels.READS * width
        count = max(2, l2 // 4 // block)
        times = max(1, MOVED // (count * block))
        run = compiled(kernels.rows(count, 4096, block, times, width), self.backend, self.target)
        probes.append(TimedProbe("rows_stride", count * block * times, run))
        return Probes(chain, CHAIN * kernels.DEEP, probes)

    def _flat(self, name: str, nbytes: int, width: int) -> TimedProbe:
        turn = kernels.READS * width
        nbytes = max(1, nbytes // turn) * turn
        times = max(1, MOVED // nbytes)
        run = compiled(kernels.reads(nbytes, times, width), self.backend, self.target)
        return TimedProbe(name, nbytes * times, run)

    def _times(self, programs: Mapping[int, Program]) -> Times:
        """The seconds of programs that the device can run; those that it refuses, as it lacks
        memory or width, are left out.
        """
        runs = {str(n): run for n, p in programs.items() if (run := self._run(p)) is not None}
        return Times.of(runs)

    def _run(self, program: Program, **facts: Any) -> Run | None:
        try:
            return compiled(program, self.backend, self.target.with_tuned(facts))
        except UnsupportedError as error:
            self.tell(f"left out: {error.diagnostics[0].message}")
            return None

    def _net(self, seconds: float) -> float:
        """Seconds of a kernel, without those of its call."""
        return max(seconds - self.call, seconds / 16)

    def _now(self, name: str) -> Any:
        """A fact as it was found, or else as the target has it."""
        return self.tuning.facts.get(name, getattr(self.target, name))

    def _rates(self, what: str, halves: Sequence[Mapping[Any, float]]) -> None:
        rates = {key: max(half[key] for half in halves) for key in halves[0]}
        self._note(what, {str(key): float(f"{rate:.3g}") for key, rate in rates.items()})
        said = ", ".join(f"{key}: {rate:.3g}" for key, rate in rates.items())
        self.tell(f"{what}: {said or 'none was steady'}")

    def _steady(
        self,
        name: str,
        halves: Sequence[Mapping[int, float]],
        conclude: Callable[[Mapping[int, float]], Any],
    ) -> None:
        """Takes a fact that all measurements say; one about which they differ is left out."""
        found = [conclude(half) for half in halves if half]
        if len({*found}) == 1:
            self._fact(name, found[0])
        elif found:
            said = ", then ".join("nothing" if value is None else f"{value}" for value in found)
            self.tell(f"left out: {name} is not steady ({said}); nothing else should run meanwhile")

    def _note(self, what: str, value: Any) -> None:
        self.tuning.measured[what] = value

    def _fact(self, name: str, value: Any) -> None:
        if value is None:
            return
        limit = TUNABLE.get(name) or LIMITS[name]
        if limit.holds(value):
            self.tuning.facts[name] = value
            self.tell(f"→ {name} {value}")
