"""Binds what a call brings to what is called: names, element types, shapes, devices and memory, for
every way to call.

Each mistake has one number and one wording, whoever finds it. Backends that take arrays of their
own kind use it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlac_sdk.dims import Shape
from xlac_sdk.dtypes import DType
from xlac_sdk.programs.program import Slot
from xlac_sdk.source import Diagnostic, SourceError

Array = np.ndarray[Any, np.dtype[Any]]

# DLDeviceType that the processor can read
HOST = {1: "cpu", 3: "cuda_host", 11: "rocm_host", 13: "cuda_managed"}
ELSEWHERE = {
    2: "cuda",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    10: "rocm",
    14: "oneapi",
    15: "webgpu",
}


def wrong(code: str, message: str, hint: str = "") -> SourceError:
    return SourceError(Diagnostic(code, message, hint=hint))


# ---- names
# -------------------------------------------------------------------------------------------


class Parameters(NamedTuple):
    """What may be given to something that is called, in order.

    `optional` may be left out; the first `positional` of `names` have a place as well as a name,
    and the first `unnamed` nothing but a place. With `rest` there may be more by position, with
    `more` by any name.
    """

    names: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    positional: int | None = None  # None: all
    unnamed: int = 0
    rest: bool = False
    more: bool = False


def by_name(
    parameters: Parameters, arrays: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Every input by name, in the order of the parameters; what comes under other names is behind
    them.

    Raises SourceError for one that is missing, unknown, or given twice. Of `rest` only the count is
    left to the caller.
    """
    names = parameters.names
    placed = names if parameters.positional is None else names[: parameters.positional]
    if len(arrays) > len(placed) and not parameters.rest:
        expected = ", ".join(placed) or "none"
        takes = f"it takes {len(placed)}" + ("" if len(placed) == len(names) else " by position")
        raise wrong("XL6001", f"{len(arrays)} inputs given, but {takes}: {expected}")
    given = dict(zip(placed, arrays, strict=False))
    nameable = names[parameters.unnamed :] if parameters.unnamed else names
    for name, value in named.items():
        if name in given and name in nameable:
            raise wrong("XL6001", f"input '{name}' is given twice, by position and by name")
        if name not in nameable and not parameters.more:
            raise unknown("input", name, nameable)
        given[name] = value
    if len(given) < len(names):
        missing = [name for name in names if name not in given and name not in parameters.optional]
        if missing:
            raise wrong("XL6001", f"input '{missing[0]}' is missing")
    if named:
        return {
            name: given[name]
            for name in (*names, *(n for n in named if n not in names))
            if name in given
        }
    return given


def unknown(kind: str, name: str, known: Sequence[str]) -> SourceError:
    """The error for an input or output of a name that there is not."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1)
    hint = (
        f"did you mean '{close[0]}'?"
        if close
        else f"there are: {', '.join(known)}"
        if known
        else ""
    )
    return wrong("XL6001", f"unknown {kind} '{name}'", hint)


# ---- arrays of the host
# ------------------------------------------------------------------------------


def as_array(value: Any, dtype: DType | None = None, name: str = "") -> Array:
    """A NumPy array of anything array-like, without a copy where that is possible; `name` is the
    input's, for errors.

    Numbers and nested lists of them become arrays of `dtype`. Raises SourceError for what has no
    numbers that the processor can read, and for numbers that the type cannot hold.
    """
    if isinstance(value, np.ndarray | np.generic):
        if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
            raise wrong(
                "XL6002",
                f"{_input(name)}a masked array is not an array: some of its numbers are missing",
                "x.filled(0.0) says what they are",
            )
        return np.asarray(value)
    if isinstance(value, bool | int | float) and dtype is None:
        return _numbers(value, None, name)
    elsewhere = device_of(value)
    if elsewhere:
        raise on_device(name, elsewhere)
    if without_memory(value):
        raise on_device(name, NOWHERE)
    try:
        # PyTorch exports such a tensor without its sign
        if hasattr(value, "is_neg") and value.is_neg():
            value = value.resolve_neg()
        if hasattr(value, "__dlpack__"):
            found = _exported(value)
            if found is not None:
                return found
        if hasattr(value, "__array__"):
            return np.asarray(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise wrong(
            "XL6002", f"{_input(name)}is not an array that can be read: {_first_line(error)}"
        ) from None
    return _numbers(value, dtype, name)


def _exported(value: Any) -> Array | None:
    """The array on the memory of an exporter of DLPack; None where it refuses, or has a type that
    NumPy lacks.
    """
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):
        return None


def without_memory(value: Any) -> bool:
    """Whether a tensor of PyTorch only stands for others: NumPy would give it memory of its own,
    with anything in it.
    """
    if hasattr(value, "fake_mode"):
        return True
    if not hasattr(value, "data_ptr") or not hasattr(value, "numel"):
        return False
    try:
        return bool(value.numel()) and not value.data_ptr()
    except RuntimeError:  # those of torch.func have none to tell
        return True


def _numbers(value: Any, dtype: DType | None, name: str) -> Array:
    """Python's numbers and lists as an array, if it holds what they say."""
    try:
        plain = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise wrong(
            "XL6002",
            f"{_input(name)}a {type(value).__name__} is not an array: {_first_line(error)}",
        ) from None
    if (
        plain.size
        and plain.dtype.kind not in "biuf"
        and not (plain.dtype.kind == "c" and dtype is None)
    ):
        small = plain.dtype.kind == "O" and all(
            isinstance(part, int | float) for part in plain.flat
        )
        problem = "it holds an integer beyond 64 bits" if small else f"it holds {_held(plain)}"
        raise wrong("XL6002", f"{_input(name)}a {type(value).__name__} is not an array: {problem}")
    if dtype is None:
        return plain
    with np.errstate(all="ignore"):
        found = plain.astype(dtype.compute.numpy).astype(dtype.numpy)
    if not dtype.is_float and not np.array_equal(found, plain):
        lost = next(part for part, kept in zip(plain.flat, found.flat, strict=True) if part != kept)
        raise wrong("XL6002", f"{_input(name)}is {dtype}, which cannot hold {lost}")
    return found


def _held(array: Array) -> str:
    first = next(iter(array.flat))
    return f"a {type(first).__name__}" if array.dtype.kind == "O" else f"{array.dtype.name}"


def type_of(dtype: np.dtype[Any], name: str = "") -> DType:
    """Our name for an element type. Raises SourceError for one that xlac does not have."""
    try:
        return DType.of(dtype)
    except KeyError:
        raise wrong("XL6002", f"{_input(name)}xlac has no element type {dtype}") from None


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def device_of(value: Any) -> str:
    """The device that an array lies on, as its library calls it, where that is not the processor's
    memory; else "".
    """
    device = getattr(value, "__dlpack_device__", None)
    if device is None:
        return (
            "cuda"
            if hasattr(value, "__cuda_array_interface__") and not hasattr(value, "__array__")
            else ""
        )
    try:
        kind, number = device()
    except (BufferError, RuntimeError, TypeError, ValueError, NotImplementedError):
        # DLPack has no word for it
        told = str(getattr(value, "device", ""))
        return "" if told.startswith("cpu") else told or "a device that DLPack does not know"
    if int(kind) in HOST:
        return ""
    return f"{ELSEWHERE.get(int(kind), f'device kind {int(kind)}')}:{int(number)}"


NOWHERE = "nowhere: it stands for an array and has no numbers"


def on_device(name: str, device: str) -> SourceError:
    """The error for an array that lies elsewhere than the program reads."""
    hint = (
        ""
        if device.startswith(("meta", "nowhere"))
        else "copy it first: x.cpu() in PyTorch, jax.device_get(x), y.numpy() of a result of xlac"
    )
    return wrong(
        "XL6008",
        f"{_input(name)}is an array on another device than the program reads: {device}",
        hint,
    )


def _input(name: str) -> str:
    return f"input '{name}': " if name else ""


# ---- what a program takes and gives
# ------------------------------------------------------------------


def as_input(name: str, dtype: DType, shape: Shape, value: Any) -> Array:
    """A dense array that may be read for an input, converted from anything array-like; extents that
    are open are not looked at.

    Python's numbers and lists take the input's dtype; arrays must have it already.
    """
    array = value if type(value) is np.ndarray else as_array(value, dtype, name)
    if array.dtype != dtype.numpy:
        raise other_type("input", name, dtype, array.dtype)
    if not fits(array.shape, shape):
        raise other_shape("input", name, shape, array.shape)
    if not array.flags.c_contiguous or not array.flags.aligned:
        array = np.array(array, order="C")
    return array


def as_inputs(slots: Sequence[Slot], given: Mapping[str, Any]) -> dict[str, Array]:
    """The inputs of a program by name, each as `as_input` says."""
    return {
        slot.name: as_input(slot.name, slot.dtype, slot.shape, given[slot.name]) for slot in slots
    }


def other_type(
    kind: str, name: str, wanted: DType | np.dtype[Any], found: object, hint: str = ""
) -> SourceError:
    """The error for an array of another element type; `found` is NumPy's, or of a name like it."""
    if kind == "input" and not hint:
        dtype = wanted.numpy if isinstance(wanted, DType) else np.dtype(wanted)
        home = "np" if dtype.isbuiltin == 1 else "ml_dtypes"
        hint = f"convert it: x.astype({home}.{dtype.name})"
    ours = (
        wanted
        if isinstance(wanted, DType)
        else next((d for d in DType if d.numpy == wanted), wanted)
    )
    return wrong("XL6002", f"{kind} '{name}' must be {ours}, not {found}", hint)


def other_shape(kind: str, name: str, wanted: Shape, found: Sequence[int]) -> SourceError:
    """The error for an array of another shape."""
    return wrong(
        "XL6003",
        f"{kind} '{name}' must have shape {shape_text(wanted)}, not {shape_text(tuple(found))}",
    )


def fits(given: Sequence[int], wanted: Shape) -> bool:
    """Whether ranks and fixed extents agree; open ones are looked at together, by `sizes.of_call`."""
    if given == wanted:
        return True
    return len(given) == len(wanted) and all(
        n == m or not isinstance(m, int) for n, m in zip(given, wanted, strict=True)
    )


def shape_text(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"


def output_shape(slot: Slot, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an output for the sizes of a call, which may be too small for it."""
    shape = slot.extents(sizes)
    if min(shape, default=0) < 0:
        values = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise wrong(
            "XL6003", f"output '{slot.name}' has no shape with {values}: {shape_text(shape)}"
        )
    return shape


def outputs_by_name(names: Sequence[str], out: Mapping[str, Any]) -> None:
    """Raises SourceError for an output that is missing from `out`, or unknown."""
    for name in names:
        if name not in out:
            raise wrong("XL6004", f"output '{name}' is missing from `out`")
    if len(out) > len(names):
        raise unknown("output", next(name for name in out if name not in names), names)


def check_outputs(
    slots: Sequence[Slot],
    out: Mapping[str, Any],
    inputs: Mapping[str, Array],
    sizes: Mapping[str, int],
) -> None:
    """Raises SourceError for arrays that results cannot be written to: wrong, not dense, read-only,
    or sharing memory.
    """
    outputs_by_name([slot.name for slot in slots], out)
    for slot in slots:
        check_output(slot, out[slot.name], output_shape(slot, sizes))
    check_apart(
        [(f"output '{slot.name}'", *_room(out[slot.name])) for slot in slots],
        [(f"input '{name}'", *_room(array)) for name, array in inputs.items()],
    )


def check_output(slot: Slot, array: Any, shape: tuple[int, ...]) -> None:
    """Raises SourceError for anything but a dense writable NumPy array of the right type and shape."""
    name = slot.name
    if not isinstance(array, np.ndarray):
        raise wrong("XL6004", f"output '{name}' must be a NumPy array, not {type(array).__name__}")
    if array.dtype != slot.dtype.numpy:
        raise other_type("output", name, slot.dtype, array.dtype)
    if array.shape != shape:
        raise other_shape("output", name, shape, array.shape)
    if not (array.flags.c_contiguous and array.flags.aligned and array.flags.writeable):
        raise wrong("XL6004", f"output '{name}' must be C-contiguous, aligned and writable")


def check_apart(
    outputs: Iterable[tuple[str, int, int]], inputs: Iterable[tuple[str, int, int]]
) -> None:
    """Raises SourceError when an output shares memory with an input or with another output.

    Each is what to call it, its address and its bytes. Inputs may share memory with each other.
    """
    rooms = [(at, at + nbytes, True, what) for what, at, nbytes in outputs if nbytes]
    rooms += [(at, at + nbytes, False, what) for what, at, nbytes in inputs if nbytes]
    last: dict[bool, tuple[int, str]] = {}  # of outputs, of inputs: how far they reach so far
    for start, stop, written, what in sorted(rooms):
        for other in (True, False) if written else (True,):
            reach, whose = last.get(other, (0, ""))
            if start < reach:
                first, then = (what, whose) if written else (whose, what)
                raise wrong("XL6004", f"{first} shares memory with {then}")
        if stop > last.get(written, (0, ""))[0]:
            last[written] = stop, what


def _room(array: Array) -> tuple[int, int]:
    """Where a dense array lies, and its bytes."""
    return array.__array_interface__["data"][0], array.nbytes
