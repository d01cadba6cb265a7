"""Convolutions and attention as operation graphs of cuDNN."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from xlac_cuda.libraries.cudnn_graph import Operations, Shape
from xlac_cuda.libraries.cudnn_names import Note, Pointwise
from xlac_sdk.dims import static
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.attention import Attention
from xlac_sdk.libraries.convolution import Convolution
from xlac_sdk.libraries.product import GELU, RELU
from xlac_sdk.libraries.strided import Strided

Problem = Convolution | Attention
ALIGNED = 16  # bytes of workspace that engines may use
ACTIVATIONS = {RELU: Pointwise.RELU_FWD, GELU: Pointwise.GELU_APPROX_TANH_FWD}
NEVER = frozenset(
    {
        Note.NONDETERMINISTIC,
        Note.REDUCED_PRECISION_REDUCTION,
        Note.DOWN_CONVERT_INPUTS,
        Note.WINOGRAD_TILE_6X6,
        Note.WINOGRAD_TILE_13X13,
    }
)
# engines whose sums have other products than the model's
TRANSFORMED = frozenset({Note.FFT, Note.WINOGRAD, Note.WINOGRAD_TILE_4X4})


@dataclass(slots=True)
class WrittenGraph:
    """A graph's tensors in memory, in the order of the call's arguments, and the numbers passed by
    the host.
    """

    arguments: list[int]
    scalars: dict[int, Any] = field(default_factory=dict)


def offsets(problem: Problem) -> list[int]:
    """The offset in bytes of the tensor in each argument, except the workspace."""
    if isinstance(problem, Convolution):
        sides = [problem.x, problem.kernel, problem.addend, problem.result]
        bias = [problem.bias_offset * problem.bias.nbytes] if problem.bias else []
    else:
        sides, bias = (
            [problem.queries, problem.keys, problem.values, problem.mask, problem.result],
            [],
        )
    offsets = [side.offset * side.dtype.nbytes for side in sides if side is not None]
    return list(static((*offsets[:-1], *bias, offsets[-1])))


def refused(problem: Problem) -> frozenset[Note]:
    """Notes of engines that round differently than the model allows, or nondeterministically."""
    if isinstance(problem, Attention):
        return NEVER
    exact = NEVER if problem.fast else NEVER | TRANSFORMED
    return (
        exact | {Note.TENSOR_CORE} if problem.x.dtype is DType.F32 and not problem.fast else exact
    )


def written(problem: Problem, operations: Operations, alignments: Sequence[int]) -> WrittenGraph:
    """Adds a problem with known sizes to a graph. Alignments are those of the arguments' tensors,
    in bytes.
    """
    return (
        _convolution(problem, operations, alignments)
        if isinstance(problem, Convolution)
        else _attention(problem, operations, alignments)
    )


# ---- convolutions ----------------------------------------------------------------------------


def _convolution(
    problem: Convolution, operations: Operations, alignments: Sequence[int]
) -> WrittenGraph:
    """Convolution, addend, bias, activation: in this order the library has fused kernels."""
    line = len(problem.strides) == 1
    sides = [side for side in (problem.x, problem.kernel, problem.addend) if side is not None]
    *tensors, last = [*sides, problem.result]
    operands = [
        operations.tensor(side.dtype, *_places(side, line), alignment)
        for side, alignment in zip(tensors, alignments, strict=False)
    ]
    extents, steps = _places(last, line)
    if problem.bias:
        ones = (1,) * (len(extents) - 2)
        wide = (1, extents[1], *ones), (extents[1], 1, *ones)
        operands.append(operations.tensor(problem.bias, *wide, alignments[len(operands)]))
    result = operations.tensor(last.dtype, extents, steps, alignments[len(operands)])
    after: list[tuple[Pointwise, int]] = [(Pointwise.ADD, tensor) for tensor in operands[2:]]
    if problem.activation:
        after.append((ACTIVATIONS[problem.activation], 0))
    value = operations.like(result) if after else result
    one, zero = ((1,), (0,)) if line else ((), ())
    strides, dilation = (*one, *problem.strides), (*one, *problem.dilation)
    low, high = (*zero, *problem.low), (*zero, *problem.high)
    operations.convolution(operands[0], operands[1], value, strides, low, high, dilation)
    while after:
        mode, other = after.pop(0)
        given, value = value, operations.like(result) if after else result
        operations.pointwise(mode, given, other, value)
    return WrittenGraph([*operands, result])


def _places(side: Strided, line: bool) -> tuple[Shape, Shape]:
    """Extents and strides from which the library recognizes a layout: axes of size 1 get the stride
    of a dense layout, and a line becomes a plane of one row.
    """
    extents, steps = static(side.extents), list(static(side.strides))
    order = (0, *range(2, len(extents)), 1) if steps[1] == 1 else tuple(range(len(extents)))
    room = 1
    for axis in reversed(order):
        if extents[axis] == 1:
            steps[axis] = room
        room = steps[axis] * extents[axis]
    if not line:
        return extents, tuple(steps)
    return (*extents[:2], 1, extents[2]), (*steps[:2], steps[2] * extents[2], steps[2])


# ---- attention -------------------------------------------------------------------------------


def _attention(
    problem: Attention, operations: Operations, alignments: Sequence[int]
) -> WrittenGraph:
    """The graph that the library recognizes as attention: product, scale, mask,
    softmax, product.
    """
    scalars: dict[int, Any] = {}
    given = [
        problem.queries,
        _turned(problem.keys),
        problem.values,
        *([problem.mask] if problem.mask else []),
        problem.result,
    ]
    tensors = [
        operations.tensor(
            side.dtype,
            static(side.extents),
            tuple(max(step, 1) for step in static(side.strides)),
            alignment,
        )
        for side, alignment in zip(given, alignments, strict=False)
    ]
    queries, keys, values, *masks, result = tensors

    def number(value: Any, dtype: DType = DType.F32) -> int:
        place = operations.scalar(4, dtype)
        scalars[place] = value
        return place

    (batch, heads, time, _), (_, _, length, _) = (
        static(problem.queries.extents),
        static(problem.keys.extents),
    )
    scores = operations.value((batch, heads, time, length), range(4))
    operations.product(queries, keys, scores)
    after = [
        (Pointwise.MUL, number(ctypes.c_float(problem.scale))),
        *((Pointwise.ADD, mask) for mask in masks),
    ]
    for mode, other in after:
        before, scores = scores, operations.like(scores)
        operations.pointwise(mode, before, other, scores)
    if problem.causal:
        before, scores = scores, operations.like(scores)
        many, few = (number(ctypes.c_int32(n), DType.I32) for n in (length, time))
        operations.causal(before, few, many, number(ctypes.c_float(-inf)), scores)
    weights = operations.like(scores, problem.queries.dtype)
    operations.softmax(scores, weights)
    operations.product(weights, values, result)
    return WrittenGraph(tensors, scalars)


def _turned(keys: Strided) -> Strided:
    """Keys as the right operand of a product: transposed to (width, time)."""
    (*outer, time, width), (*steps, down, across) = keys.extents, keys.strides
    return Strided(keys.dtype, (*outer, width, time), (*steps, across, down), keys.offset)
