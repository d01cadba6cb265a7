"""Binds the arguments of a call: names, element types, shapes, devices and memory, for every way to
call.

Each mistake has one number and one wording, wherever it is found. Backends that take arrays of
their own kind use this too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlac_sdk.dims import Shape
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.array_values import as_array, wrong
from xlac_sdk.programs.program import Slot
from xlac_sdk.source import SourceError
from xlac_sdk.support.choices import nearest
from xlac_sdk.support.counts import number_of

# ---- names
# -------------------------------------------------------------------------------------------


class Parameters(NamedTuple):
    """The parameters of a callable, in order.

    `optional` ones may be omitted; the first `positional` of `names` can be passed by position or
    name, and the first `unnamed` of these by position only. With `rest` further positional
    arguments are accepted, with `more` further keyword arguments.
    """

    names: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    positional: int | None = None  # None: all of them
    unnamed: int = 0
    rest: bool = False
    more: bool = False


def by_name(
    parameters: Parameters, arrays: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Every argument by name, in the order of the parameters, followed by arguments with other
    names.

    Raises SourceError for one that is missing, unknown, or given twice. For `rest`, the caller
    checks everything but the count.
    """
    if not isinstance(named, Mapping):
        problem = f"inputs are given in a dict by name, not as a {type(named).__name__}"
        raise wrong("XL6001", problem, 'run({"x": x}, out={"y": y}); a call takes them by position')
    names = parameters.names
    placed = names if parameters.positional is None else names[: parameters.positional]
    if len(arrays) > len(placed) and not parameters.rest:
        expected = ", ".join(placed) or "none"
        takes = f"it takes {len(placed)}" + ("" if len(placed) == len(names) else " by position")
        raise wrong("XL6001", f"{number_of(len(arrays), 'input')} given, but {takes}: {expected}")
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


def unknown(kind: str, name: object, known: Sequence[str]) -> SourceError:
    """The error for an unknown input or output."""
    hint = nearest(str(name), known, f"there are: {', '.join(known)}" if known else "")
    shown = f"'{name}'" if isinstance(name, str) else repr(name)
    return wrong("XL6001", f"unknown {kind} {shown}", hint)


# ---- arrays of the host
# ------------------------------------------------------------------------------


# ---- what a program takes and gives
# ------------------------------------------------------------------


def as_input(name: str, dtype: DType, shape: Shape, value: Any) -> Array:
    """A dense readable array for an input, converted from anything array-like; open extents are not
    checked.

    Python numbers and lists take the input's dtype; arrays must have it already.
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
    """The inputs of a program by name, each converted by `as_input`."""
    return {
        slot.name: as_input(slot.name, slot.dtype, slot.shape, given[slot.name]) for slot in slots
    }


def other_type(
    kind: str, name: str, wanted: DType | np.dtype[Any], given: object, hint: str = ""
) -> SourceError:
    """The error for an array of another element type; `given` is NumPy's type, or a name."""
    if kind == "input" and not hint:
        dtype = wanted.numpy if isinstance(wanted, DType) else np.dtype(wanted)
        home = "np" if dtype.isbuiltin == 1 else "ml_dtypes"
        hint = f"convert it: x.astype({home}.{dtype.name})"
    ours = (
        wanted
        if isinstance(wanted, DType)
        else next((d for d in DType if d.numpy == wanted), wanted)
    )
    return wrong("XL6002", f"{kind} '{name}' must be {ours}, not {given}", hint)


def other_shape(kind: str, name: str, wanted: Shape, given: Sequence[int]) -> SourceError:
    """The error for an array of another shape."""
    return wrong(
        "XL6003",
        f"{kind} '{name}' must have shape {shape_text(wanted)}, not {shape_text(tuple(given))}",
    )


def fits(given: Sequence[int], wanted: Shape) -> bool:
    """Whether ranks and fixed extents agree; open extents are checked by `sizes.of_call`."""
    if given == wanted:
        return True
    return len(given) == len(wanted) and all(
        n == m or not isinstance(m, int) for n, m in zip(given, wanted, strict=True)
    )


def shape_text(shape: Shape) -> str:
    """A shape for messages, as `(2, 3)`."""
    return "x".join(map(str, shape)) or "scalar"


def output_shape(slot: Slot, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an output for the sizes of a call; raises SourceError for sizes out of
    bounds.
    """
    shape = slot.extents(sizes)
    if min(shape, default=0) < 0:
        values = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise wrong(
            "XL6003", f"output '{slot.name}' has no shape with {values}: {shape_text(shape)}"
        )
    return shape


def outputs_by_name(names: Sequence[str], out: Mapping[str, Any]) -> None:
    """Raises SourceError for an output that is missing from `out`, or unknown, and where `out` is
    not a mapping.
    """
    if not isinstance(out, Mapping):
        problem = f"`out` is a dict of arrays by name, not a {type(out).__name__}"
        raise wrong("XL6004", problem, f"out={{{', '.join(f'{name!r}: …' for name in names)}}}")
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
    """Raises SourceError for arrays that cannot receive the results: of a wrong type or shape, not
    dense, read-only, or overlapping.
    """
    outputs_by_name([slot.name for slot in slots], out)
    for slot in slots:
        check_output(slot, out[slot.name], output_shape(slot, sizes))
    check_apart(
        [(f"output '{slot.name}'", *_room(out[slot.name])) for slot in slots],
        [(f"input '{name}'", *_room(array)) for name, array in inputs.items()],
    )


def check_output(slot: Slot, array: Any, shape: tuple[int, ...]) -> None:
    """Raises SourceError for anything but a dense writable NumPy array of the right type and
    shape.
    """
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
    """Raises SourceError where an output overlaps an input or another output.

    Each array is given as its name in messages, address and bytes. Inputs may overlap each other.
    """
    rooms = [(at, at + nbytes, True, what) for what, at, nbytes in outputs if nbytes]
    rooms += [(at, at + nbytes, False, what) for what, at, nbytes in inputs if nbytes]
    last: dict[bool, tuple[int, str]] = {}  # the end of outputs, and of inputs, seen so far
    for start, stop, written, what in sorted(rooms):
        for other in (True, False) if written else (True,):
            reach, whose = last.get(other, (0, ""))
            if start < reach:
                first, then = (what, whose) if written else (whose, what)
                raise wrong("XL6004", f"{first} shares memory with {then}")
        if stop > last.get(written, (0, ""))[0]:
            last[written] = stop, what


def _room(array: Array) -> tuple[int, int]:
    """The address of a dense array, and its bytes."""
    return array.__array_interface__["data"][0], array.nbytes
