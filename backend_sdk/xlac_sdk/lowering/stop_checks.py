"""Places of stop checks in long-running code: after how many iterations of which loops, and between
which steps.

Estimates are rough: they only distinguish microseconds from seconds. Code that is short at the
program's maximal sizes has no checks and is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import ceil, inf

from xlac_sdk.dims import size_hint, upper_bound
from xlac_sdk.kernel_ir.kernel import For, Kernel, Stmt, children
from xlac_sdk.lowering.loop_times import BYTES, FLOPS, Sizes, Turns, known_time
from xlac_sdk.programs.host_calls import host_calls
from xlac_sdk.programs.program import (
    Branch,
    Call,
    Choice,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Step,
    While,
)
from xlac_sdk.programs.steps import work

LONG = 20e6  # nanoseconds of a program or kernel up to which there are no checks
# nanoseconds of a kernel between two checks; estimates may be wrong by a factor of a hundred
GRAIN = 100e3
LAUNCH = 20.0  # the least nanoseconds of a launch
# nanoseconds of remaining work that a call completes, to avoid leaving its state inconsistent
COMMIT = 1e9


def _loops(body: tuple[Stmt, ...]) -> list[For]:
    """The outermost loops of a block."""
    loops: list[For] = []
    for stmt in body:
        if isinstance(stmt, For):
            loops.append(stmt)
        else:
            for inner in children(stmt):
                loops += _loops(inner)
    return loops


class StopChecks:
    """The stop checks of a program; none unless it is `long`.

    `kernels` are the kernels as emitted, by those that the program launches, if they differ. The
    checks depend on the program only, so that its loader computes the same as its emitter.
    """

    def __init__(
        self,
        program: Program,
        kernels: Mapping[Kernel, Kernel] | None = None,
        slow: float = 1.0,
        whole: StopChecks | None = None,
    ) -> None:
        """`slow`: the slowdown relative to native code. `whole`: for an entry, the checks of all
        entries, which share kernels: if one is long, all check.
        """
        self._whole = whole
        self.program, self._written, self._slow = program, kernels or {}, slow
        self._times: dict[Kernel, tuple[float, float]] = {}
        self._inside: dict[Kernel, dict[int, int]] = {}
        self._sizes: dict[Kernel, tuple[dict[str, float], dict[str, float]]] = {}

    @cached_property
    def long(self) -> bool:
        """Whether a call may take longer than `LONG`."""
        if self._whole is not None:
            return self._whole.long
        steps = self.program.steps
        if host_calls(steps):  # which may raise
            return True
        if not self.program.sizes and not _endless(steps):
            known = work(steps)
            if self._slow * max(known.flops / FLOPS, known.bytes / BYTES) < LONG and _all_known(
                steps
            ):
                return False
        return self._slow * self.most(steps) >= LONG

    def most(self, steps: tuple[Step, ...]) -> float:
        """Nanoseconds of steps at the maximal sizes, along the longest path."""
        return self._time(steps, 1)

    def usual(self, steps: tuple[Step, ...]) -> float:
        """Nanoseconds of steps at the sizes to optimise for; a loop of unknown length counts as one
        iteration.
        """
        return self._time(steps, 0)

    def inside(self, kernel: Kernel) -> Mapping[int, int]:
        """The number of iterations between checks for the loops of a kernel, by identity."""
        if self._whole is not None:
            return self._whole.inside(kernel)
        if kernel not in self._inside:
            iterations: dict[int, int] = {}
            if self.long and self._slow * self._measure(kernel)[1] >= LONG:
                written = self._written.get(kernel, kernel)
                _, _, typical, largest = _both(written, *self._sizes_of(kernel))
                _choose(written.body, typical, largest, iterations, self._slow)
            self._inside[kernel] = iterations
        return self._inside[kernel]

    @cached_property
    def committed(self) -> Step | None:
        """The first step that changes state, after which a call always completes, because little
        work remains.
        """
        steps = self.program.steps
        for at, step in enumerate(steps):
            if changes_state(step):
                rest = steps[at:]
                sure = not _endless(rest) and not host_calls(rest)
                return step if sure and self.most(rest) < COMMIT else None
        return None

    @cached_property
    def tears(self) -> bool:
        """Whether a stopped call may leave state inconsistent."""
        return self.long and self.committed is None and any(map(changes_state, self.program.steps))

    def _time(self, steps: tuple[Step, ...], which: int) -> float:
        total, size = 0.0, (size_hint, upper_bound)[which]
        for step in steps:
            match step:
                case Launch(kernel=kernel):
                    total += LAUNCH + self._measure(kernel)[which]
                case Copy(count=count, target=target):
                    total += LAUNCH + size(count) * target.slot.dtype.nbytes / BYTES
                case Repeat(count=count, body=body):
                    total += size(count) * self._time(body, which)
                case While(condition=condition, body=body):
                    total += inf if which else self._time((*condition, *body), which)
                case Branch(branches=branches):
                    total += max((self._time(branch, which) for branch in branches), default=0.0)
                case Choice():
                    total += max(self._time(path, which) for path in step.paths)
                case Call(work=known) if known is not None:
                    total += max(known.flops / FLOPS, known.bytes / BYTES)
        return total

    def _measure(self, kernel: Kernel) -> tuple[float, float]:
        """Nanoseconds of a launch, at usual and at maximal sizes."""
        if kernel not in self._times:
            known = known_time(kernel)
            if known and not kernel.sizes:
                self._times[kernel] = known, known
            else:
                self._times[kernel] = _both(kernel, *self._sizes_of(kernel))[:2]
        return self._times[kernel]

    def _sizes_of(self, kernel: Kernel) -> tuple[dict[str, float], dict[str, float]]:
        """A kernel's sizes, usual and maximal, over all launches."""
        if not self._sizes:
            for step in _launches(self.program.steps):
                usual, greatest = self._sizes.setdefault(step.kernel, ({}, {}))
                for variable, size in zip(step.kernel.sizes, step.sizes, strict=True):
                    usual[variable.name] = max(usual.get(variable.name, 0), size_hint(size))
                    greatest[variable.name] = max(greatest.get(variable.name, 0), upper_bound(size))
        return self._sizes[kernel]


def of_entries(
    program: Program, kernels: Mapping[Kernel, Kernel] | None = None
) -> list[StopChecks]:
    """The stop checks of a program's steps, and of each of its entries; `kernels` as in
    `StopChecks`.
    """
    if program.entries is None:
        return [StopChecks(program, kernels)]
    whole = StopChecks(replace(program, steps=program.every_step, entries=None), kernels)
    parts = [program, *(replace(program, steps=e.steps) for e in program.entries.entries)]
    return [StopChecks(replace(part, entries=None), kernels, whole=whole) for part in parts]


def _both(kernel: Kernel, usual: Sizes, greatest: Sizes) -> tuple[float, float, Turns, Turns]:
    """Nanoseconds, and iterations, at usual and at maximal sizes."""
    costs: dict[int, float] = {}
    largest = Turns(kernel, greatest, costs)
    typical = Turns(kernel, usual, costs) if usual != greatest else largest
    if typical.alike:
        scale = known_time(kernel) / max(typical.total, 1.0)
        for turns in {id(typical): typical, id(largest): largest}.values():
            turns.total *= scale
            turns.turn = {loop: time * scale for loop, time in turns.turn.items()}
    return typical.total, largest.total, typical, largest


def _choose(
    body: tuple[Stmt, ...], typical: Turns, largest: Turns, iterations: dict[int, int], slow: float
) -> None:
    for loop in _loops(body):
        iterations[id(loop)] = max(1, ceil(GRAIN / slow / typical.turn[id(loop)]))
        if slow * largest.turn[id(loop)] >= LONG:
            _choose(loop.body, typical, largest, iterations, slow)


def _launches(steps: tuple[Step, ...]) -> list[Launch]:
    from xlac_sdk.programs.steps import walk as every

    return [step for step in every(steps) if isinstance(step, Launch)]


def _all_known(steps: tuple[Step, ...]) -> bool:
    return all(launch.kernel.work.flops or launch.kernel.work.bytes for launch in _launches(steps))


def _endless(steps: tuple[Step, ...]) -> bool:
    from xlac_sdk.programs.steps import walk as every

    return any(isinstance(step, While) for step in every(steps))


def changes_state(step: Step) -> bool:
    """Whether a step, or one inside it, writes state."""
    from xlac_sdk.kernel_ir.kernel import Access
    from xlac_sdk.programs.steps import walk as every

    for inner in every((step,)):
        match inner:
            case Launch(kernel=kernel, arguments=arguments):
                pairs = zip(arguments, kernel.parameters, strict=True)
                if any(
                    a.slot.role is Role.STATE and a.slot.name and b.access is not Access.READ
                    for a, b in pairs
                ):
                    return True
            case Copy(target=target) if target.slot.role is Role.STATE:
                return True
            case Call(arguments=arguments) if any(a.slot.role is Role.STATE for a in arguments):
                return True
    return False
