"""Solves for the sizes of a call from the shapes of its arrays, and checks their bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol
from weakref import WeakKeyDictionary

from xlac_sdk.dims import Dim, Shape, Sym, Symbol, substitute, upper_bound
from xlac_sdk.programs.program import Program, Role, Slot
from xlac_sdk.source import Diagnostic, SourceError

Wanted = tuple[str, Shape]
"""The name of an input, and its shape as the model declares it."""


class Shaped(Protocol):
    """An object with a shape, such as an array."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, as the caller gave them."""


KEPT = 256  # sets of shapes whose sizes are cached
_known: WeakKeyDictionary[Program, dict[tuple[tuple[int, ...], ...], dict[str, int]]] = (
    WeakKeyDictionary()
)


def of_call(program: Program, inputs: Mapping[str, Shaped]) -> dict[str, int]:
    """The value of every size of a program, from the arrays of a call. Raises SourceError as
    `solve` does.
    """
    if not program.sizes:
        return {}
    known = _known.setdefault(program, {})
    shapes = tuple(inputs[slot.name].shape for slot in program.inputs)
    sizes = known.get(shapes)
    if sizes is None:
        names = [slot.name for slot in program.inputs]
        sizes = solve(
            [(s.name, s.shape) for s in program.inputs], dict(zip(names, shapes, strict=True))
        )
        if len(known) >= KEPT:
            known.clear()
        known[shapes] = sizes
    return sizes


def arena_ends(program: Program) -> tuple[Dim, ...]:
    """The ends of temporaries in the arena, in bytes over the program's sizes: a call accesses
    nothing behind the largest of them.

    At most one is a number, there is one for each dominating expression of a size, and those that
    never exceed the number are omitted.
    """
    last: dict[Dim, int] = {}
    for slot in program.slots:
        if slot.role is Role.TEMPORARY:
            nbytes = slot.elements * slot.dtype.nbytes
            last[nbytes] = max(slot.offset, last.get(nbytes, 0))
    ends = [nbytes + offset for nbytes, offset in last.items()]
    fixed = max((end for end in ends if isinstance(end, int)), default=0)
    return (fixed, *(end for end in ends if isinstance(end, Sym) and upper_bound(end) > fixed))


def solve(inputs: Iterable[Wanted], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The value of every symbol that the shapes of the named inputs determine.

    Raises SourceError when a rank, a fixed size or two uses of one symbol disagree, or a bound is
    violated.
    """
    solution: dict[str, int] = {}
    known = [(name, shape, shapes[name]) for name, shape in inputs if name in shapes]
    for name, shape, given in known:
        if len(shape) != len(given):
            raise _wrong(
                f"input '{name}' must have rank {len(shape)}, as in {_text(shape)}, not {given}"
            )
        for dim, size in zip(shape, given, strict=True):
            solved = alone(dim)
            if solved is None or solved[0].name in solution:
                continue
            symbol, factor, constant = solved
            if (size - constant) % factor == 0:
                solution[symbol.name] = (size - constant) // factor
                check(symbol, solution[symbol.name])
    for name, shape, given in known:
        for axis, (dim, size) in enumerate(zip(shape, given, strict=True)):
            value = substitute(dim, solution)
            if value != size:
                values = ", ".join(f"{k}={v}" for k, v in solution.items())
                where = f"size {dim}" + (
                    f" is {value} with {values}" if isinstance(dim, Sym) else ""
                )
                raise _wrong(
                    f"input '{name}' has {size} at axis {axis}, but {where} in {_text(shape)}"
                )
    return solution


def determined(inputs: Iterable[Shape]) -> frozenset[str]:
    """The names of the symbols that `solve` can determine from arrays of these shapes."""
    return frozenset(solved[0].name for shape in inputs for dim in shape if (solved := alone(dim)))


def sources(slots: Iterable[Slot]) -> dict[str, tuple[int, int, int, int]]:
    """For each size, by name, the first place that determines it: (slot, axis, factor, constant);
    that axis has `factor * size + constant` elements.
    """
    places: dict[str, tuple[int, int, int, int]] = {}
    for number, slot in enumerate(slots):
        for axis, dim in enumerate(slot.shape):
            solved = alone(dim)
            if solved is not None:
                places.setdefault(solved[0].name, (number, axis, solved[1], solved[2]))
    return places


def alone(dim: Dim) -> tuple[Symbol, int, int] | None:
    """A size of the form `factor * symbol + constant` as those three; None for any other."""
    if not isinstance(dim, Sym):
        return None
    parts = dict(dim.parts)
    constant = parts.pop((), 0)
    if len(parts) != 1:
        return None
    ((atoms, factor),) = parts.items()
    if len(atoms) == 1 and isinstance(atoms[0], Symbol) and factor > 0:
        return atoms[0], factor, constant
    return None


def check(symbol: Symbol, value: int) -> None:
    """Raises SourceError for a value outside the bounds of a size."""
    if not symbol.min <= value <= symbol.max:
        raise _wrong(f"size {symbol.name}={value} is outside its bounds {symbol.min}..{symbol.max}")
    if value % symbol.multiple_of:
        raise _wrong(f"size {symbol.name}={value} is not a multiple of {symbol.multiple_of}")


def _text(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _wrong(message: str) -> SourceError:
    return SourceError(Diagnostic("XL6003", message))
