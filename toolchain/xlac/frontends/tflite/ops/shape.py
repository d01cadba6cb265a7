"""Operators that only move or count elements. Quantized tensors keep their integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.file.tensors import COMPLEX
from xlac.frontends.tflite.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import normal_axis
from xlac.ops import build


@operator("RESHAPE", "ReshapeOptions")
def reshape(call: TFLiteCall) -> Node:
    """The shape is an input, or an option in old files; a size of -1 is inferred."""
    wanted: Sequence[Dim] = call.option("new_shape")
    if call.get(1) is not None:
        wanted = call.dims(1)
    elif list(wanted) == [0]:  # a scalar, as old converters write it
        wanted = ()
    parts = (2,) if call.info(0).kind == COMPLEX else ()
    return build.reshape(call[0], (*wanted, *parts))


@operator("SQUEEZE", "SqueezeOptions")
def squeeze(call: TFLiteCall) -> Node:
    """Removes axes of size 1: those named, or all."""
    axes = call.option("squeeze_dims")
    return build.apply1("squeeze", call[0], axis=tuple(axes) if axes else None)


@operator("EXPAND_DIMS")
def expand_dims(call: TFLiteCall) -> Node:
    """Inserts an axis of size 1."""
    (axis,) = call.ints(1)
    return build.apply1("unsqueeze", call[0], axis=axis)


@operator("TRANSPOSE")
def transpose(call: TFLiteCall) -> Node:
    """Axes in the order that the second input gives."""
    order = call.ints(1)
    if sorted(order) != list(range(call[0].type.rank)):
        call.fail(f"{order} is not an order of the axes of {call[0].type}")
    return build.transpose(call[0], order)


@operator("TILE")
def tile(call: TFLiteCall) -> Node:
    """Repeated along every axis."""
    repeats = call.ints(1)
    if len(repeats) != call[0].type.rank or any(n < 0 for n in repeats):
        call.fail(f"repeats of {repeats} do not fit {call[0].type}")
    return build.apply1("tile", call[0], repeats=repeats) if repeats else call[0]


@operator("BROADCAST_TO")
def broadcast_to(call: TFLiteCall) -> Node:
    """Repeated to fill a shape."""
    return build.broadcast_to(call[0], call.dims(1))


@operator("BROADCAST_ARGS")
def broadcast_arguments(call: TFLiteCall) -> Node:
    """The shape to which two shapes broadcast."""
    shape = build.broadcast_shapes([call.dims(0), call.dims(1)])
    return build.cast(_sizes(shape, call), call.dtype())


@operator("SHAPE", "ShapeOptions")
def shape_of(call: TFLiteCall) -> Node:
    """The sizes of a tensor."""
    return build.cast(_sizes(call[0].shape, call), call.dtype())


def _sizes(shape: Sequence[Dim], call: TFLiteCall) -> Node:
    """Sizes as a vector of i32; an open one is read at run time from a tensor that has it."""
    if all(isinstance(size, int) for size in shape):
        return build.constant(np.asarray(shape, np.int64).astype(np.int32))
    parts = []
    for axis, size in enumerate(shape):
        if isinstance(size, int):
            parts.append(build.constant(np.asarray([size], np.int32)))
            continue
        dim = build.apply1("dim_size", _holder(call, size, axis), axis=_axis(call, size, axis))
        parts.append(build.reshape(build.cast(dim, call.dtype()), (1,)))
    return build.concat([build.cast(part, call.dtype()) for part in parts], 0)


def _holder(call: TFLiteCall, size: Dim, axis: int) -> Node:
    for node in call:
        if size in node.shape:
            return node
    call.fail(f"the size {size} of axis {axis} is not one of its inputs'")


def _axis(call: TFLiteCall, size: Dim, axis: int) -> int:
    return _holder(call, size, axis).shape.index(size)


@operator("RANK")
def rank_of(call: TFLiteCall) -> Node:
    """The number of axes."""
    return build.cast(build.constant(call[0].type.rank), call.dtype())


@operator("SPACE_TO_DEPTH", "SpaceToDepthOptions")
def space_to_depth(call: TFLiteCall) -> Node:
    """Blocks of pixels become channels."""
    size = _block(call)
    n, h, w, c = call[0].shape
    apart = build.reshape(call[0], (n, h // size, size, w // size, size, c))
    together = build.transpose(apart, (0, 1, 3, 2, 4, 5))
    return build.reshape(together, (n, h // size, w // size, c * size * size))


@operator("DEPTH_TO_SPACE", "DepthToSpaceOptions")
def depth_to_space(call: TFLiteCall) -> Node:
    """The inverse of SPACE_TO_DEPTH."""
    size = _block(call)
    n, h, w, c = call[0].shape
    apart = build.reshape(call[0], (n, h, w, size, size, c // (size * size)))
    together = build.transpose(apart, (0, 1, 3, 2, 4, 5))
    return build.reshape(together, (n, h * size, w * size, c // (size * size)))


def _block(call: TFLiteCall) -> int:
    size = int(call.option("block_size"))
    if size < 1 or call[0].type.rank != 4:
        call.fail(f"blocks of {size} of {call[0].type}: a block is at least 1, and x has rank 4")
    return size


@operator("SPACE_TO_BATCH_ND")
def space_to_batch(call: TFLiteCall) -> Node:
    """x padded with its zero point; blocks of its spatial axes move to the batch."""
    x, blocks = call[0], call.ints(1)
    borders = np.asarray(call.value(2)).reshape(-1, 2)
    count = len(blocks)
    _check_blocks(call, blocks, len(borders))
    rest = x.type.rank - 1 - count
    low = [0, *(int(b) for b in borders[:, 0]), *[0] * rest]
    high = [0, *(int(b) for b in borders[:, 1]), *[0] * rest]
    x = build.pad(x, zero_of(call), low, high)
    shape: list[Dim] = [x.shape[0]]
    for size, block in zip(x.shape[1 : 1 + count], blocks, strict=True):
        shape += [size // block, block]
    apart = build.reshape(x, (*shape, *x.shape[1 + count :]))
    inner = [2 + 2 * n for n in range(count)]
    outer = [1 + 2 * n for n in range(count)]
    order = (*inner, 0, *outer, *range(1 + 2 * count, apart.type.rank))
    moved = build.transpose(apart, order)
    batch = x.shape[0]
    for block in blocks:
        batch = batch * block
    return build.reshape(moved, (batch, *moved.shape[1 + count :]))


@operator("BATCH_TO_SPACE_ND")
def batch_to_space(call: TFLiteCall) -> Node:
    """The inverse of SPACE_TO_BATCH_ND, with the padding removed."""
    x, blocks = call[0], call.ints(1)
    crops = np.asarray(call.value(2)).reshape(-1, 2)
    count = len(blocks)
    _check_blocks(call, blocks, len(crops))
    batch = x.shape[0]
    for block in blocks:
        batch = batch // block
    apart = build.reshape(x, (*blocks, batch, *x.shape[1:]))
    order = [count]
    for n in range(count):
        order += [count + 1 + n, n]
    order += range(2 * count + 1, apart.type.rank)
    spread = [size * b for size, b in zip(x.shape[1 : 1 + count], blocks, strict=True)]
    whole = build.reshape(build.transpose(apart, order), (batch, *spread, *x.shape[1 + count :]))
    low = [0, *(-int(c) for c in crops[:, 0]), *[0] * (x.type.rank - 1 - count)]
    high = [0, *(-int(c) for c in crops[:, 1]), *[0] * (x.type.rank - 1 - count)]
    return build.pad(whole, 0, low, high)


def _check_blocks(call: TFLiteCall, blocks: Sequence[int], borders: int) -> None:
    if len(blocks) != borders or len(blocks) >= call[0].type.rank or min(blocks, default=1) < 1:
        call.fail(f"blocks of {list(blocks)} do not fit {call[0].type}")


def zero_of(call: TFLiteCall, number: int = 0) -> int:
    """The representation of 0 in an input: its zero point."""
    quantization = call.info(number).quantization
    return 0 if quantization is None else int(quantization.zeros[0])


@operator("PAD")
def pad(call: TFLiteCall) -> Node:
    """x padded with its zero point."""
    return _padded(call, build.constant(zero_of(call), call[0].type.dtype))


@operator("PADV2")
def pad_with(call: TFLiteCall) -> Node:
    """x padded with a value of its own type."""
    return _padded(call, build.reshape(call[2], ()))


def _padded(call: TFLiteCall, value: Node) -> Node:
    low, high = _borders(call)
    return build.pad(call[0], value, low, high)


@operator("MIRROR_PAD", "MirrorPadOptions")
def mirror_pad(call: TFLiteCall) -> Node:
    """x padded by mirroring, with or without (REFLECT) the element at the edge."""
    x = call[0]
    low, high = _borders(call)
    again = call.chosen("mode", "MirrorPadMode") == "SYMMETRIC"
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        size = x.shape[axis]
        if not before and not after:
            continue
        if not isinstance(size, int) or max(before, after) > size - (not again):
            call.fail(f"a border of {before} and {after} mirrors more than axis {axis} of {x.type}")
        places = np.arange(-before, size + after)
        edge = size - 1
        places = np.where(places < 0, -places - again, places)
        places = np.where(places > edge, 2 * edge + again - places, places)
        x = build.take(x, build.constant(places), axis)
    return x


def _borders(call: TFLiteCall) -> tuple[list[int], list[int]]:
    pairs = np.asarray(call.value(1)).reshape(-1, 2)
    if len(pairs) != call[0].type.rank or (pairs < 0).any():
        call.fail(f"borders of {pairs.tolist()[:40]} do not fit {call[0].type}")
    return [int(v) for v in pairs[:, 0]], [int(v) for v in pairs[:, 1]]


@operator("REVERSE_V2")
def reverse(call: TFLiteCall) -> Node:
    """Axes in reverse order of their elements."""
    axes = sorted({normal_axis(axis, call[0].type.rank) for axis in call.ints(1)})
    return build.apply1("flip", call[0], axis=axes) if axes else call[0]


@operator("REVERSE_SEQUENCE", "ReverseSequenceOptions")
def reverse_sequence(call: TFLiteCall) -> Node:
    """Reverses the first elements of each batch entry, as many as the second input says."""
    x, lengths = call[0], call[1]
    time, batch = call.option("seq_dim"), call.option("batch_dim")
    time, batch = normal_axis(time, x.type.rank), normal_axis(batch, x.type.rank)
    at = build.iota(x.shape, time)
    count = build.along(build.cast(lengths, at.type.dtype), batch, x.type.rank, x.shape)
    there = build.select(build.compare(at, "lt", count), build.sub(build.sub(count, 1), at), at)
    return build.apply1("take_along_axis", x, there, axis=time)
