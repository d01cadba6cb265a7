"""Weights that successive launches read from end to end: every other launch reads them backwards.

A cache slightly too small for them holds, after one pass, the end of the weights, which another
pass in the same direction reads last. A pass in the other direction starts with what is cached: of
57 KB,
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xlac_sdk.dims import Dim
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Choice,
    Copy,
    Launch,
    Repeat,
    Role,
    Slot,
    Step,
    While,
)
from xlac_sdk.programs.rewrite import with_arguments
from xlac_sdk.target import Target

Steps = tuple[Step, ...]
Backwards = Mapping[Kernel, Callable[[], Kernel]]
"""Makes the variant of a kernel that reads its weights in reverse, with the same parameters."""

WORTH = 4  # reading in reverse pays when at least 1/WORTH of a weight is still cached


def caches(target: Target) -> tuple[int, ...]:
    """The sizes of the caches, in bytes, that are worth modelling."""
    return (
        ()
        if target.device == "gpu" or target.size or not target.vector_bytes
        else (target.l1_bytes, target.l2_bytes, target.l3_bytes)
    )


@dataclass
class _WeightReads:
    """Bytes read so far, and for each weight where its last read ended and in which direction it
    went.
    """

    moved: int = 0
    last: dict[Slot, tuple[int, bool]] = field(default_factory=dict)


def alternated(steps: Steps, backwards: Backwards, sizes: Sequence[int]) -> Steps:
    """The steps, with launches that read weights in reverse where a cache of one of `sizes` then
    gives more hits.
    """
    if not sizes or not backwards:
        return steps
    return _Alternation(backwards, sizes).steps(steps, _WeightReads())


class _Alternation:
    def __init__(self, backwards: Backwards, sizes: Sequence[int]) -> None:
        self.backwards, self.sizes = backwards, sizes
        self.kernels: dict[Kernel, Kernel] = {}

    def steps(self, steps: Steps, reading: _WeightReads) -> Steps:
        rewritten: list[Step] = []
        for step in steps:
            match step:
                case Launch():
                    rewritten.append(self.launch(step, reading))
                    continue
                case Copy(count=int(count), target=target):
                    reading.moved += 2 * count * target.slot.dtype.nbytes
                case Repeat(count=int(count)):
                    rewritten += self.repeat(step, count)
                    reading.last.clear()
                    continue
                case Repeat() | While() | Branch() | Choice():
                    reading.last.clear()  # what else was read here is unknown
            rewritten.append(step)
        return tuple(rewritten)

    def launch(self, step: Launch, reading: _WeightReads) -> Launch:
        weight = self.weight(step)
        back = False
        if weight in reading.last:
            stopped, before = reading.last[weight]
            back = not before and self.pays(weight.nbytes, reading.moved - stopped)
        reading.moved += step.kernel.work.bytes
        if weight is not None:
            reading.last[weight] = reading.moved, back
        return replace(step, kernel=self.backward(step.kernel)) if back else step

    def weight(self, step: Launch) -> Slot | None:
        """The largest constant that a launch reads from end to end; None where its kernel has no
        reversed variant.
        """
        if step.kernel not in self.backwards:
            return None
        candidates = [
            argument.slot for argument in step.arguments if argument.slot.role is Role.CONSTANT
        ]
        return max(candidates, key=lambda slot: slot.nbytes, default=None)

    def pays(self, size: int, between: int) -> bool:
        """Whether some cache still holds at least 1/WORTH of a weight of `size` bytes after
        `between` other bytes, but not all of it.
        """
        return any(
            size + between > cache and (cache - between) * WORTH >= size for cache in self.sizes
        )

    def backward(self, kernel: Kernel) -> Kernel:
        if kernel not in self.kernels:
            self.kernels[kernel] = self.backwards[kernel]()
        return self.kernels[kernel]

    def repeat(self, step: Repeat, count: int) -> tuple[Step, ...]:
        """A loop; unrolled by two where every second iteration is to read its weights in
        reverse.
        """
        reading = _WeightReads()
        first, second, third = (self.steps(step.body, reading) for _ in range(3))
        if count < 2 or second == first or third != first:
            return (replace(step, body=first),)
        two = (*_turn(first, step.counter, 0), *_turn(second, step.counter, 1))
        last = _only(first, step.counter, count - 1) if count % 2 else ()
        return (Repeat(step.counter, count // 2, two), *last)


def _turn(steps: Steps, counter: str, number: int) -> Steps:
    """The steps of iteration `number` of a loop unrolled by two, whose counter counts pairs."""

    def moved(argument: Argument) -> Argument:
        strides = tuple(
            (name, 2 * stride if name == counter else stride) for name, stride in argument.strides
        )
        return replace(
            argument, offset=argument.offset + number * _stride(argument, counter), strides=strides
        )

    return with_arguments(steps, moved)


def _only(steps: Steps, counter: str, turn: int) -> Steps:
    """The steps of the last iteration of a loop, peeled off."""

    def moved(argument: Argument) -> Argument:
        strides = tuple((name, stride) for name, stride in argument.strides if name != counter)
        return replace(
            argument, offset=argument.offset + turn * _stride(argument, counter), strides=strides
        )

    return with_arguments(steps, moved)


def _stride(argument: Argument, counter: str) -> Dim:
    return sum((stride for name, stride in argument.strides if name == counter), start=0)
