"""Runs programs in NumPy, kernel by kernel.

The arena is initially filled with a poison pattern, so that a temporary whose memory was reused too
early shows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from xlac_sdk.dims import evaluate as at_sizes
from xlac_sdk.dims import static
from xlac_sdk.dtypes import Array
from xlac_sdk.host import stopping
from xlac_sdk.host.ranks.communicator import table_of
from xlac_sdk.interpreter.exchanges import exchanging
from xlac_sdk.interpreter.kernels import POISON, KernelFault, compile_kernel, run_kernel
from xlac_sdk.interpreter.stamps import stamped
from xlac_sdk.kernel_ir.extent import extent
from xlac_sdk.libraries.library import COMPUTED
from xlac_sdk.lowering.stop_checks import StopChecks
from xlac_sdk.programs.host_calls import CUSTOM, interpreted
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Choice,
    CollectiveDone,
    CollectiveStart,
    Copy,
    Launch,
    Program,
    Repeat,
    Role,
    Slot,
    Stamp,
    Step,
    While,
)
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.programs.steps import Collective

__all__ = ["Interpreter", "KernelFault", "compile_kernel", "extent", "run_kernel"]


Memory = dict[Slot, Array]
Counters = dict[str, int]  # counters of the loops around a step, and the sizes of the call, by name
Action = Callable[[Memory, Counters], None]


# called with (attributes, *inputs, *results), arrays; writes to the results
Claimed = Callable[..., None]


class Interpreter:
    """An Executable that interprets a program. Thread-safe; state is guarded by a lock, and is
    unchanged by a call that fails.

    `claimed` implements the operations that the program's target claims, by mnemonic; library
    operations are built in.
    """

    def __init__(self, program: Program, claimed: Mapping[str, Claimed] | None = None) -> None:
        self.program = program
        self._claimed: Mapping[str, Claimed] = {**COMPUTED, CUSTOM: interpreted, **(claimed or {})}
        self._exchanges = table_of(program)
        stop_checks = StopChecks(program, slow=1000)
        self._functions = {
            kernel: compile_kernel(kernel, stop_checks.inside(kernel)) for kernel in program.kernels
        }
        self._actions = [self._action(step) for step in program.steps]
        self._state = np.zeros(program.state_bytes, np.uint8)
        self._constants: Memory = {}
        for slot in program.slots:
            if slot.role is Role.CONSTANT:
                self._constants[slot] = _read_only(
                    np.ascontiguousarray(program.constants[slot.symbol]).reshape(-1)
                )
        self._lock = threading.Lock()
        first = program.entries.first if program.entries is not None else ()
        self._first = [self._action(step) for step in first]
        self.reset()

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        """Reads `inputs`, writes `outputs`, by name."""
        sizes = of_call(self.program, inputs)
        arena = np.full(self.program.arena_bytes, POISON, np.uint8)
        memory = dict(self._constants)
        for slot in self.program.inputs:
            memory[slot] = _read_only(inputs[slot.name].reshape(-1))
        for slot in self.program.outputs:
            memory[slot] = outputs[slot.name].reshape(-1)
        for slot in self.program.slots:
            if slot.role in (Role.TEMPORARY, Role.STATE):
                block = arena if slot.role is Role.TEMPORARY else self._state
                memory[slot] = _view(block, slot, sizes)
        with np.errstate(all="ignore"):
            if not self.program.state_bytes:
                self._run(memory, sizes)
                return
            with self._lock:
                before = self._state.copy()
                try:
                    self._run(memory, sizes)
                except BaseException:
                    self._state[:] = before
                    raise

    def reset(self) -> None:
        """Resets the state to its initial contents: zeros, unless the program states others."""
        with self._lock:
            self._state[:] = 0
            if self._first:
                memory = dict(self._constants)
                for slot in self.program.slots:
                    if slot.role is Role.STATE:
                        memory[slot] = _view(self._state, slot, {})
                for action in self._first:
                    action(memory, {})

    def read_state(self, start: int = 0, stop: int | None = None) -> Array:
        """A copy of bytes of the state block."""
        with self._lock:
            return self._state[start:stop].copy()

    def write_state(self, block: Array, start: int = 0) -> None:
        """Overwrites bytes of the state block."""
        with self._lock:
            self._state[start : start + len(block)] = block

    def _run(self, memory: Memory, sizes: Counters) -> None:
        for action in self._actions:
            stopping.check()
            action(memory, sizes)

    def _action(self, step: Step) -> Action:
        match step:
            case Launch():
                return self._launch(step)
            case Copy():
                return self._copy(step)
            case Repeat():
                return self._repeat(step)
            case While():
                return self._loop(step)
            case Branch():
                return self._branch(step)
            case Choice():
                return self._choice(step)
            case Stamp():
                return self._stamp(step)
            case Call():
                return self._call(step)
            case CollectiveStart() | CollectiveDone():
                return self._exchange(step)

    def _exchange(self, step: Collective) -> Action:
        """Begins or ends an exchange with other ranks."""
        act = exchanging(step, self._exchanges)
        ends = step.source, step.target
        return lambda memory, counters: act(*(_part(memory, counters, a, 1) for a in ends))

    def _launch(self, step: Launch) -> Action:
        """Runs a kernel on parts of slots."""
        kernel = step.kernel
        arguments = step.arguments
        sizes = step.sizes
        function = self._functions[kernel]

        def launch(memory: Memory, counters: Counters) -> None:
            given = [at_sizes(size, counters) for size in sizes]
            names = {v.name: value for v, value in zip(kernel.sizes, given, strict=True)}
            extents = [
                b.size if isinstance(b.size, int) else extent(b.size, names)
                for b in kernel.parameters
            ]
            pairs = zip(arguments, extents, strict=True)
            function(*(_part(memory, counters, a, count) for a, count in pairs), *given)

        return launch

    def _copy(self, step: Copy) -> Action:
        """Copies elements."""
        target, source, count = step.target, step.source, step.count

        def copy(memory: Memory, counters: Counters) -> None:
            many = at_sizes(count, counters)
            _part(memory, counters, target, many)[:] = _part(memory, counters, source, many)

        return copy

    def _repeat(self, step: Repeat) -> Action:
        """Runs steps a given number of times."""
        counter, count, body = step.counter, step.count, step.body
        inner = [self._action(s) for s in body]

        def repeat(memory: Memory, counters: Counters) -> None:
            for number in range(at_sizes(count, counters)):
                stopping.check()
                now = {**counters, counter: number}
                for action in inner:
                    action(memory, now)

        return repeat

    def _loop(self, step: While) -> Action:
        """Runs steps while a flag, which other steps set, is true."""
        condition, flag, body = step.condition, step.flag, step.body
        first, then = [self._action(s) for s in condition], [self._action(s) for s in body]

        def loop(memory: Memory, counters: Counters) -> None:
            while True:
                for action in first:
                    action(memory, counters)
                if not _part(memory, counters, flag, 1)[0]:
                    return
                stopping.check()
                for action in then:
                    action(memory, counters)

        return loop

    def _branch(self, step: Branch) -> Action:
        """Runs the steps that an index selects."""
        index = step.index
        branches = step.branches
        choices = [[self._action(s) for s in branch] for branch in branches]

        def branch(memory: Memory, counters: Counters) -> None:
            number = int(_part(memory, counters, index, 1)[0])
            for action in choices[number if 0 <= number < len(choices) else -1]:
                action(memory, counters)

        return branch

    def _choice(self, step: Choice) -> Action:
        """Runs the steps of the first case that matches the sizes."""
        cases = step.cases
        otherwise = step.otherwise
        paths = [(case, [self._action(s) for s in case.steps]) for case in cases]
        usual = [self._action(s) for s in otherwise]

        def choose(memory: Memory, counters: Counters) -> None:
            for action in next((actions for case, actions in paths if case.takes(counters)), usual):
                action(memory, counters)

        return choose

    def _stamp(self, step: Stamp) -> Action:
        """Writes the time into a log."""

        def stamp(memory: Memory, counters: Counters) -> None:
            room = step.log.slot.size - at_sizes(step.log.offset, counters)
            stamped(step, _part(memory, counters, step.log, room))

        return stamp

    def _call(self, step: Call) -> Action:
        """Runs a whole operation."""
        name = step.name
        arguments = step.arguments
        if name not in self._claimed:
            raise NotImplementedError(f"the interpreter has no implementation of '{name}'")
        whole = self._claimed[name]

        def call(memory: Memory, counters: Counters) -> None:
            known = step.at(counters)
            pairs = [(a, static(s)) for a, s in zip(arguments, known.shapes, strict=True)]
            whole(
                known.attributes,
                *(_part(memory, counters, a, prod(s)).reshape(s) for a, s in pairs),
            )

        return call


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _view(block: Array, slot: Slot, sizes: Counters) -> Array:
    nbytes = at_sizes(slot.elements, sizes) * slot.dtype.nbytes
    return block[slot.offset : slot.offset + nbytes].view(slot.dtype.numpy)


def _part(memory: Memory, counters: Counters, argument: Argument, count: int) -> Array:
    """The `count` elements that an argument refers to; an error if there are fewer."""
    start = at_sizes(argument.offset, counters)
    start += sum(counters[name] * at_sizes(stride, counters) for name, stride in argument.strides)
    whole = memory[argument.slot]
    if not 0 <= start <= len(whole) - count:
        where = f"elements {start} to {start + count} of {argument.slot.label}"
        raise KernelFault(f"a step reaches for {where}, which has {len(whole)}")
    return whole[start : start + count]
