"""Checks shared by shape rules, with messages in the user's terms."""

from __future__ import annotations

from collections.abc import Sequence

from xlac.ir.dims import Dim, Shape, bounds
from xlac.ir.op import ShapeError
from xlac.ir.types import Type, Types
from xlac_sdk.dtypes import DType

FLOATS = frozenset(d for d in DType if d.is_float)
INTEGERS = frozenset(d for d in DType if d.is_integer)
SIGNED = frozenset(d for d in DType if d.is_signed)
NUMBERS = FLOATS | INTEGERS
BITS = INTEGERS | {DType.BOOL}
ANY = frozenset(DType)
TABLE = 1 << 26  # the most elements of a constant in an expansion


def names(dtypes: frozenset[DType]) -> str:
    """A set of element types, for a message."""
    for known, text in (
        (FLOATS, "floats"),
        (INTEGERS, "integers"),
        (NUMBERS, "numbers"),
        (BITS, "integers or bool"),
    ):
        if dtypes == known:
            return text
    return ", ".join(d.value for d in DType if d in dtypes)


def dims(shape: Shape) -> str:
    """A shape, for a message."""
    return f"[{', '.join(map(str, shape))}]"


def check_table(mnemonic: str, count: float, x: Type, most: int = TABLE) -> None:
    """Raises ShapeError where the expansion of an operation would hold a constant of more than
    `most` elements, before it is made.
    """
    if count > most:
        raise ShapeError(
            f"{mnemonic} of {x} needs a constant of {count:.3g} numbers; at most {most:,} are made",
            operand=0,
        )


def check_dtype(mnemonic: str, x: Type, accepts: frozenset[DType], operand: int = 0) -> None:
    """Raises ShapeError for an element type that an operation does not take."""
    if x.dtype not in accepts:
        hint = (
            "cast it first"
            if x.dtype is DType.BOOL or not accepts & FLOATS or x.dtype.is_integer
            else ""
        )
        raise ShapeError(f"{mnemonic} takes {names(accepts)}, got {x}", operand=operand, hint=hint)


def check_same(mnemonic: str, types: Sequence[Type], first: int = 0) -> Type:
    """Raises ShapeError unless all types are equal, in shape and dtype; `first` is the operand
    number of the first of them.
    """
    check_one_dtype(mnemonic, types, first)
    for number, other in enumerate(types[1:], first + 1):
        if other.shape != types[0].shape:
            raise ShapeError(
                f"{mnemonic} needs equal shapes, got {types[0]} and {other}", operand=number
            )
    return types[0]


def check_one_dtype(mnemonic: str, types: Sequence[Type], first: int = 0) -> None:
    """Raises ShapeError unless all operands have one element type."""
    for number, other in enumerate(types[1:], first + 1):
        if other.dtype is not types[0].dtype:
            raise ShapeError(
                f"{mnemonic} needs one element type, got {types[0]} and {other}",
                operand=number,
                hint="cast one of them",
            )


def check_scalar(mnemonic: str, x: Type, operand: int) -> None:
    """Raises ShapeError for anything but a scalar."""
    if x.shape:
        raise ShapeError(f"{mnemonic} needs a scalar here, got {x}", operand=operand)


def check_axes(axes: Sequence[int], rank: int, attribute: str = "axes") -> None:
    """Distinct axes, as nonnegative numbers. Raises ShapeError."""
    for axis in axes:
        if not 0 <= axis < rank:
            raise ShapeError(
                f"axis {axis} is out of range for a tensor of rank {rank}", attribute=attribute
            )
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{attribute} {list(axes)} names an axis twice", attribute=attribute)


def check_rank(mnemonic: str, x: Type, rank: int, operand: int = 0) -> None:
    """Raises ShapeError for another rank."""
    if x.rank != rank:
        raise ShapeError(f"{mnemonic} needs a tensor of rank {rank}, got {x}", operand=operand)


def check_lengths(mnemonic: str, rank: int, **attributes: Sequence[object]) -> None:
    """Raises ShapeError unless attributes have one entry per axis."""
    for name, values in attributes.items():
        if len(values) != rank:
            raise ShapeError(
                f"{mnemonic} needs {rank} entries in {name}, one an axis, got {list(values)}",
                attribute=name,
            )


def extent(size: Dim) -> Dim:
    """A size computed by subtraction, at least 0."""
    return max(0, size) if isinstance(size, int) else size


def undivided(size: Dim, what: str, parts: str) -> str:
    """Why a number of something is not divided: it does not fit, or it is not known."""
    if isinstance(size, int):
        return f"{size} {what} do not divide into {parts}"
    return f"whether {size} {what} divide into {parts} is unknown"


def fits(value: Dim, limit: Dim) -> bool:
    """False when `value` is known to exceed `limit`."""
    return bounds(limit - value)[1] >= 0


def several(types: Sequence[Type]) -> Types:
    """A single type alone, several as a tuple: the result types of an operation."""
    return types[0] if len(types) == 1 else tuple(types)
