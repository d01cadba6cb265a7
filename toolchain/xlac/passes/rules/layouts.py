"""Convolutions of any layout as channels last between transposes."""

from __future__ import annotations

from dataclasses import replace

from xlac.ir.graph import Node
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.view import Transpose
from xlac.passes.rewrite.rule import Site

Layout = tuple[str, str, str]


def channels_last(op: Conv) -> Layout:
    """The layout that has channels last in x, kernel and result."""
    return (f"N{op.spatial}C", f"{op.spatial}IO", f"N{op.spatial}C")


def in_channels_last(node: Node, site: Site) -> Node:
    """A convolution as one with channels last, between transposes."""
    op = node.op
    assert isinstance(op, Conv)
    wanted = channels_last(op)
    x, kernel = (
        site.make(Transpose(tuple(old.index(c) for c in new)), operand)
        for old, new, operand in zip(op.layout, wanted, node.inputs, strict=False)
    )
    back = Transpose(tuple(wanted[2].index(c) for c in op.layout[2]))
    return site.make(back, site.make(replace(op, layout=wanted), x, kernel))
