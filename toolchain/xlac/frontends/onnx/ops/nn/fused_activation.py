"""Activations of com.microsoft (version 1): gelu variants and softmax with a preceding bias."""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import MICROSOFT, operator
from xlac.ir.dims import volume
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError, normal_axis
from xlac.ops import build


def _gelu(name: str, approximate: str) -> None:
    @operator(name, domain=MICROSOFT)
    def gelu(call: OperatorCall) -> Node:
        """Gelu, by the error function or by tanh, of x plus a bias if one is given."""
        x, bias = call[0], call.get(1)
        return build.apply1(
            "gelu", x if bias is None else build.add(x, bias), approximate=approximate
        )


_gelu("Gelu", "none")
_gelu("BiasGelu", "none")
_gelu("FastGelu", "tanh")


@operator("QuickGelu", domain=MICROSOFT, elementwise=True)
def quick_gelu(call: OperatorCall) -> Node:
    """x * sigmoid(alpha x)."""
    x = build.compute(call[0])
    gate = build.apply1("sigmoid", build.mul(x, call.attr("alpha", 1.702)))
    return build.cast(build.mul(x, gate), call[0].type.dtype)


@operator("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(call: OperatorCall) -> Node:
    """The first half of the last axis times the Gelu of the second, after a bias."""
    x = build.add(call[0], call[1])
    axis, width = x.type.rank - 1, x.shape[-1]
    if not isinstance(width, int) or width % 2:
        raise ShapeError(f"the last axis of {x.type} has no two halves")
    return build.mul(
        build.cut(x, axis, 0, width // 2),
        build.apply1("gelu", build.cut(x, axis, width // 2, width)),
    )


@operator("BiasAdd", domain=MICROSOFT)
def bias_add(call: OperatorCall) -> Node:
    """x + bias + skip connection."""
    return build.add(build.add(call[0], call[1]), call[2])


@operator("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(call: OperatorCall) -> Node:
    """Softmax, over all axes from `axis` on, of x plus a bias that broadcasts within the rows or
    over blocks of them.
    """
    x, bias = call[0], call[1]
    axis = normal_axis(call.attr("axis", 1), x.type.rank)
    if not call.attr("is_inner_broadcast") and bias.shape != x.shape:
        spare = x.type.rank - bias.type.rank
        bias = build.reshape(bias, (*[1] * spare, *bias.shape))
    moved = build.add(x, bias)
    rows = build.reshape(moved, (volume(x.shape[:axis]), volume(x.shape[axis:])))
    return build.reshape(build.apply1("softmax", rows, axis=1), x.shape)
