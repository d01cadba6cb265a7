"""The inputs of a call: files and literals given by the user; the others are random."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xlac.model import Model
    from xlac_sdk.dtypes import DType
    from xlac_sdk.programs.program import Program


def value(read: Any) -> Any:
    """The value of an input that determines sizes, as an array."""
    import numpy as np

    from xlac.cli.arrays import UntypedNumbers

    return (
        np.asarray(read.values if len(read.values) > 1 else read.values[0])
        if isinstance(read, UntypedNumbers)
        else read
    )


def gather(
    model: Model,
    given: dict[str, str],
    archive: Path | None,
    seed: int,
    decided: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """An array for every input: files and literals first, so that they determine the open sizes."""
    from xlac.ir.dims import substitute, symbols
    from xlac.ops.tensor.leaf import param

    types = {param(node).name: node.type for node in model.inputs}
    arrays, sizes = arrays_and_sizes(model, given, archive, decided)

    def fixed(dim: Any) -> Any:
        return substitute(dim, {s.name: sizes.get(s.name, s.opt) for s in symbols(dim)})

    closed = {name: (type.dtype, tuple(map(fixed, type.shape))) for name, type in types.items()}
    return filled(arrays, closed, given, seed)


def arrays_and_sizes(
    model: Model, given: dict[str, str], archive: Path | None, decided: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], dict[str, int]]:
    """The user's inputs, and the open sizes determined by their shapes."""
    from xlac.ops.tensor.leaf import param
    from xlac.runtime.specialization import solve

    ranks = {param(node).name: len(node.shape) for node in model.inputs}
    arrays = brought([*ranks, *decided], given, archive)
    arrays = {name: array for name, array in arrays.items() if name not in decided}
    return arrays, solve(model.inputs, shapes_of(arrays, ranks))


def sizes_of(
    model: Model, given: dict[str, str], archive: Path | None, decided: frozenset[str]
) -> dict[str, int]:
    """The open sizes of a model that the user's inputs determine."""
    return arrays_and_sizes(model, given, archive, decided)[1]


def brought(names: Iterable[str], given: dict[str, str], archive: Path | None) -> dict[str, Any]:
    """The arrays and numbers in files and literals. Raises SourceError for one that is not an input
    of the model.
    """
    from xlac.cli.arrays import KINDS, load_npz, read
    from xlac_sdk.host.call_binding import unknown

    arrays: dict[str, Any] = {}
    if archive is not None:
        arrays.update(load_npz(archive))
    for name, text in given.items():
        if text not in KINDS:
            arrays[name] = read(text, name)
    for name in (*arrays, *given):
        if name not in names:
            raise unknown("input", name, [*names])
    return arrays


def shapes_of(arrays: Mapping[str, Any], ranks: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """The shapes of the user's arrays, and of rows of numbers where the input has one axis."""
    from xlac.cli.arrays import UntypedNumbers

    shapes = {
        name: value.shape for name, value in arrays.items() if not isinstance(value, UntypedNumbers)
    }
    rows = {
        n: v
        for n, v in arrays.items()
        if isinstance(v, UntypedNumbers) and len(v.values) > 1 and ranks.get(n) == 1
    }
    return shapes | {name: (len(value.values),) for name, value in rows.items()}


def check_outputs(named: Iterable[str], outputs: Iterable[str]) -> None:
    """Raises SourceError for a requested output that the model does not have."""
    from xlac_sdk.host.call_binding import unknown

    known = [*outputs]
    for name in named:
        if name not in known:
            raise unknown("output", name, known)


def filled(
    arrays: dict[str, Any],
    types: Mapping[str, tuple[DType, tuple[int, ...]]],
    given: dict[str, str],
    seed: int,
) -> dict[str, Any]:
    """All inputs: the user's, and generated ones (by default random) of the right types.

    Raises SourceError for an array of another type or shape.
    """
    import numpy as np

    from xlac.cli.arrays import UntypedNumbers, make
    from xlac_sdk.host.call_binding import as_input

    generator = np.random.default_rng(seed)
    inputs = {}
    for name, (dtype, shape) in types.items():
        if name not in arrays:
            inputs[name] = make(given.get(name, "random"), dtype, shape, generator)
        elif isinstance(arrays[name], UntypedNumbers):
            inputs[name] = arrays[name].of(name, dtype, shape)
        else:
            inputs[name] = as_input(name, dtype, shape, arrays[name])
    return inputs


def drawn(
    program: Program, given: dict[str, str], archive: Path | None, seed: int
) -> dict[str, Any]:
    """All inputs of a program, at the sizes determined by the user's inputs."""
    from xlac_sdk.programs.sizes import solve

    slots = program.inputs
    arrays = brought([s.name for s in slots], given, archive)
    sizes = {symbol.name: symbol.opt for symbol in program.sizes}
    sizes |= solve(
        [(s.name, s.shape) for s in slots], shapes_of(arrays, {s.name: len(s.shape) for s in slots})
    )
    return filled(arrays, {s.name: (s.dtype, s.extents(sizes)) for s in slots}, given, seed)
