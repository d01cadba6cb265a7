"""Weights that launch after launch reads from end to end: every other launch reads them backwards.

A cache that is a little too small for them holds, at the end of one pass, what the next pass in the
same direction needs last. In the other direction the next pass begins with it: of 57 KB, 45 are
found in a first cache of 48.
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
"""Makes of a kernel the one that reads its weights in the other direction, with the same
parameters.
"""

WORTH = 4  # reading backwards pays when this part of a weight is still cached, at least


def caches(target: Target) -> tuple[int, ...]:
    """The sizes of the caches whose contents are worth knowing."""
    return (
        ()
        if target.device == "gpu" or target.size or not target.vector_bytes
        else (target.l1_bytes, target.l2_bytes, target.l3_bytes)
    )


@dataclass
class _WeightReads:
    """What was read so far: bytes in all, and of each weight where its last reader stopped and in
    which direction it went.
    """

    moved: int = 0
    last: dict[Slot, tuple[int, bool]] = field(default_factory=dict)


def alternated(steps: Steps, backwards: Backwards, sizes: Sequence[int]) -> Steps:
    """The steps, with launches that read weights backwards where caches of such `sizes` then hold
    more of what they read.
    """
    if not sizes or not backwards:
        return steps
    return _Alternation(backwards, sizes).steps(steps, _WeightReads())


class _Alternation:
    def __init__(self, backwards: Backwards, sizes: Sequence[int]) -> None:
        self.backwards, self.sizes = backwards, sizes
        self.made: dict[Kernel, Kernel] = {}

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
                    reading.last.clear()  # nobody knows what is read there
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
        """The constant that a launch reads from end to end, where it can do so in both
        directions.
        """
        if step.kernel not in self.backwards:
            return None
        candidates = [
            argument.slot for argument in step.arguments if argument.slot.role is Role.CONSTANT
        ]
        return max(candidates, key=lambda slot: slot.nbytes, default=None)

    def pays(self, size: int, between: int) -> bool:
        """Whether some cache still holds a part of a weight, after so many other bytes, but not all
        of it.
        """
        return any(
            size + between > cache and (cache - between) * WORTH >= size for cache in self.sizes
        )

    def backward(self, kernel: Kernel) -> Kernel:
        if kernel not in self.made:
            self.made[kernel] = self.backwards[kernel]()
        return self.made[kernel]

    def repeat(self, step: Repeat, count: int) -> tuple[Step, ...]:
        """A loop; where every second iteration is to read its weights backwards, it is unrolled by
        two.
        """
        reading = _WeightReads()
        first, second, third = (self.steps(step.body, reading) for _ in range(3))
        if count < 2 or second == first or third != first:
            return (replace(step, body=first),)
        two = (*_turn(first, step.counter, 0), *_turn(second, step.counter, 1))
        last = _only(first, step.counter, count - 1) if count % 2 else ()
        return (Repeat(step.counter, count // 2, two), *last)


def _turn(steps: Steps, counter: str, number: int) -> Steps:
    """The steps of one iteration of a loop that is unrolled by two, whose counter counts pairs."""

    def moved(argument: Argument) -> Argument:
        strides = tuple(
            (name, 2 * stride if name == counter else stride) for name, stride in argument.strides
        )
        return replace(
            argument, offset=argument.offset + number * _stride(argument, counter), strides=strides
        )

    return with_arguments(steps, moved)


def _only(steps: Steps, counter: str, turn: int) -> Steps:
    """The steps of one iteration of a loop, outside of it."""

    def moved(argument: Argument) -> Argument:
        strides = tuple((name, stride) for name, stride in argument.strides if name != counter)
        return replace(
            argument, offset=argument.offset + turn * _stride(argument, counter), strides=strides
        )

    return with_arguments(steps, moved)


def _stride(argument: Argument, counter: str) -> Dim:
    return sum((stride for name, stride in argument.strides if name == counter), start=0)
