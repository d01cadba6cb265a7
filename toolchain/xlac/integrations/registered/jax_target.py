"""Registered operations as targets of XLA's foreign function interface, by name on CPUs:

    jax.ffi.ffi_call("xlac.gated", jax.ShapeDtypeStruct((4, 6), numpy.float32))(a, b, slope=2.0)

XLA calls a handler with a frame (structs of `xla/ffi/api/c_api.h`) that points to operands, results
and attributes; the handler runs the operation's program on them, without a copy of the operands.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from typing import Any

import numpy as np

from xlac_sdk.dtypes import Array, DType
from xlac_sdk.source import XlacError

VERSION = (0, 1)  # the oldest version of the interface that has what is used here
METADATA = 1  # the extension that asks for the version
INVALID_ARGUMENT, INTERNAL = 3, 13
SCALAR, STRING = 3, 4
DTYPES = {
    1: DType.BOOL, 2: DType.I8, 3: DType.I16, 4: DType.I32, 5: DType.I64, 6: DType.U8, 7: DType.U16,
    8: DType.U32, 9: DType.U64, 10: DType.F16, 11: DType.F32, 12: DType.F64, 16: DType.BF16,
}  # fmt: skip
"""Element types by XLA's numbers."""
HEAD: list[tuple[str, Any]] = [("struct_size", c_size_t), ("extension", c_void_p)]
TARGETS: dict[str, Any] = {}
"""The handlers that XLA has, by name; they live as long as the process."""


class _Version(ctypes.Structure):
    _fields_ = [*HEAD, ("major", c_int), ("minor", c_int)]


class _Metadata(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("version", _Version),
        ("traits", ctypes.c_uint32),
        ("state_type", c_int64),
    ]


class _Extension(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("type", c_int),
        ("next", c_void_p),
        ("metadata", POINTER(_Metadata)),
    ]


class _Span(ctypes.Structure):
    _fields_ = [("start", c_void_p), ("length", c_size_t)]

    @property
    def text(self) -> str:
        return ctypes.string_at(self.start, self.length).decode()


class _Buffer(ctypes.Structure):
    _fields_ = [
        *HEAD,
        ("dtype", c_int),
        ("data", c_void_p),
        ("rank", c_int64),
        ("extents", POINTER(c_int64)),
    ]


class _Scalar(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("value", c_void_p)]


class _Buffers(ctypes.Structure):
    _fields_ = [*HEAD, ("count", c_int64), ("types", c_void_p), ("each", POINTER(POINTER(_Buffer)))]


class _Attributes(ctypes.Structure):
    _fields_ = [
        *HEAD,
        ("count", c_int64),
        ("types", POINTER(c_int)),
        ("names", POINTER(POINTER(_Span))),
        ("each", POINTER(c_void_p)),
    ]


class _ErrorArguments(ctypes.Structure):
    _fields_ = [*HEAD, ("message", c_char_p), ("code", c_int)]


class _Interface(ctypes.Structure):
    _fields_ = [
        *HEAD,
        ("version", _Version),
        ("internal", c_void_p),
        ("error", ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorArguments))),
    ]


class _Frame(ctypes.Structure):
    _fields_ = [
        *HEAD,
        ("interface", POINTER(_Interface)),
        ("context", c_void_p),
        ("stage", c_int),
        ("operands", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
        ("future", c_void_p),
    ]


Handler = ctypes.CFUNCTYPE(c_void_p, POINTER(_Frame))
Run = Callable[[Sequence[Array], dict[str, Any]], Sequence[Array]]


def register(name: str, run: Run) -> None:
    """Makes `run` the target of a name for XLA on CPUs; a name keeps the first."""
    import jax

    if name in TARGETS:
        return

    def called(pointer: Any) -> int | None:
        frame = pointer.contents
        if frame.extension:
            _answer(frame.extension)
            return None
        try:
            _run(frame, run)
        except XlacError as error:
            return _error(frame, INVALID_ARGUMENT, f"{name}: {error}")
        except BaseException as error:  # none may pass through XLA
            return _error(frame, INTERNAL, f"{name}: {type(error).__name__}: {error}")
        return None

    TARGETS[name] = Handler(called)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    capsule = make(ctypes.cast(TARGETS[name], c_void_p), None, None)
    jax.ffi.register_ffi_target(name, capsule, platform="cpu")


def _answer(address: int) -> None:
    """Answers which version of the interface the handler was written for."""
    extension = _Extension.from_address(address)
    if extension.type == METADATA:
        metadata = extension.metadata.contents
        metadata.version.major, metadata.version.minor = VERSION
        metadata.traits = metadata.state_type = 0


def _run(frame: _Frame, run: Run) -> None:
    """Runs the operation on the arrays of a call."""
    operands, results = (
        [_array(buffers.each[n].contents) for n in range(buffers.count)]
        for buffers in (frame.operands, frame.results)
    )
    attributes, given = frame.attributes, dict[str, Any]()
    for number in range(attributes.count):
        name = attributes.names[number].contents.text
        given[name] = _attribute(attributes.types[number], attributes.each[number], name)
    made = run(operands, given)
    wanted, found = ([(a.dtype, a.shape) for a in arrays] for arrays in (results, made))
    if wanted != found:
        raise TypeError(f"the call has results {_types(results)}, and not {_types(made)}")
    for result, array in zip(results, made, strict=True):
        result[...] = array


def _array(buffer: _Buffer) -> Array:
    """A buffer's memory as an array."""
    if buffer.dtype not in DTYPES:
        raise TypeError(f"an array has XLA's element type {buffer.dtype}, which no operation takes")
    dtype = DTYPES[buffer.dtype].numpy
    shape = tuple(buffer.extents[n] for n in range(buffer.rank))
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.zeros(shape, dtype)
    memory = (ctypes.c_ubyte * (count * dtype.itemsize)).from_address(buffer.data)
    flat: Array = np.frombuffer(memoryview(memory), np.uint8)
    return flat.view(dtype).reshape(shape)


def _attribute(kind: int, address: int, name: str) -> Any:
    """An attribute as specs have it: a number, a truth or a text."""
    if kind == STRING:
        return _Span.from_address(address).text
    if kind == SCALAR:
        scalar = _Scalar.from_address(address)
        if scalar.dtype in DTYPES:
            dtype = DTYPES[scalar.dtype].numpy
            return np.frombuffer(ctypes.string_at(scalar.value, dtype.itemsize), dtype)[0].item()
    raise TypeError(f"attribute '{name}' is no number and no text")


def _types(arrays: Sequence[Array]) -> str:
    return ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays) or "none"


def _error(frame: _Frame, code: int, message: str) -> int | None:
    """An error of XLA, which the caller sees."""
    given = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message.encode(), code)
    made: int | None = frame.interface.contents.error(ctypes.byref(given))
    return made
