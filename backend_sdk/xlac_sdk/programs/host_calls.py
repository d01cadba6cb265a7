"""Calls of Python functions as steps of a program: on the calling thread, between its kernels.

Such a step is a `Call` named `CUSTOM` whose function is one of its attributes. Generated code calls
it through a table of one C function, which `HostTable` makes for a program:

    struct table { int32_t (*call)(int64_t number, void *const *addresses, void *block); };

`number` is that of `numbered(program)`, `addresses` are those of the step's arguments. It gives 0,
or 1 where Python raised: the exception is then in words of `block`, whose offsets `HostTable` is
told, as three references that the caller owns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from xlac_sdk.dims import static
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.programs.program import Call, Program, Step, walk
from xlac_sdk.source import Diagnostic, SourceError

CUSTOM = "custom_call"
PYTHON = "python"
"""The name of the custom calls that have the attribute `FUNCTION`."""
FUNCTION = "function"
CALL = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)
HostFunction = Callable[..., Sequence[Array]]
"""Takes arrays, which it may keep, and gives one for each result."""


def function_of(step: Step) -> HostFunction | None:
    """The Python function that a step calls; None for every other step."""
    if not isinstance(step, Call) or step.name != CUSTOM or step.attributes.get("name") != PYTHON:
        return None
    found: HostFunction = dict(step.attributes["attributes"])[FUNCTION]
    return found


def host_calls(steps: tuple[Step, ...]) -> list[Call]:
    """The steps that call Python functions, nested ones too."""
    return [s for s in walk(steps) if isinstance(s, Call) and function_of(s) is not None]


def called(function: HostFunction, inputs: Sequence[Array], results: Sequence[Array]) -> None:
    """Calls a function on copies of arrays, and writes what it gives. Raises what it raises, and
    SourceError where it gives something else than `results` can hold.
    """
    given = [np.asarray(array) for array in function(*(array.copy() for array in inputs))]
    found = [(array.shape, array.dtype) for array in given]
    wanted = [(array.shape, array.dtype) for array in results]
    if found != wanted:
        problem = f"{function} gives {_listed(found)}, and the program takes {_listed(wanted)}"
        raise SourceError(Diagnostic("XL6042", problem))
    for target, array in zip(results, given, strict=True):
        target[...] = array


def interpreted(attributes: Mapping[str, Any], *arrays: Array) -> None:
    """A step on arrays, for interpreters: operands, then results."""
    if attributes["name"] != PYTHON:
        raise NotImplementedError(f"nothing runs the custom call '{attributes['name']}'")
    count = len(arrays) - len(attributes["results"])
    called(dict(attributes["attributes"])[FUNCTION], arrays[:count], arrays[count:])


def _listed(types: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in types) or "nothing"


@dataclass(frozen=True, slots=True)
class HostSignature:
    """A function, with the types of the arrays at its addresses: `inputs` of them are operands."""

    function: HostFunction
    inputs: int
    types: tuple[tuple[DType, tuple[int, ...]], ...]


def signature_of(step: Call) -> HostSignature:
    """What a step calls, and with arrays of which types."""
    function = function_of(step)
    assert function is not None
    types = tuple(
        (argument.slot.dtype, static(shape))
        for argument, shape in zip(step.arguments, step.shapes, strict=True)
    )
    return HostSignature(function, len(types) - len(step.attributes["results"]), types)


def numbered(program: Program) -> dict[HostSignature, int]:
    """The number of each signature in the table, in the order of the program's steps."""
    found = dict.fromkeys(map(signature_of, host_calls(program.every_step)))
    return {signature: number for number, signature in enumerate(found)}


class HostTable:
    """The C function by which generated code calls the Python functions of a program."""

    def __init__(self, program: Program, words: Sequence[int]) -> None:
        """`words` are the offsets in a call's block of the reason why it ended, and of type, value
        and traceback of an exception.
        """
        self._words, self._signatures = tuple(words), list(numbered(program))
        self._call = CALL(self._called)
        self._table = (ctypes.c_void_p * 1)(ctypes.cast(self._call, ctypes.c_void_p))
        self.address = ctypes.addressof(self._table)

    def _called(self, number: int, addresses: Any, block: int) -> int:
        one = self._signatures[number]
        try:
            arrays = [
                _array(addresses[at], dtype, shape) for at, (dtype, shape) in enumerate(one.types)
            ]
            called(one.function, arrays[: one.inputs], arrays[one.inputs :])
        except BaseException as error:  # of the user's function: the call raises it
            self._raised(error, block)
            return 1
        return 0

    def _raised(self, error: BaseException, block: int) -> None:
        """Leaves an exception for the end of the call."""
        reason, *words = self._words
        for at, part in zip(words, (type(error), error, error.__traceback__), strict=True):
            if part is not None:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(part))
            ctypes.c_int64.from_address(block + at).value = 0 if part is None else id(part)
        ctypes.c_int32.from_address(block + reason).value = 1


def _array(address: int | None, dtype: DType, shape: tuple[int, ...]) -> Array:
    nbytes = prod(shape) * dtype.nbytes
    if not nbytes or address is None:
        return np.empty(shape, dtype.numpy)
    block = (ctypes.c_uint8 * nbytes).from_address(address)
    return np.frombuffer(memoryview(block), np.uint8).view(dtype.numpy).reshape(shape)
