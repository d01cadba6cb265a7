"""Fused operators of com.microsoft (version 1): matrix products and convolutions with their
epilogues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.math.matrices import gemm
from xlac.frontends.onnx.ops.nn.convolution import convolution
from xlac.frontends.onnx.ops.nn.max_pooling import max_pool
from xlac.frontends.onnx.registry import MICROSOFT, operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build


def activated(
    call: OperatorCall, x: Node, name: str, alpha: float | None = None, beta: float | None = None
) -> Node:
    """x through the activation that an attribute names, with its parameters; x itself if there is
    none.
    """
    match name:
        case "":
            return x
        case "Relu" | "Tanh" | "Sigmoid" | "Softplus" | "Softsign":
            return build.apply1(name.lower(), x)
        case "LeakyRelu":
            return build.apply1("leaky_relu", x, alpha=0.01 if alpha is None else alpha)
        case "Elu":
            return build.apply1("elu", x, alpha=1.0 if alpha is None else alpha)
        case "HardSigmoid":
            return build.apply1(
                "hardsigmoid",
                x,
                alpha=0.2 if alpha is None else alpha,
                beta=0.5 if beta is None else beta,
            )
        case "Clip":
            low = build.maximum(x, alpha) if alpha is not None else x
            return build.minimum(low, beta) if beta is not None else low
    call.fail(f"activation '{name}' is not supported")


def transposed(x: Node, swap: object, batch: object) -> Node:
    """A matrix or batch of matrices, transposed if `swap`; with `batch` the first axis is moved
    before the last one or two.
    """
    rank = x.type.rank
    if rank == 1:
        return x
    if batch:
        x = build.transpose(x, [*range(1, rank - 1), 0, rank - 1])
    return build.transpose(x, [*range(rank - 2), rank - 1, rank - 2]) if swap else x


def _matmul(call: OperatorCall) -> Node:
    a = transposed(call[0], call.attr("transA", 0), call.attr("transBatchA", 0))
    b = transposed(call[1], call.attr("transB", 0), call.attr("transBatchB", 0))
    product = build.apply1("matmul", a, b)
    alpha = call.attr("alpha", 1.0)
    return product if alpha == 1.0 else build.mul(product, alpha)


@operator("FusedMatMul", domain=MICROSOFT)
def fused_matmul(call: OperatorCall) -> Node:
    """alpha times the product, with each operand transposed as its attribute says."""
    return _matmul(call)


@operator("TransposeMatMul", domain=MICROSOFT)
def transpose_matmul(call: OperatorCall) -> Node:
    """The former name of FusedMatMul."""
    return _matmul(call)


@operator("FusedMatMulActivation", domain=MICROSOFT)
def fused_matmul_activation(call: OperatorCall) -> Node:
    """FusedMatMul, then the activation that its attribute names."""
    name = call.attr("activation")
    if name == "Softmax":
        return build.apply1("softmax", _matmul(call), axis=call.attr("activation_axis", -1))
    return activated(
        call,
        _matmul(call),
        name,
        call.attr("activation_alpha", None),
        call.attr("activation_beta", None),
    )


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(call: OperatorCall) -> Node:
    """Gemm, then the activation that its attribute names."""
    return activated(
        call,
        gemm(call),
        call.attr("activation", ""),
        call.attr("activation_alpha", None),
        call.attr("activation_beta", None),
    )


@operator("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(call: OperatorCall) -> Node:
    """A matrix product plus a bias, then the tanh approximation of gelu."""
    product, bias = build.apply1("matmul", call[0], call[1]), call.get(2)
    return build.apply1(
        "gelu", product if bias is None else build.add(product, bias), approximate="tanh"
    )


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(call: OperatorCall) -> Node:
    """A convolution, plus Z if given, then an activation."""
    sums, z = convolution(call, call[0], call[1], call.get(2)), call.get(3)
    numbers: Sequence[float] = call.attr("activation_params", [])
    return activated(
        call, sums if z is None else build.add(sums, z), call.attr("activation", ""), *numbers[:2]
    )


@operator("NhwcConv", domain=MICROSOFT)
def nhwc_conv(call: OperatorCall) -> Node:
    """Conv of (batch, …, channels), with a weight (filters, …, channels / groups)."""
    x, weight = channels_first(call[0]), channels_first(call[1])
    return channels_last(convolution(call, x, weight, call.get(2)))


@operator("NhwcMaxPool", domain=MICROSOFT)
def nhwc_max_pool(call: OperatorCall) -> Node:
    """MaxPool with channels last; without indices."""
    pooled = max_pool(replace(call, inputs=(channels_first(call[0]),)))
    if not isinstance(pooled, Node):
        raise ShapeError("NhwcMaxPool has one output")
    return channels_last(pooled)


def channels_first(x: Node) -> Node:
    """From (batch, …, channels) to (batch, channels, …)."""
    rank = x.type.rank
    return build.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def channels_last(x: Node) -> Node:
    """From (batch, channels, …) to (batch, …, channels)."""
    rank = x.type.rank
    return build.transpose(x, [0, *range(2, rank), 1])
