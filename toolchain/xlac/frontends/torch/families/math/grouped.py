"""Grouped matrix products, whose rows, columns or summed elements belong to groups, as in mixtures
of experts.
"""

from __future__ import annotations

from xlac.frontends.torch.families.math.products import product
from xlac.frontends.torch.table import AtenCall, aten
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@aten("_grouped_mm")
def grouped_mm(
    call: AtenCall,
    x: Node,
    y: Node,
    offs: Node | None = None,
    bias: Node | None = None,
    out_dtype: DType | None = None,
) -> Node:
    """x y for each group; `offs`, i32[groups], holds the end of each group along the axis that is
    divided: rows of a matrix x with a stack y, columns of a matrix y with a stack x, the summed
    axis of two matrices. Two stacks need none.

    Since the groups' sizes are data, every row is multiplied by every group's matrix. Rows and
    columns of no group are 0; PyTorch leaves them uninitialized.
    """
    wide = call.dtype.compute
    if offs is None:
        products = product(x, y, wide)
    elif x.type.rank == 2 and y.type.rank == 3:
        member = build.transpose(_members(offs, x.shape[0]))  # (rows, groups)
        every = build.dot(x, y, ((1,), (1,)), ((), ()), wide)  # (rows, groups, columns)
        products = build.reduce(_kept(member, every, (0, 1)), "add", 1)
    elif x.type.rank == 3:
        every = build.dot(x, y, ((2,), (0,)), ((), ()), wide)  # (groups, rows, columns)
        products = build.reduce(_kept(_members(offs, y.shape[1]), every, (0, 2)), "add", 0)
    else:
        member, (rows, terms), columns = _members(offs, x.shape[1]), x.shape, y.shape[1]
        groups = offs.shape[0]
        # both sides: 0 times an infinity of another group would be NaN
        left = _kept(member, build.broadcast_to(x, (groups, rows, terms)), (0, 2))
        right = _kept(member, build.broadcast_to(y, (groups, terms, columns)), (0, 1))
        products = product(left, right, wide)
    if bias is not None:
        products = build.add(products, build.compute(bias))
    return build.cast(products, call.dtype)


@aten("transformers.grouped_mm_fallback.default")
def of_transformers(call: AtenCall, input: Node, weight: Node, offs: Node) -> Node:
    """The operation by which transformers multiplies the rows of experts where PyTorch has no
    grouped product for their types or layouts.
    """
    return grouped_mm(call, input, weight, offs)


def _members(offs: Node, size: Dim) -> Node:
    """Whether each group contains each index of an axis, bool[groups, size]."""
    shape = (offs.shape[0], size)
    ends = build.broadcast_to(build.reshape(offs, (shape[0], 1)), shape)
    ended = build.compare(ends, "le", build.iota(shape, 1, offs.type.dtype))
    group = build.reduce(build.cast(ended, DType.I32), "add", 0, keepdims=True)
    return build.compare(build.iota(shape, 0, DType.I32), "eq", build.broadcast_to(group, shape))


def _kept(member: Node, x: Node, axes: tuple[int, int]) -> Node:
    """x where `member`, which has two of x's axes, holds, and 0 elsewhere."""
    shape = [x.shape[axis] if axis in axes else 1 for axis in range(x.type.rank)]
    return build.select(build.reshape(member, shape), x, build.constant(0, x.type.dtype))
