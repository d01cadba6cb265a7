"""Runs kernels in NumPy: the executable definition of kernel IR.

Every access is checked against its buffer; reading an element of a LOCAL, SHARED or REREAD buffer
before it was written is an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Generator, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host import stopping
from xlac_sdk.interpreter.python_text import PythonText
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.scalar_semantics import multiply_add
from xlac_sdk.kernel_ir.semantics import bits, evaluate, fold
from xlac_sdk.source import Diagnostic, UnsupportedError

POISON = 0xFF  # bit pattern: NaN as a float, -1 as a signed integer


class KernelFault(Exception):
    """A kernel error: an access out of bounds, or a read of memory that was never written."""


# ---- functions called by the generated source ------------------------------------------------


class _Accesses:
    """Functions that a kernel's source calls for accesses other than plain indices."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def outside(self, buffer: str, index: object, lanes: int, size: int) -> NoReturn:
        what = f"index {index}" if lanes == 1 else f"{lanes} lanes from index {index}"
        at = int(index) if isinstance(index, int | np.integer) else -1
        if at >= 0 and at + lanes <= size:
            raise KernelFault(
                f"kernel {self.kernel.name}: buffer '{buffer}' is read at {what} before it was "
                "written"
            )
        raise KernelFault(
            f"kernel {self.kernel.name}: buffer '{buffer}' of {size} elements is accessed at {what}"
        )

    def active(
        self, name: str, size: int, index: Any, mask: Any, lanes: int
    ) -> tuple[Array, Array]:
        """The index of each lane and which lanes are active, checked."""
        at = np.asarray(index)
        at = (
            at + np.arange(lanes)
            if at.ndim == 0 and not isinstance(index, np.generic)
            else _full(at, lanes)
        )
        on = np.ones(lanes, np.bool_) if mask is None else _full(np.asarray(mask, np.bool_), lanes)
        wrong = on & ((at < 0) | (at >= size))
        if wrong.any():
            self.outside(name, int(at[wrong][0]), 1, size)
        return np.where(on, at, 0), on

    def known(self, name: str, marks: Array, at: Array) -> None:
        """Raises KernelFault if any of some elements was never written."""
        if not marks[at].all():
            self.outside(name, int(at[~marks[at]][0]), 1, len(marks))

    def gather(
        self, name: str, buffer: Array, written: bytearray | None, index: Any, mask: Any, lanes: int
    ) -> Array:
        mask = bool(mask) if isinstance(mask, np.bool_) else mask
        if mask is False:
            return np.zeros(lanes, buffer.dtype)
        # consecutive elements inside the buffer
        if type(index) is int and 0 <= index <= len(buffer) - lanes:
            part = buffer[index : index + lanes]
            on = None if mask is None or mask is True else _full(np.asarray(mask, np.bool_), lanes)
            if written is not None:
                missing = ~np.frombuffer(written, np.bool_, lanes, index)
                missing = missing if on is None else missing & on
                if missing.any():
                    self.outside(name, index + int(missing.argmax()), 1, len(buffer))
            return part.copy() if on is None else np.where(on, part, buffer.dtype.type(0))
        at, on = self.active(name, len(buffer), index, mask, lanes)
        if written is not None:
            self.known(name, np.frombuffer(written, np.bool_), at[on])
        result = np.zeros(lanes, buffer.dtype)
        result[on] = buffer[at[on]]
        return result

    def scatter(
        self,
        name: str,
        buffer: Array,
        written: bytearray | None,
        index: Any,
        value: Any,
        mask: Any,
        lanes: int,
        primitive: Primitive | None,
        dtype: Any,
    ) -> None:
        mask = bool(mask) if isinstance(mask, np.bool_) else mask
        if mask is False:
            return
        plain = primitive is None and mask is True and type(index) is int
        if plain and 0 <= index <= len(buffer) - lanes:  # consecutive elements inside the buffer
            buffer[index : index + lanes] = value
            if written is not None:
                written[index : index + lanes] = b"\1" * lanes
            return
        at, on = self.active(name, len(buffer), index, mask, lanes)
        value = _full(np.asarray(value, buffer.dtype), lanes)
        if written is not None:
            marks = np.frombuffer(written, np.bool_)
            if primitive is not None:
                self.known(name, marks, at[on])
            marks[at[on]] = True
        if primitive is None:
            buffer[at[on]] = value[on]
            return
        for where, one in zip(at[on], value[on], strict=True):
            buffer[where] = evaluate(primitive, (buffer[where], one), DType.of(dtype))

    def aligned(self, name: str, index: int, step: int, mask: Any) -> int:
        if index % step and np.any(mask):
            raise KernelFault(
                f"kernel {self.kernel.name}: buffer '{name}' is accessed at index {index}, which "
                f"is not a multiple of {step}"
            )
        return index


def _full(value: Any, lanes: int) -> Array:
    """A vector of `lanes` lanes: the value itself, or a scalar repeated."""
    if isinstance(value, np.ndarray) and value.shape == (lanes,):
        return value
    return np.broadcast_to(value, (lanes,))


def _hand_written(file: str) -> NoReturn:
    """A call of a hand-written function, whose language the interpreter cannot run."""
    problem = f"the interpreter of kernels does not run hand-written code ({file})"
    raise UnsupportedError(
        Diagnostic("XL5054", problem, hint="compile the model without --allow-kernels")
    )


def _poisoned(dtype: np.dtype[Any], size: int) -> Array:
    return np.full(size * dtype.itemsize, POISON, np.uint8).view(dtype)


def _lockstep(threads: list[Generator[Any, Any, None]]) -> None:
    """Runs the threads of a block in lockstep from one barrier or exchange to the next; a thread
    that awaits a condition resumes when it holds.
    """
    answers: list[Any] = [None] * len(threads)
    while True:
        asked = [_asked(thread, answer) for thread, answer in zip(threads, answers, strict=True)]
        while waiting := [i for i, (_, one) in enumerate(asked) if callable(one)]:
            ready = [i for i in waiting if asked[i][1]()]
            if not ready:
                raise KernelFault(
                    "some threads of a block wait for a condition that the others never make true"
                )
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
    """Resumes a thread, and returns whether it continues and what it waits for: None at a barrier,
    (distance, value) for an exchange, else a condition.
    """
    try:
        return True, thread.send(answer)
    except StopIteration:
        return False, None


def _quotient(a: int, b: int) -> int:
    """An integer quotient, truncated; by 0 the integer with all bits set."""
    if b == 0:
        return -1
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def _rest(a: int, b: int) -> int:
    """The remainder of an integer division, with the dividend's sign; by 0 the dividend."""
    return a if b == 0 else a - b * _quotient(a, b)


def _checking(turns: range) -> Iterator[int]:
    for turn in turns:
        stopping.check()
        yield turn


_SHARED: Mapping[str, object] = {
    "checking": _checking,
    "evaluate": evaluate,
    "multiply_add": multiply_add,
    "bits": bits,
    "fold": fold,
    "hand_written": _hand_written,
    "poisoned": _poisoned,
    "unwritten": bytearray,  # one byte for each element: 1 if it was written
    "quotient": _quotient,
    "rest": _rest,
    "full": _full,
    "choose": lambda condition, then, otherwise: then if condition else otherwise,
    "concatenate": np.concatenate,
    "lockstep": _lockstep,
    "product": itertools.product,
}


# ---- kernels ---------------------------------------------------------------------------------


def compile_kernel(kernel: Kernel, stop_checks: Container[int] = ()) -> Callable[..., None]:
    """The kernel as a Python function of one 1-d array for each parameter, then one integer for
    each size.

    Between the iterations of loops in `stop_checks`, by identity, it checks for a stop request.
    """
    text = PythonText(kernel, stop_checks)
    accesses = _Accesses(kernel)
    checked = {
        name: getattr(accesses, name) for name in ("outside", "gather", "scatter", "aligned")
    }
    scope: dict[str, Any] = {**_SHARED, **checked, **text.names}
    exec(compile(text.source, f"<kernel {kernel.name}>", "exec"), scope)  # noqa: S102  (our own text, of a kernel's own identifiers)
    function: Callable[..., None] = scope["kernel"]
    return function


def run_kernel(
    kernel: Kernel, buffers: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> None:
    """Runs a kernel on contiguous arrays, by parameter name; writes to those it may write."""
    flat = [np.asarray(buffers[b.name]).reshape(-1) for b in kernel.parameters]
    given = [(sizes or {})[v.name] for v in kernel.sizes]
    with np.errstate(all="ignore"):
        compile_kernel(kernel)(*flat, *given)
