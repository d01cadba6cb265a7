"""Calls with arrays on the GPU: validated, ordered among streams, and run without a copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from xlac_cuda.device.arrays import ALIGN, Given, check, given, is_on_gpu
from xlac_cuda.run.replay import replay
from xlac_sdk.dtypes import DType
from xlac_sdk.host.array_values import as_array
from xlac_sdk.host.call_binding import (
    Parameters,
    by_name,
    check_apart,
    check_output,
    outputs_by_name,
)
from xlac_sdk.programs.program import Slot
from xlac_sdk.programs.sizes import of_call

if TYPE_CHECKING:
    from xlac_cuda.run.executable import CudaExecutable


KEPT = 256  # sets of shapes that are cached


@dataclass(frozen=True, slots=True)
class _Shaped:
    shape: tuple[int, ...]


Shapes = tuple[tuple[int, ...], ...]
Made = tuple[DType, tuple[int, ...], int]  # a result: its type, shape and bytes


@dataclass(frozen=True, slots=True)
class Form:
    """What follows from the shapes of the inputs: the sizes, the shape of every array, and its
    bytes.
    """

    sizes: Mapping[str, int]
    key: tuple[int, ...]  # the values of the sizes
    inputs: Shapes
    names: tuple[str, ...]  # of the outputs
    results: tuple[Made, ...]
    read: tuple[int, ...]  # bytes of each input


def form_of(executable: CudaExecutable, shapes: Shapes) -> Form:
    """The form of a set of shapes, cached."""
    form = executable.forms.get(shapes)
    if form is None:
        program = executable.program
        sizes = of_call(
            program,
            {s.name: _Shaped(shape) for s, shape in zip(program.inputs, shapes, strict=True)},
        )
        outputs = [(slot.dtype, slot.extents(sizes)) for slot in program.outputs]
        form = Form(
            sizes,
            tuple(sizes.values()),
            tuple(slot.extents(sizes) for slot in program.inputs),
            tuple(slot.name for slot in program.outputs),
            tuple((dtype, shape, prod(shape) * dtype.nbytes) for dtype, shape in outputs),
            tuple(prod(slot.extents(sizes)) * slot.dtype.nbytes for slot in program.inputs),
        )
        if len(executable.forms) >= KEPT:
            executable.forms.clear()
        executable.forms[shapes] = form
    return form


def device_call(
    executable: CudaExecutable,
    arrays: Sequence[Any],
    named: Mapping[str, Any],
    outputs: Mapping[str, Any] | None = None,
) -> Any:
    """Runs a program on arrays of which some are on the GPU; see `CudaExecutable.fast`
    and `into`.
    """
    program = executable.program
    values = list(by_name(Parameters(executable.names), arrays, named).values())
    with executable.turn:
        operands = [
            given(value, executable.stream)
            if is_on_gpu(value)
            else as_array(value, slot.dtype, slot.name)
            for slot, value in zip(program.inputs, values, strict=True)
        ]
        stream = next(
            (one.stream for one in operands if isinstance(one, Given) and one.stream and one.lasts),
            executable.stream,
        )
        form = form_of(executable, tuple([one.shape for one in operands]))
        for slot, shape, one in zip(program.inputs, form.inputs, operands, strict=True):
            check("input", slot, shape, _described(one, slot, executable), executable.gpu.index)
        executable.turn_to(stream)
        if outputs is not None:
            _check_rooms(executable, form, operands, outputs)
        addresses = [
            _placed(executable, number, one, stream) for number, one in enumerate(operands)
        ]
        results, targets = _results(executable, form, outputs, stream)
        executable.issue(form, (*addresses, *targets), stream)
        _finish(executable, operands, stream)
        if not program.facts.get("extents"):
            wanted = None if outputs is None else [outputs[name] for name in form.names]
            executable.replay = replay(form, executable.names, values, wanted, stream)
        return _delivered(executable, results, outputs, stream)


def _described(one: Any, slot: Slot, executable: CudaExecutable) -> Given:
    """A host array described like a device array, for the same validation."""
    if isinstance(one, Given):
        return one
    same = one.dtype == slot.dtype.numpy
    return Given(0, slot.dtype if same else None, one.shape, executable.gpu.index, True, None, one)


def _placed(executable: CudaExecutable, number: int, one: Any, stream: int) -> int:
    """The address of an input on the device, with `stream` ordered after its producer."""
    if isinstance(one, Given):
        if one.stream is not None:
            executable.results.order(one.stream, stream)
        elif stream != executable.stream:
            executable.results.order(executable.stream, stream)
        if one.address % ALIGN == 0:
            return one.address
        nbytes = prod(one.shape) * executable.program.inputs[number].dtype.nbytes
        if nbytes:
            executable.gpu.move(executable.memory.own[number], one.address, nbytes, stream)
        return executable.memory.own[number]
    address = executable.memory.own[number]
    executable.staging.upload(address, np.ascontiguousarray(one).reshape(-1).view(np.uint8), stream)
    return address


def _check_rooms(
    executable: CudaExecutable, form: Form, given_arrays: Sequence[Any], outputs: Mapping[str, Any]
) -> None:
    """Raises SourceError for outputs that are missing, unknown, or share memory with an input or
    another output.
    """
    outputs_by_name(form.names, outputs)
    inputs = [
        (f"input '{slot.name}'", *_room(one))
        for slot, one in zip(executable.program.inputs, given_arrays, strict=True)
    ]
    check_apart([(f"output '{name}'", *_room(outputs[name])) for name in form.names], inputs)


def _room(value: Any) -> tuple[int, int]:
    """The address range of an array, on the device or the host."""
    if isinstance(value, Given):
        return value.address, prod(value.shape) * (value.dtype.nbytes if value.dtype else 0)
    if is_on_gpu(value):
        return _room(given(value, -1))
    return (
        (value.__array_interface__["data"][0], value.nbytes)
        if isinstance(value, np.ndarray)
        else (0, 0)
    )


def _results(
    executable: CudaExecutable, form: Form, outputs: Mapping[str, Any] | None, stream: int
) -> tuple[list[Any], list[int]]:
    """The outputs, and the addresses where they are written: new arrays, the caller's arrays on the
    device, or xlac's own for arrays on the host.
    """
    results: list[Any] = []
    targets: list[int] = []
    program = executable.program
    if outputs is None:
        results = [
            executable.results.make(dtype, shape, nbytes, stream)
            for dtype, shape, nbytes in form.results
        ]
        return results, [one.address for one in results]
    for number, (slot, (_, shape, _)) in enumerate(zip(program.outputs, form.results, strict=True)):
        value = outputs[slot.name]
        if is_on_gpu(value):
            one = given(value, stream)
            check("output", slot, shape, one, executable.gpu.index)
            if one.stream is not None:
                executable.results.order(one.stream, stream)
            targets.append(
                one.address
                if one.address % ALIGN == 0
                else executable.memory.own[len(program.inputs) + number]
            )
            results.append(one)
        else:
            check_output(slot, value, shape)
            targets.append(executable.memory.own[len(program.inputs) + number])
            results.append(value)
    return results, targets


def _finish(executable: CudaExecutable, given_arrays: Sequence[Any], stream: int) -> None:
    """Lets producers overwrite inputs after the call has read them: orders their streams after the
    call's, or waits for the call.
    """
    for one in given_arrays:
        if isinstance(one, Given) and one.stream is not None:
            executable.results.order(stream, one.stream)
        elif isinstance(one, Given):
            executable.gpu.sync(stream)


def _delivered(
    executable: CudaExecutable, results: list[Any], outputs: Mapping[str, Any] | None, stream: int
) -> Any:
    if outputs is None:
        if executable.program.facts.get("extents"):  # the valid size of each is data-dependent
            results = [result.numpy() for result in results]
        return results[0] if len(results) == 1 else tuple(results)
    for number, result in enumerate(results):
        if isinstance(result, np.ndarray):
            address = executable.memory.own[len(executable.program.inputs) + number]
            executable.staging.download(result.reshape(-1).view(np.uint8), address, stream)
            continue
        slot = executable.program.outputs[number]
        nbytes = prod(result.shape) * slot.dtype.nbytes
        if result.address % ALIGN and nbytes:
            executable.gpu.move(
                result.address,
                executable.memory.own[len(executable.program.inputs) + number],
                nbytes,
                stream,
            )
        if result.stream is not None:
            executable.results.order(stream, result.stream)
    return None
