"""Parts of tensors: SLICE, STRIDED_SLICE and DYNAMIC_UPDATE_SLICE."""

from __future__ import annotations

from xlac.frontends.tflite.call import TFLiteCall
from xlac.frontends.tflite.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build

ENDLESS = 1 << 40


@operator("SLICE")
def slice_of(call: TFLiteCall) -> Node:
    """The slice with `size` elements from `begin` along each axis; a size of -1 takes all remaining
    elements.
    """
    x, sizes = call[0], call.dims(2)
    known = call.importer.known.constant(call[1])
    if known is None and -1 not in sizes:
        starts = [build.reshape(build.cut(call[1], 0, n, n + 1), ()) for n in range(x.type.rank)]
        return build.apply1("dyn_slice", x, *starts, sizes=sizes)
    begins = call.dims(1)
    if not len(begins) == len(sizes) == x.type.rank:
        call.fail(f"{len(begins)} begins and {len(sizes)} sizes do not fit {x.type}")
    stops = [
        size if count == -1 else begin + count
        for size, begin, count in zip(x.shape, begins, sizes, strict=True)
    ]
    return build.slice_(x, begins, stops)


@operator("STRIDED_SLICE", "StridedSliceOptions")
def strided_slice(call: TFLiteCall) -> Node:
    """NumPy's indexing. Bit n of a mask says that entry n of `begin` or `end` is absent, stands for
    an ellipsis or a new axis, or selects one element and removes the axis.
    """
    x = call[0]
    begins, ends, steps = call.dims(1), call.dims(2), call.ints(3)
    if not len(begins) == len(ends) == len(steps):
        call.fail(f"{len(begins)} begins, {len(ends)} ends and {len(steps)} strides do not fit")
    masks = {
        name: call.option(f"{name}_mask")
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    if masks["ellipsis"].bit_count() > 1:
        call.fail("there is more than one ellipsis")
    entries = len(begins)
    added = sum(
        bool(masks["new_axis"] >> n & 1) and not masks["ellipsis"] >> n & 1 for n in range(entries)
    )
    skipped = x.type.rank - (entries - added - bool(masks["ellipsis"]))
    if skipped < 0:
        call.fail(f"{entries - added} entries index {x.type}")
    starts: list[Dim] = [0] * x.type.rank
    stops, by = list(x.shape), [1] * x.type.rank
    shape: list[Dim | None] = []  # None is taken from the slice
    gone: set[int] = set()
    axis = 0
    for n in range(entries):
        bit = 1 << n
        if masks["ellipsis"] & bit:
            shape += [None] * skipped
            axis += skipped
            continue
        if masks["new_axis"] & bit:
            shape.append(1)
            continue
        size = x.shape[axis]
        if masks["shrink_axis"] & bit:
            start = begins[n]
            if isinstance(start, int) and start < 0:
                start = size + start
            if isinstance(size, int) and isinstance(start, int) and not 0 <= start < size:
                call.fail(f"element {begins[n]} of axis {axis} of {x.type} is not there")
            starts[axis], stops[axis] = start, start + 1
            gone.add(axis)
        else:
            step = steps[n]
            if step == 0:
                call.fail("a stride is 0")
            end = ends[n]
            if call.option("offset") and not masks["end"] & bit:
                end = begins[n] + end
            first = (0 if step > 0 else ENDLESS) if masks["begin"] & bit else begins[n]
            last = (ENDLESS if step > 0 else -ENDLESS) if masks["end"] & bit else end
            starts[axis], stops[axis], by[axis] = build.python_slice(first, last, step, size)
            shape.append(None)
        axis += 1
    shape += [None] * (x.type.rank - axis)
    part = build.slice_(x, starts, stops, by)
    sizes = iter([size for a, size in enumerate(part.shape) if a not in gone])
    return build.reshape(part, [next(sizes) if size is None else size for size in shape])


@operator("DYNAMIC_UPDATE_SLICE")
def dynamic_update_slice(call: TFLiteCall) -> Node:
    """x with a slice replaced that begins at the third input, clamped so that it lies inside x."""
    x, part = call[0], call[1]
    starts = [build.reshape(build.cut(call[2], 0, n, n + 1), ()) for n in range(x.type.rank)]
    return build.apply1("dyn_update", x, part, *starts)
