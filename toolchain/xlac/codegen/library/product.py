"""Contractions computed by the target's library as matrix products: dot products, and 1x1
convolutions.
"""

from __future__ import annotations

from xlac.codegen.core import operands
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.core.operands import OperandView
from xlac.codegen.library.after import parts
from xlac.codegen.library.call import call, epilogue_of, of_type
from xlac.codegen.library.layout import LayoutWalk, Sums, layout
from xlac.codegen.library.refused import LibraryRefused
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.graph import Node
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.product import PRODUCT, Product, Products
from xlac_sdk.target import Target


def called(group: Group, target: Target) -> LoweredGroup:
    """One call that computes the whole group. Raises LibraryRefused if a kernel must be
    generated.
    """
    library = of_type(group.anchor, target.products, "products")
    flops = cost.flops(group.anchor)
    if flops < library.flops:
        raise LibraryRefused(
            f"{flops:,} flops are fewer than the {library.flops:,} from which {library.library} is "
            "taken"
        )
    return _call(epilogue_of(group, library.library), library, target.fast)


def one_tap(anchor: Node) -> bool:
    """Whether a convolution is a matrix product: each result depends on one position of x."""
    op = anchor.op
    if not isinstance(op, Conv) or op.feature_groups != 1 or op.batch_groups != 1:
        return False
    taps = (
        n
        for n, letter in zip(anchor.inputs[1].shape, op.layout[1], strict=True)
        if letter not in "OI"
    )
    return (
        all(n == 1 for n in taps)
        and not any((*op.low, *op.high))
        and all(step == 1 for step in op.lhs_dilation)
    )


def _call(after: Epilogue, library: Products, fast: bool) -> LoweredGroup:
    group, anchor = after.group, after.anchor
    left, right = (operands.resolve(node, group) for node in anchor.inputs)
    if left is None or right is None:
        raise LibraryRefused("the layout of an operand cannot be expressed by strides")
    sums, columns = (
        _of_dot(anchor, left, right)
        if isinstance(anchor.op, Dot)
        else _of_convolution(anchor, left, right)
    )
    epilogue = parts(after, library, fast, columns)
    place = layout(after, sums, epilogue, library)
    bias = epilogue.bias
    product = Product(
        place.count,
        place.rows,
        place.columns,
        place.depth,
        place.left,
        place.right,
        place.result,
        place.addend,
        bias is not None,
        bias.offset if bias else 0,
        epilogue.scale,
        epilogue.activation,
        library.workspace,
        fast and library.operands is DType.F32,
    )
    views = (*place.views, epilogue.addend, bias)
    return call(
        after,
        {PRODUCT: product},
        views,
        library.library,
        library.workspace,
        whole=(left, right, bias),
    )


def _of_dot(anchor: Node, left: OperandView, right: OperandView) -> tuple[Sums, frozenset[int]]:
    """A dot product's axes, and which axes of its result are columns."""
    op = anchor.op
    assert isinstance(op, Dot)
    free = op.free(len(left.strides), len(right.strides))
    steps = [
        (left.strides[a], right.strides[b]) for a, b in zip(op.batch_lhs, op.batch_rhs, strict=True)
    ]
    steps += [(left.strides[a], 0) for a in free[0]] + [(0, right.strides[b]) for b in free[1]]
    axes = tuple(
        LayoutWalk(extent, *pair) for extent, pair in zip(anchor.shape, steps, strict=True)
    )
    summed = tuple(
        LayoutWalk(anchor.inputs[0].shape[a], left.strides[a], right.strides[b])
        for a, b in zip(op.contract_lhs, op.contract_rhs, strict=True)
    )
    return Sums(left, right, axes, summed), frozenset(range(len(axes) - len(free[1]), len(axes)))


def _of_convolution(
    anchor: Node, x: OperandView, kernel: OperandView
) -> tuple[Sums, frozenset[int]]:
    """The same for a 1x1 convolution."""
    op = anchor.op
    assert isinstance(op, Conv)
    moves, filters = (
        dict(zip(op.layout[0], x.strides, strict=True)),
        dict(zip(op.layout[1], kernel.strides, strict=True)),
    )
    steps = {
        letter: moves[letter] * step for letter, step in zip(op.spatial, op.strides, strict=True)
    }
    axes = tuple(
        LayoutWalk(extent, 0, filters["O"])
        if letter == "C"
        else LayoutWalk(extent, steps.get(letter, moves["N"]), 0)
        for letter, extent in zip(op.layout[2], anchor.shape, strict=True)
    )
    depth = anchor.inputs[1].shape[op.layout[1].index("I")]
    return Sums(x, kernel, axes, (LayoutWalk(depth, moves["C"], filters["I"]),)), frozenset(
        {op.layout[2].index("C")}
    )
