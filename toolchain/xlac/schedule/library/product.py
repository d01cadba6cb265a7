"""Decides whether the target's library computes a dot product's group, and makes the call."""

from __future__ import annotations

from xlac.ir.graph import Node
from xlac.schedule import cost, epilogue, operands
from xlac.schedule.epilogue import Epilogue
from xlac.schedule.group import Calling, Group, Scheduled, Scratch, Value
from xlac.schedule.library.after import parts
from xlac.schedule.library.layout import layout
from xlac.schedule.library.refused import Refused
from xlac_sdk.dtypes import DType
from xlac_sdk.products import PRODUCT, Product, Products
from xlac_sdk.target import Target


def called(group: Group, target: Target) -> Scheduled | str:
    """One call that computes the whole group, or why a kernel is generated instead.

    The library cannot say what the group computes, or would round it otherwise than the model's precision lets it, or
    it is too small for a launch of its own.
    """
    try:
        library = _library(group.hero, target)
        flops = cost.flops(group.hero)
        if flops < library.flops:
            raise Refused(f"{flops:,} flops are fewer than the {library.flops:,} from which {library.library} is taken")
        after = epilogue.of(group, group.hero)
        if after is None or len(group.outputs) > 1:
            raise Refused(f"{library.library} has one result, and no epilogue that gives all of these")
        return _call(after, library, target.fast)
    except Refused as refused:
        return f"not by a library: {refused}"


def _library(hero: Node, target: Target) -> Products:
    """What a library says of operands of this type."""
    types = [node.type.dtype for node in hero.inputs]
    for library in target.products:
        if set(types) == {library.operands}:
            return library
    name = next(iter(target.products)).library
    raise Refused(f"{name} is not asked for products of {types[0]} and {types[1]}")


def _call(after: Epilogue, library: Products, fast: bool) -> Scheduled:
    group = after.group
    left, right = (operands.resolve(node, group) for node in group.hero.inputs)
    if left is None or right is None:
        raise Refused("an operand is in an order that no strides say")
    found = parts(after, library, fast)
    place = layout(after, left, right, found, library)
    bias = found.bias
    product = Product(
        place.count, place.rows, place.columns, place.depth, place.left, place.right, place.result, place.addend,
        bias is not None, bias.offset if bias else 0, found.scale, found.activation, library.workspace,
        fast and library.operands is DType.F32,
    )  # fmt: skip
    views = [view for view in (*place.views, found.addend, bias) if view is not None]
    workspace = Scratch(DType.U8, library.workspace, "workspace")
    arguments: tuple[Value, ...] = (*(view.value for view in views), *group.outputs, workspace)
    shapes = tuple(value.type.shape if isinstance(value, Node) else (library.workspace,) for value in arguments)
    calling = Calling(PRODUCT, arguments, shapes, {"product": product}, cost.work(group))
    read = {view.value for view in (left, right, bias) if view is not None and isinstance(view.value, Node)}
    return Scheduled((), epilogue.in_place(after, read), call=calling, note=f"one call of {library.library}")
