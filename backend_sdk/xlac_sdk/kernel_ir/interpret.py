"""Runs kernels and programs in NumPy: the living definition of kernel IR.

Every access is checked against its buffer; an element of a LOCAL, SHARED or REREAD buffer that is
read before it was written is an error; the arena starts poisoned, so a temporary whose memory was
given away too early shows.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Container, Generator, Iterator, Mapping
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.pytext import Text
from xlac_sdk.host import stopping
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.semantics import evaluate, fold
from xlac_sdk.libraries.library import COMPUTED
from xlac_sdk.lowering.stop_checks import Looks
from xlac_sdk.programs.dims import evaluate as at_sizes
from xlac_sdk.programs.dims import static
from xlac_sdk.programs.program import (
    Argument,
    Branch,
    Call,
    Choice,
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

Array = NDArray[Any]
POISON = 0xFF  # NaN as a float, -1 as a signed integer


class KernelFault(Exception):
    """A kernel did what it must not: an access out of bounds, or a read of memory never written."""


# ---- what the generated source calls ---------------------------------------------------------


def _runtime(kernel: Kernel) -> dict[str, object]:
    def outside(buffer: str, index: object, lanes: int, size: int) -> NoReturn:
        what = f"index {index}" if lanes == 1 else f"{lanes} lanes from index {index}"
        at = int(index) if isinstance(index, int | np.integer) else -1
        if at >= 0 and at + lanes <= size:
            raise KernelFault(
                f"kernel {kernel.name}: buffer '{buffer}' is read at {what} before it was written"
            )
        raise KernelFault(
            f"kernel {kernel.name}: buffer '{buffer}' of {size} elements is accessed at {what}"
        )

    def active(name: str, size: int, index: Any, mask: Any, lanes: int) -> tuple[Array, Array]:
        """The element of each lane and which lanes take part, checked."""
        at = np.asarray(index)
        at = (
            at + np.arange(lanes)
            if at.ndim == 0 and not isinstance(index, np.generic)
            else np.broadcast_to(at, (lanes,))
        )
        on = (
            np.ones(lanes, np.bool_)
            if mask is None
            else np.broadcast_to(np.asarray(mask, np.bool_), (lanes,))
        )
        wrong = on & ((at < 0) | (at >= size))
        if wrong.any():
            outside(name, int(at[wrong][0]), 1, size)
        return np.where(on, at, 0), on

    def gather(
        name: str, buffer: Array, written: Array | None, index: Any, mask: Any, lanes: int
    ) -> Array:
        at, on = active(name, len(buffer), index, mask, lanes)
        if written is not None and not written[at[on]].all():
            outside(name, int(at[on][~written[at[on]]][0]), 1, len(buffer))
        result = np.zeros(lanes, buffer.dtype)
        result[on] = buffer[at[on]]
        return result

    def scatter(
        name: str,
        buffer: Array,
        written: Array | None,
        index: Any,
        value: Any,
        mask: Any,
        lanes: int,
        primitive: Primitive | None,
        dtype: Any,
    ) -> None:
        at, on = active(name, len(buffer), index, mask, lanes)
        value = np.broadcast_to(np.asarray(value, buffer.dtype), (lanes,))
        if written is not None:
            if primitive is not None and not written[at[on]].all():
                outside(name, int(at[on][~written[at[on]]][0]), 1, len(buffer))
            written[at[on]] = True
        if primitive is None:
            buffer[at[on]] = value[on]
            return
        for where, one in zip(at[on], value[on], strict=True):
            buffer[where] = evaluate(primitive, (buffer[where], one), DType.of(dtype))

    def aligned(name: str, index: int, step: int, mask: Any) -> int:
        if index % step and np.any(mask):
            raise KernelFault(
                f"kernel {kernel.name}: buffer '{name}' is accessed at index {index}, which is no multiple of {step}"
            )
        return index

    return {"outside": outside, "gather": gather, "scatter": scatter, "aligned": aligned}


def _poisoned(dtype: np.dtype[Any], size: int) -> Array:
    return np.full(size * dtype.itemsize, POISON, np.uint8).view(dtype)


def _lockstep(threads: list[Generator[Any, Any, None]]) -> None:
    """Runs the threads of a block from one barrier or exchange to the next, all together; one that
    awaits something goes on when that holds."""
    answers: list[Any] = [None] * len(threads)
    while True:
        asked = [_asked(thread, answer) for thread, answer in zip(threads, answers, strict=True)]
        while waiting := [i for i, (_, one) in enumerate(asked) if callable(one)]:
            ready = [i for i in waiting if asked[i][1]()]
            if not ready:
                raise KernelFault("some threads of a block await what the others never make true")
            for i in ready:
                asked[i] = _asked(threads[i], None)
        if not any(going for going, _ in asked):
            return
        if not all(going for going, _ in asked):
            raise KernelFault(
                "some threads of a block wait at a barrier that the others never reach"
            )
        answers = [
            None if one is None else asked[i ^ one[0]][1][1] for i, (_, one) in enumerate(asked)
        ]


def _asked(thread: Generator[Any, Any, None], answer: Any) -> tuple[bool, Any]:
    """Whether a thread goes on, and then what it waits for: None at a barrier, (distance, value)
    for an exchange, else a condition."""
    try:
        return True, thread.send(answer)
    except StopIteration:
        return False, None


def _looking(turns: range) -> Iterator[int]:
    for turn in turns:
        stopping.check()
        yield turn


_SHARED: Mapping[str, object] = {
    "looking": _looking,
    "evaluate": evaluate,
    "fold": fold,
    "poisoned": _poisoned,
    "unwritten": lambda size: np.zeros(size, np.bool_),
    "full": lambda value, lanes: np.broadcast_to(value, (lanes,)),
    "choose": lambda condition, then, otherwise: then if condition else otherwise,
    "concatenate": np.concatenate,
    "lockstep": _lockstep,
    "product": itertools.product,
}


# ---- kernels ---------------------------------------------------------------------------------


def compile_kernel(kernel: Kernel, looks: Container[int] = ()) -> Callable[..., None]:
    """The kernel as a Python function of one 1-d array a parameter, then one integer a size.

    Between the turns of loops in `looks`, by identity, it looks whether it is to stop.
    """
    text = Text(kernel, looks)
    scope: dict[str, Any] = {**_SHARED, **_runtime(kernel), **text.names}
    exec(compile(text.source, f"<kernel {kernel.name}>", "exec"), scope)  # noqa: S102  (our own text, of a kernel's own identifiers)
    function: Callable[..., None] = scope["kernel"]
    return function


def run_kernel(
    kernel: Kernel, buffers: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> None:
    """Runs a kernel on contiguous arrays, by parameter name; writes into those it may write."""
    flat = [np.asarray(buffers[b.name]).reshape(-1) for b in kernel.parameters]
    given = [(sizes or {})[v.name] for v in kernel.sizes]
    with np.errstate(all="ignore"):
        compile_kernel(kernel)(*flat, *given)


# ---- programs --------------------------------------------------------------------------------


Memory = dict[Slot, Array]
Counters = dict[str, int]  # of the loops around a step, and the sizes of the call, by name
Action = Callable[[Memory, Counters], None]


Claimed = Callable[..., None]  # (attributes, *inputs, *results), arrays; writes into the results


class Interpreter:
    """An Executable that interprets a program. Safe from several threads; state is guarded by a
    lock, and is as before a call that did not end.

    `claimed` says how to run the operations that the program's target claimed, by mnemonic; what
    libraries may compute is known.
    """

    def __init__(self, program: Program, claimed: Mapping[str, Claimed] | None = None) -> None:
        self.program = program
        self._claimed: Mapping[str, Claimed] = {**COMPUTED, **(claimed or {})}
        looks = Looks(program, slow=1000)
        self._functions = {
            kernel: compile_kernel(kernel, looks.inside(kernel)) for kernel in program.kernels
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
        """Sets the state to zero."""
        with self._lock:
            self._state[:] = 0

    def _run(self, memory: Memory, sizes: Counters) -> None:
        for action in self._actions:
            stopping.check()
            action(memory, sizes)

    def _action(self, step: Step) -> Action:
        match step:
            case Launch(kernel=kernel, arguments=arguments, sizes=sizes):
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
            case Copy(target=target, source=source, count=count):

                def copy(memory: Memory, counters: Counters) -> None:
                    many = at_sizes(count, counters)
                    _part(memory, counters, target, many)[:] = _part(memory, counters, source, many)

                return copy
            case Repeat(counter=counter, count=count, body=body):
                inner = [self._action(s) for s in body]

                def repeat(memory: Memory, counters: Counters) -> None:
                    for number in range(at_sizes(count, counters)):
                        stopping.check()
                        now = {**counters, counter: number}
                        for action in inner:
                            action(memory, now)

                return repeat
            case While(condition=condition, flag=flag, body=body):
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
            case Branch(index=index, branches=branches):
                choices = [[self._action(s) for s in branch] for branch in branches]

                def branch(memory: Memory, counters: Counters) -> None:
                    number = int(_part(memory, counters, index, 1)[0])
                    for action in choices[number if 0 <= number < len(choices) else -1]:
                        action(memory, counters)

                return branch
            case Choice(cases=cases, otherwise=otherwise):
                paths = [(case, [self._action(s) for s in case.steps]) for case in cases]
                usual = [self._action(s) for s in otherwise]

                def choose(memory: Memory, counters: Counters) -> None:
                    for action in next(
                        (actions for case, actions in paths if case.takes(counters)), usual
                    ):
                        action(memory, counters)

                return choose
            case Stamp(log=log, code=code, parts=parts):

                def stamp(memory: Memory, counters: Counters) -> None:
                    room = log.slot.size - at_sizes(log.offset, counters)
                    held = _part(memory, counters, log, room)
                    count = int(held[0]) if code else 0
                    if parts and not code:
                        held[room - parts] = 0
                    if 3 + 2 * count <= room - parts:
                        held[1 + 2 * count : 3 + 2 * count] = code, time.perf_counter_ns()
                        held[0] = count + 1

                return stamp
            case Call(name=name, arguments=arguments):
                if name not in self._claimed:
                    raise NotImplementedError(f"the interpreter was told no way to run '{name}'")
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
    """The elements that an argument points at; exactly `count`, or the program is wrong."""
    start = at_sizes(argument.offset, counters)
    start += sum(counters[name] * at_sizes(stride, counters) for name, stride in argument.strides)
    whole = memory[argument.slot]
    if not 0 <= start <= len(whole) - count:
        where = f"elements {start} to {start + count} of {argument.slot.told}"
        raise KernelFault(f"a step reaches for {where}, which has {len(whole)}")
    return whole[start : start + count]


def extent(size: Any, names: Mapping[str, int]) -> int:
    """A symbolic buffer size, for given values of the kernel's sizes."""
    from xlac_sdk.kernel_ir.kernel import Apply, Const, Var

    match size:
        case Const(value=value):
            return int(value)
        case Var(name=name):
            return names[name]
        case Apply(primitive=primitive, operands=operands, dtype=dtype):
            given = tuple(np.int64(extent(o, names)) for o in operands)
            return int(evaluate(primitive, given, dtype))
    raise TypeError(f"a buffer's size cannot be {size!r}")
