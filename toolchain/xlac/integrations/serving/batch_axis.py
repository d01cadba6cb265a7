"""Several requests as one call: which models permit it, and how inputs are joined and results
divided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xlac.integrations.serving.serving_options import unservable
from xlac_sdk.dims import Dim, Symbol, evaluate, symbols
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.programs.program import Program, Slot
from xlac_sdk.programs.results import Results
from xlac_sdk.programs.sizes import alone
from xlac_sdk.source import SourceError

Arrays = Mapping[str, Array]
Call = Callable[[Arrays], dict[str, Array]]

TOLERANCE = {DType.F64: 1e-6, DType.F32: 1e-3, DType.F16: 3e-2, DType.BF16: 0.1}
"""Of the largest number of a result: rounding is below, another row's number above."""


def batch_size(program: Program) -> Symbol:
    """The size along which requests are joined: the first axis of every input and output, and of
    no other. Raises SourceError that says why there is none.
    """
    found: Symbol | None = None
    if Results.of(tuple(slot.name for slot in program.outputs), program.facts) is not None:
        raise _no("sizes of its outputs depend on data")
    for kind, slots in (("input", program.inputs), ("output", program.outputs)):
        if not slots:
            raise _no(f"it has no {kind}")
        for slot in slots:
            size = _first(kind, slot)
            if found is not None and size.name != found.name:
                raise _no(
                    f"{kind} '{slot.name}' begins with size {size.name}, others with {found.name}"
                )
            found = size
    assert found is not None
    for kind, slots in (("input", program.inputs), ("output", program.outputs)):
        for slot in slots:
            if any(found.name in {s.name for s in symbols(dim)} for dim in slot.shape[1:]):
                raise _no(f"{kind} '{slot.name}' has size {found.name} in another axis, too")
    return found


def row_limit(size: Symbol, asked: int | None) -> int:
    """The rows of a call at most: those that are asked for, or the bound of the size. Raises
    SourceError for more than the bound, and for too few to join two requests.
    """
    limit = size.max if asked is None else asked
    if limit > size.max:
        bound = f"size {size.name} is at most {size.max}"
        raise unservable(f"batching of {limit} rows is not possible: {bound}")
    least = least_rows(size)
    if limit < 2 * least:
        raise unservable(f"batching of {limit} rows joins nothing: a request has {least} or more")
    return limit


def least_rows(size: Symbol) -> int:
    """The least positive value of a size."""
    by = size.multiple_of
    return max(-(-max(size.min, 1) // by) * by, by)


def joined(requests: Sequence[Arrays]) -> dict[str, Array]:
    """The inputs of several requests, one after the other along their first axis."""
    return {name: np.concatenate([r[name] for r in requests]) for name in requests[0]}


def divided(results: Arrays, rows: Sequence[int]) -> list[dict[str, Array]]:
    """The results of each of several requests, by their numbers of rows."""
    ends = np.cumsum(rows)
    return [
        {name: array[end - count : end] for name, array in results.items()}
        for end, count in zip(ends, rows, strict=True)
    ]


def check_rows(program: Program, size: Symbol, call: Call) -> None:
    """Calls with random numbers, alone and joined. Raises SourceError for a model whose rows depend
    on each other, as those of a mean over the batch do: requests would see each other's numbers.
    """
    generator = np.random.default_rng(0)
    rows = least_rows(size)
    requests = [_random(program, size, rows, generator) for _ in range(2)]
    try:
        apart = [call(request) for request in requests]
        together = divided(call(joined(requests)), [rows, rows])
    except SourceError as error:
        raise _no(f"a trial with random numbers failed: {error.diagnostics[0].message}") from None
    for slot in program.outputs:
        for first, second in zip(apart, together, strict=True):
            if not _agree(slot.dtype, first[slot.name], second[slot.name]):
                raise _no(f"rows of output '{slot.name}' depend on other rows of a call")


def _first(kind: str, slot: Slot) -> Symbol:
    """The open size that is the first axis of a tensor."""
    if not slot.shape:
        raise _no(f"{kind} '{slot.name}' is a scalar")
    solved = alone(slot.shape[0])
    if solved is None or solved[1:] != (1, 0):
        raise _no(f"{kind} '{slot.name}' begins with {slot.shape[0]}, which is no open size")
    return solved[0]


def _random(
    program: Program, size: Symbol, rows: int, generator: np.random.Generator
) -> dict[str, Array]:
    """Inputs of so many rows; of other open sizes two where they may be."""

    def extent(dim: Dim) -> int:
        values = {s.name: rows if s.name == size.name else _small(s) for s in symbols(dim)}
        return evaluate(dim, values)

    made = {}
    for slot in program.inputs:
        shape = tuple(map(extent, slot.shape))
        numbers: Array = generator.standard_normal(shape)
        if slot.dtype.is_integer:  # that divide, and are indices
            numbers = 1.0 + (numbers > 0)
        elif not slot.dtype.is_float:
            numbers = numbers > 0
        made[slot.name] = numbers.astype(slot.dtype.numpy)
    return made


def _small(size: Symbol) -> int:
    by = size.multiple_of
    return min(max(least_rows(size), -(-2 // by) * by), size.max)


def _agree(dtype: DType, first: Array, second: Array) -> bool:
    if dtype not in TOLERANCE:
        return np.array_equal(first, second)
    a, b = first.astype(np.float64), second.astype(np.float64)
    finite = np.abs(a[np.isfinite(a)])
    room = TOLERANCE[dtype] * float(finite.max(initial=0.0))
    return bool(np.allclose(a, b, rtol=0.0, atol=room, equal_nan=True))


def _no(reason: str) -> SourceError:
    hint = "leave batching out: then each request is a call"
    return unservable(f"requests to this model cannot be joined: {reason}", hint)
