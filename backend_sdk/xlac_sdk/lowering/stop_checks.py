"""Where code that may run long checks whether it is to stop: after how many iterations of which loops,
and between which steps.

Estimates are rough: they only have to tell microseconds from seconds. What is short at the greatest
sizes of a program never checks, and its code is what it would be without this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import ceil, inf

from xlac_sdk.dims import size_hint, upper_bound
from xlac_sdk.kernel_ir.kernel import For, Kernel, Stmt, children
from xlac_sdk.lowering.loop_times import BYTES, FLOPS, Sizes, Turns, known_time
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

LONG = 20e6  # nanoseconds up to which a program, or a kernel, is not checked
# nanoseconds that a kernel works between two checks; estimates may be wrong by a factor of a hundred
GRAIN = 100e3
LAUNCH = 20.0  # nanoseconds a launch takes at least
COMMIT = 1e9  # nanoseconds of work that a call finishes rather than leave its state half changed


def _loops(body: tuple[Stmt, ...]) -> list[For]:
    """The outermost loops of a block."""
    found: list[For] = []
    for stmt in body:
        if isinstance(stmt, For):
            found.append(stmt)
        else:
            for inner in children(stmt):
                found += _loops(inner)
    return found


class StopChecks:
    """What of a program checks whether to stop; nothing where `long` is not so.

    `kernels` are those that are written, by those that the program launches, where they are not the
    same. What is long depends on the program only: who loads it knows as much as who wrote its
    code.
    """

    def __init__(
        self,
        program: Program,
        kernels: Mapping[Kernel, Kernel] | None = None,
        slow: float = 1.0,
        whole: StopChecks | None = None,
    ) -> None:
        """`slow`: how many times longer everything takes than in native code. `whole`: of an entry,
        those of all, which share kernels: what is long in one checks in all.
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
        if not self.program.sizes and not _endless(steps):
            known = work(steps)
            if self._slow * max(known.flops / FLOPS, known.bytes / BYTES) < LONG and _all_known(
                steps
            ):
                return False
        return self._slow * self.most(steps) >= LONG

    def most(self, steps: tuple[Step, ...]) -> float:
        """Nanoseconds that steps take at the greatest sizes: the longest way through them."""
        return self._time(steps, 1)

    def usual(self, steps: tuple[Step, ...]) -> float:
        """Nanoseconds that steps take at the sizes to optimise for, a loop of unknown length
        counted once.
        """
        return self._time(steps, 0)

    def inside(self, kernel: Kernel) -> Mapping[int, int]:
        """After how many iterations of a loop a kernel checks, by the identity of the loop."""
        if self._whole is not None:
            return self._whole.inside(kernel)
        if kernel not in self._inside:
            found: dict[int, int] = {}
            if self.long and self._slow * self._measure(kernel)[1] >= LONG:
                written = self._written.get(kernel, kernel)
                _, _, typical, largest = _both(written, *self._sizes_of(kernel))
                _choose(written.body, typical, largest, found, self._slow)
            self._inside[kernel] = found
        return self._inside[kernel]

    @cached_property
    def committed(self) -> Step | None:
        """The first step that changes state, from which on a call is finished, because it will not
        be long.
        """
        steps = self.program.steps
        for at, step in enumerate(steps):
            if changes_state(step):
                return step if not _endless(steps[at:]) and self.most(steps[at:]) < COMMIT else None
        return None

    @cached_property
    def tears(self) -> bool:
        """Whether a call that is stopped may leave state half changed."""
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
        """Nanoseconds of a launch, usually and at the greatest sizes."""
        if kernel not in self._times:
            known = known_time(kernel)
            if known and not kernel.sizes:
                self._times[kernel] = known, known
            else:
                self._times[kernel] = _both(kernel, *self._sizes_of(kernel))[:2]
        return self._times[kernel]

    def _sizes_of(self, kernel: Kernel) -> tuple[dict[str, float], dict[str, float]]:
        """What a kernel's sizes are, usually and at most, over all launches."""
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
    """Those of a program's steps, and of each of its entries; `kernels` as of `StopChecks`."""
    if program.entries is None:
        return [StopChecks(program, kernels)]
    whole = StopChecks(replace(program, steps=program.every_step, entries=None), kernels)
    parts = [program, *(replace(program, steps=e.steps) for e in program.entries.entries)]
    return [StopChecks(replace(part, entries=None), kernels, whole=whole) for part in parts]


def _both(kernel: Kernel, usual: Sizes, greatest: Sizes) -> tuple[float, float, Turns, Turns]:
    """Nanoseconds, and iterations, at usual sizes and at the greatest."""
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
    body: tuple[Stmt, ...], typical: Turns, largest: Turns, found: dict[int, int], slow: float
) -> None:
    for loop in _loops(body):
        found[id(loop)] = max(1, ceil(GRAIN / slow / typical.turn[id(loop)]))
        if slow * largest.turn[id(loop)] >= LONG:
            _choose(loop.body, typical, largest, found, slow)


def _launches(steps: tuple[Step, ...]) -> list[Launch]:
    from xlac_sdk.programs.steps import walk as every

    return [step for step in every(steps) if isinstance(step, Launch)]


def _all_known(steps: tuple[Step, ...]) -> bool:
    return all(launch.kernel.work.flops or launch.kernel.work.bytes for launch in _launches(steps))


def _endless(steps: tuple[Step, ...]) -> bool:
    from xlac_sdk.programs.steps import walk as every

    return any(isinstance(step, While) for step in every(steps))


def changes_state(step: Step) -> bool:
    """Whether a step, or one inside it, writes what the program keeps between calls."""
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
