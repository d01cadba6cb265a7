"""Convolutions computed by the target's library, with their epilogues."""

from __future__ import annotations

from math import prod

import numpy as np

from xlac.codegen.core import operands
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.contraction.contraction import is_constant
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.lowered_group import LoweredGroup, PackedConstant
from xlac.codegen.core.operands import OperandView
from xlac.codegen.library.after import Parts, over_result, parts
from xlac.codegen.library.call import call, epilogue_of, of_type
from xlac.codegen.library.refused import LibraryRefused
from xlac.fusion import cost
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, Shape, bounds, size_hint, static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.convolution import CONVOLUTION, Convolution
from xlac_sdk.libraries.product import RELU, Products
from xlac_sdk.libraries.strided import Strided
from xlac_sdk.target import Target

DEEPEST = 3  # the most spatial axes that libraries support


def called(group: Group, target: Target) -> LoweredGroup:
    """One call that computes the whole group. Raises LibraryRefused if a kernel must be
    generated.
    """
    anchor, op = group.anchor, group.anchor.op
    assert isinstance(op, Conv)
    library = of_type(anchor, target.convolutions, "convolutions")
    if library.rounds and not target.fast:
        raise LibraryRefused(
            f"only precision: fast makes convolutions of {library.operands} by {library.library} "
            "worth it: it may then round to tf32"
        )
    _check(anchor, op, library)
    after = epilogue_of(group, library.library)
    x, kernel = operands.resolve(anchor.inputs[0], group), _kernel(anchor.inputs[1], group, op)
    if x is None or kernel is None:
        raise LibraryRefused("the layout of an operand cannot be expressed by strides")
    epilogue = parts(after, library, target.fast, frozenset({op.layout[2].index("C")}))
    if epilogue.scale != 1:
        raise LibraryRefused(f"{library.library} cannot scale the result of a convolution")
    return _call(after, x, kernel, epilogue, library, target.fast)


def _check(anchor: Node, op: Conv, library: Products) -> None:
    """Raises LibraryRefused for convolutions that the library does not support, or that are too
    small for it.
    """
    name, (x, kernel) = (
        library.library,
        (
            dict(zip(letters, node.shape, strict=True))
            for letters, node in zip(op.layout, anchor.inputs, strict=False)
        ),
    )
    if op.batch_groups > 1 or any(step != 1 for step in op.lhs_dilation):
        raise LibraryRefused(f"{name} supports neither dilated inputs nor batch groups")
    if min((*op.low, *op.high), default=0) < 0:
        raise LibraryRefused(f"{name} has no negative padding")
    if not 1 <= len(op.spatial) <= DEEPEST:
        raise LibraryRefused(f"{name} convolves along 1 to {DEEPEST} axes")
    channels, filters = size_hint(kernel["I"]), size_hint(kernel["O"]) // op.feature_groups
    if min(channels, filters) < library.least:
        raise LibraryRefused(
            f"{channels} channels and {filters} filters of a group are fewer than the "
            f"{library.least} from which {name} is taken"
        )
    flops = cost.flops(anchor)
    if flops < library.flops:
        raise LibraryRefused(
            f"{flops:,} flops are fewer than the {library.flops:,} from which {name} is taken"
        )
    if any(
        bounds(extent)[0] < 1
        for extent in (*(x[letter] for letter in op.spatial), *kernel.values())
    ):
        raise LibraryRefused("the number of products in a sum may be 0")


def _call(
    after: Epilogue,
    x: OperandView,
    kernel: OperandView,
    epilogue: Parts,
    library: Products,
    fast: bool,
) -> LoweredGroup:
    anchor, op, (output,) = after.anchor, after.anchor.op, after.group.outputs
    assert isinstance(op, Conv)
    _check_parts(op, anchor, epilogue)
    of_x, of_kernel, of_result = ("NC" + op.spatial, "OI" + op.spatial, "NC" + op.spatial)

    if not (
        _dense(x.strides, anchor.inputs[0].shape) and _dense(kernel.strides, anchor.inputs[1].shape)
    ):
        raise LibraryRefused("an operand is a slice of a buffer, or broadcast")
    place = OperandView(output, over_result(after, output, row_major(output.shape)))
    convolution = Convolution(
        _strided(x, library.operands, anchor.inputs[0].shape, op.layout[0], of_x),
        _strided(kernel, library.operands, anchor.inputs[1].shape, op.layout[1], of_kernel),
        _strided(place, output.type.dtype, anchor.shape, op.layout[2], of_result),
        op.strides,
        op.low,
        op.high,
        op.rhs_dilation,
        op.feature_groups,
        None
        if epilogue.addend is None
        else _strided(epilogue.addend, output.type.dtype, anchor.shape, op.layout[2], of_result),
        _type(epilogue.bias),
        epilogue.bias.offset if epilogue.bias else 0,
        epilogue.activation,
        library.workspace,
        fast,
    )
    _check_ends(convolution, library)
    views = (x, kernel, epilogue.addend, epilogue.bias)
    return call(
        after,
        {CONVOLUTION: convolution},
        views,
        library.library,
        library.workspace,
        whole=(x, kernel, epilogue.bias),
    )


def _check_parts(op: Conv, anchor: Node, epilogue: Parts) -> None:
    """Raises LibraryRefused if a term is added along other axes than the library supports."""
    bias = epilogue.bias
    if bias is not None and any(
        step != (letter == "C") for step, letter in zip(bias.strides, op.layout[2], strict=True)
    ):
        raise LibraryRefused(
            "the added term is neither one number for each filter, nor of the result's shape"
        )
    if epilogue.addend is not None and any(
        step == 0 and extent != 1
        for step, extent in zip(epilogue.addend.strides, anchor.shape, strict=True)
    ):
        raise LibraryRefused("the added term is broadcast along some axes of the result")


def _strided(view: OperandView, dtype: DType, extents: Shape, letters: str, wanted: str) -> Strided:
    """A view's axes in the order of letters that a library requires."""
    order = [letters.index(letter) for letter in wanted]
    return Strided(
        dtype, tuple(extents[a] for a in order), tuple(view.strides[a] for a in order), view.offset
    )


def _check_ends(convolution: Convolution, library: Products) -> None:
    """Raises LibraryRefused for the epilogue of a convolution that is not channels-last, unless it
    is a bias of the result's type, optionally with a residual before it and relu after it:
    libraries have kernels for no others in any layout.
    """
    if all(side.strides[1] == 1 for side in (convolution.x, convolution.result)):
        return
    follows = convolution.addend is not None or bool(convolution.activation)
    if convolution.activation in ("", RELU) and convolution.bias in (
        (convolution.result.dtype,) if follows else (convolution.result.dtype, None)
    ):
        return
    raise LibraryRefused(
        f"{library.library} supports only a bias of the result's type, optionally with relu, if "
        "channels "
        "are not contiguous in memory"
    )


def _type(bias: OperandView | None) -> DType | None:
    return bias.value.type.dtype if bias is not None and isinstance(bias.value, Node) else None


def _dense(strides: Shape, extents: Shape) -> bool:
    """Whether the elements of a tensor fill a contiguous range of memory, in any order of axes."""
    reached: Dim = 1
    for step, extent in sorted(
        zip(strides, extents, strict=True), key=lambda axis: size_hint(axis[0])
    ):
        if extent == 1:
            continue
        if step != reached:
            return False
        reached = step * extent
    return True


def _kernel(node: Node, group: Group, op: Conv) -> OperandView | None:
    """A constant kernel repacked with the channels of each filter contiguous, as libraries prefer;
    others unchanged.
    """
    view = operands.folded(node, group)
    if view is None and not is_constant(node):
        return operands.resolve(node, group)
    given = view or OperandView(node, row_major(node.shape))
    assert isinstance(given.value, Node)
    letters = "O" + op.spatial + "I"
    order = tuple(op.layout[1].index(letter) for letter in letters)
    shape = static(node.shape)
    steps = dict(zip(letters, row_major(tuple(shape[axis] for axis in order)), strict=True))

    def make(array: Array, *others: Array) -> Array:
        computed = given.elements(array, *others).reshape(shape)
        return np.ascontiguousarray(computed.transpose(order)).reshape(-1)

    name = f"filters {order} of {shape} {given.key}"
    sources = (given.value, *given.others)
    packed = PackedConstant(node.type.dtype, prod(shape), sources, make, name)
    return OperandView(packed, tuple(steps[letter] for letter in op.layout[1]))
