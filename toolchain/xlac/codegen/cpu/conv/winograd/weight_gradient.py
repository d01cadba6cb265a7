"""The gradient for the weights of a 3x3 convolution with fewer multiplications (Winograd).

It is a convolution whose window is the whole map and whose result has 3 by 3 places. The map of
cotangents is divided into tiles of 2 by 2, each of which meets 4 by 4 pixels of the input: two
kernels transform both to 16 Winograd points (`toom_cook.py`), a product at each point sums over all
tiles, and a last kernel transforms the products of a pair of channels to its nine results
(`weight_results.py`): 16 multiplications for the direct sum's 36.

A result is a sum over all pixels of a channel, of which those that its window lacks, at the border,
cancel except for rounding errors. If one of them is infinite or NaN, or if a sum overflows, the
result is not finite; such results are summed directly, but not with `precision: fast`.

Where the target's `temporary_bytes` has no room for the transformed input or cotangents, a part of
their channels is transformed at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from xlac.codegen.core import epilogue, operands
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.lowered_group import KernelLaunch, LoweredGroup, LowerPart, Scratch
from xlac.codegen.core.operands import OperandView
from xlac.codegen.cpu.conv.winograd import toom_cook, weight_results
from xlac.codegen.cpu.conv.winograd.input_transform import TileTransform, ToPoints
from xlac.codegen.cpu.conv.winograd.tiling import CHANNELS, SIDE, TiledMap, WeightTiling, plane
from xlac.codegen.cpu.conv.winograd.weight_gradient_choice import check, choose, cotangent_block
from xlac.codegen.schedules.conv import WinogradWeightsSchedule
from xlac.codegen.schedules.operands import OperandCopy
from xlac.fusion.group import Group, Kind
from xlac.ir.dims import size_hint
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac.ops.tensor.view import Reshape, Slice
from xlac.ops.values import param
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Work
from xlac_sdk.target import Target

CONTIGUOUS_AXES = {0: 0, 1: 3}
"""By operand: the axis of its channels, NHWC's N and HWIO's O."""


def lower(
    group: Group, target: Target, name: str, lower_part: LowerPart, t: WeightTiling
) -> LoweredGroup:
    """The two transforms, the products, and the output transform with what follows."""
    after = epilogue.of(group, group.anchor)
    if after is None or not all(after.contiguous_axis(node) == CHANNELS for node in group.outputs):

        def alone(part: Group) -> LoweredGroup:
            return lower(part, target, name, lower_part, t)

        return operands.apart(group, group.anchor, alone, target, name, lower_part)
    schedule = lower_part.decisions.settle(
        name, choose(t, after, target), partial(check, t=t, target=target)
    )
    launches: list[KernelLaunch] = []
    views = []
    for number, what in enumerate(("x", "cotangents")):
        view, copies = _channels_last(number, group, target, f"{name}_{what}", lower_part)
        launches += copies
        views.append(view)
    x, cotangents = views
    parts = t.parts(schedule.lanes, target.temporary_bytes)
    ((part, *_), *_) = parts
    maps = part.input(schedule.lanes), part.cotangents(cotangent_block(part, schedule))
    points = [
        Scratch(DType.F32, t.points * plane(map.point_size), what)
        for map, what in zip(maps, ("points", "cotangents"), strict=True)
    ]
    products = Scratch(DType.F32, t.points * part.channels * part.columns, "products")
    dots = _products(part, maps, points, products, target, name, lower_part)
    several = len(parts) > 1 or len(parts[0]) > 1
    for across in parts:
        given = _from(cotangents, across[0].first[1])
        own = f"{name}_{across[0].first[1]}" if len(parts) > 1 else name
        launches.append(
            _transform(group, target, f"{own}_cotangents", maps[1], given, points[1], schedule)
        )
        for part in across:
            own = f"{name}_{part.first[0]}_{part.first[1]}" if several else name
            seen = _from(x, part.first[0])
            launches += [
                _transform(group, target, f"{own}_points", maps[0], seen, points[0], schedule),
                *dots,
                weight_results.launch(
                    group, target, own, after, part, (seen, given), products, schedule
                ),
            ]
    used = {view.value for view in views if isinstance(view.value, Node)}
    return LoweredGroup(tuple(launches), epilogue.in_place(after, used))


def _from(view: OperandView, channel: int) -> OperandView:
    """An operand from a channel on."""
    return replace(view, offset=view.offset + channel * view.strides[3])


def _channels_last(
    number: int, group: Group, target: Target, name: str, lower_part: LowerPart
) -> tuple[OperandView, Sequence[KernelLaunch]]:
    """An operand as batch, rows, columns, channels; copied if channels are not contiguous."""
    node = group.anchor.inputs[number]
    order = (3, 1, 2, 0) if number == 0 else (2, 0, 1, 3)
    view = operands.resolve(node, group)
    launches: tuple[KernelLaunch, ...] = ()
    if view is None or view.strides[CONTIGUOUS_AXES[number]] != 1:
        how = OperandCopy(node.type.dtype, order)
        view, launches = operands.copy(node, how, group, target, name, lower_part)
    strides = tuple(view.strides[axis] for axis in order)
    return OperandView(view.value, strides, view.offset), launches


def _transform(
    group: Group,
    target: Target,
    name: str,
    map: TiledMap,
    view: OperandView,
    to: Scratch,
    schedule: WinogradWeightsSchedule,
) -> KernelLaunch:
    """The kernel that transforms the tiles of the input, or of the cotangents."""
    elements = Elements(Builder(), group, target)
    whole = toom_cook.of_cotangents if map.seen == SIDE else toom_cook.of_values
    to_points: ToPoints = partial(whole, elements.builder, target, SIDE)
    transform = TileTransform(elements, map, view, to, to_points, schedule.lanes)
    transform.write(schedule.tile_threads)
    pixels = map.batch * map.size[0] * map.size[1] * map.channels
    size = size_hint(to.size)
    work = Work(4 * size, (pixels + size) * DType.F32.nbytes)
    return elements.launch(name, work, "transforms tiles to points")


def _products(
    t: WeightTiling,
    maps: Sequence[TiledMap],
    points: Sequence[Scratch],
    products: Scratch,
    target: Target,
    name: str,
    lower_part: LowerPart,
) -> Sequence[KernelLaunch]:
    """The products at all points: a dot product in a batch. Channels are in blocks, so that a step
    of the sum reads neighbours.
    """
    stored, nodes, operands_of = [], [], []
    for map, what in zip(maps, ("points", "cotangents"), strict=True):
        size = map.point_size
        stored.append(param(what, DType.F32, (t.points, plane(size))))
        cut = Node.of(Slice((0, 0), (t.points, size), (1, 1)), stored[-1])
        shape = (t.points, map.channels // map.block, map.tiles, map.block)
        operands_of.append(Node.of(Reshape(shape), cut))
        nodes += [cut, operands_of[-1]]
    op = Dot(batch_lhs=(0,), batch_rhs=(0,), contract_lhs=(2,), contract_rhs=(2,))
    dot = Node.of(op, *operands_of)
    group = Group(Kind.DOT, dot, (*nodes, dot), tuple(stored), (dot,), "products at points")
    launches = lower_part(group, target, f"{name}_products").alone
    places = dict(zip((*stored, dot), (*points, products), strict=True))
    return operands.with_scratch(launches, places)
