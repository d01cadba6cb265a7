"""Tensors of the Open Inference Protocol (version 2) as arrays, and back.

The protocol gives a tensor as a name, a shape, a type and a list of numbers. Its types are those of
xlac, but for bf16, which servers do not know: it goes as FP32, which holds every bf16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from xlac_sdk.dims import Shape
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.host.array_values import as_array, wrong
from xlac_sdk.host.call_binding import (
    Parameters,
    as_input,
    by_name,
    other_shape,
    other_type,
    unknown,
)
from xlac_sdk.programs.program import Program, Slot
from xlac_sdk.programs.sizes import of_call
from xlac_sdk.support.counts import number_of

TYPES = {
    DType.F64: "FP64",
    DType.F32: "FP32",
    DType.F16: "FP16",
    DType.BF16: "FP32",
    **{d: d.value.replace("i", "INT") for d in (DType.I8, DType.I16, DType.I32, DType.I64)},
    **{d: d.value.replace("u", "UINT") for d in (DType.U8, DType.U16, DType.U32, DType.U64)},
    DType.BOOL: "BOOL",
}
"""The protocol's name of each element type."""


class WireTensor(NamedTuple):
    """A tensor as the protocol has it. `data` is a list of its numbers in row-major order; in a
    request it may be nested, too.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Any


def described(slot: Slot, open_axes: Iterable[int] = ()) -> WireTensor:
    """The name, type and shape of an input or output, without data. Sizes that a call chooses are
    -1, and so are those of `open_axes`, which data choose.
    """
    cut = frozenset(open_axes)
    shape = tuple(
        extent if isinstance(extent, int) and axis not in cut else -1
        for axis, extent in enumerate(slot.shape)
    )
    return WireTensor(slot.name, TYPES[slot.dtype], shape, None)


def inputs_of(program: Program, tensors: Sequence[WireTensor]) -> dict[str, Array]:
    """The inputs of a call by name. Raises SourceError for names, types, shapes, sizes and numbers
    that a call of the program would refuse.
    """
    given: dict[str, WireTensor] = {}
    for tensor in tensors:
        if tensor.name in given:
            raise wrong("XL6001", f"input '{tensor.name}' is given twice")
        given[tensor.name] = tensor
    named = by_name(Parameters(tuple(slot.name for slot in program.inputs)), (), given)
    arrays = {slot.name: _array(slot, named[slot.name]) for slot in program.inputs}
    of_call(program, arrays)
    return arrays


def known_outputs(names: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises SourceError for an output that is wanted and is none of the names."""
    for name in wanted:
        if name not in names:
            raise unknown("output", name, names)


def outputs_of(
    results: Mapping[str, Array], types: Mapping[str, DType], wanted: Sequence[str]
) -> list[WireTensor]:
    """The results of a call, all or those that are wanted by name."""
    return [_tensor(name, types[name], results[name]) for name in wanted or results]


def _array(slot: Slot, tensor: WireTensor) -> Array:
    name, dtype = slot.name, slot.dtype
    if tensor.datatype != TYPES[dtype]:
        hint = f"it is {TYPES[dtype]} in the protocol"
        raise other_type("input", name, dtype, tensor.datatype, hint)
    flat = as_array(tensor.data, dtype, name)
    if min(tensor.shape, default=0) < 0:
        raise other_shape("input", name, slot.shape, tensor.shape)
    if flat.size != prod(tensor.shape):
        shown = _shown(tensor.shape)
        problem = f"{number_of(flat.size, 'number')} for its shape {shown}"
        raise wrong("XL6003", f"input '{name}' has {problem}, which takes {prod(tensor.shape)}")
    return as_input(name, dtype, slot.shape, flat.reshape(tensor.shape))


def _tensor(name: str, dtype: DType, array: Array) -> WireTensor:
    plain = array.astype(np.float32) if dtype is DType.BF16 else array
    return WireTensor(name, TYPES[dtype], tuple(array.shape), plain.ravel().tolist())


def _shown(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"
