"""Exports composites that ONNX has with the same semantics. All others are expanded."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.exporters.onnx.comparisons import WRAPPING, within
from xlac.exporters.onnx.writer import OnnxWriter, known, rule
from xlac.exporters.unsaid import Unsaid
from xlac.ir.dims import Sym
from xlac.ir.graph import Node
from xlac.ops.nn.convolution import Spatial
from xlac_sdk.dtypes import DType

HALVES = (DType.F16, DType.BF16)


def floats(node: Node) -> DType:
    """The element type of a result; raises Unsaid where ONNX computes differently than we do in
    it.
    """
    dtype = node.type.dtype
    if not dtype.is_float or dtype in HALVES:
        raise Unsaid("halves are computed in f32")
    return dtype


def single(node: Node) -> None:
    """Raises Unsaid for all types but f32, the type of ONNX's attributes."""
    if node.type.dtype is not DType.F32:
        raise Unsaid("attributes are f32")


@rule("softmax", "log_softmax")
def softmax(w: OnnxWriter, node: Node, x: str) -> str:
    """Softmax and LogSoftmax, f16 computed as f32."""
    op: Any = node.op
    (x,), back = within(w, node.type.dtype, WRAPPING | {DType.F16: DType.F32}, x)
    return back(w.op("Softmax" if op.mnemonic == "softmax" else "LogSoftmax", x, axis=op.axis))


@rule("gelu", "gelu_exact")
def gelu(w: OnnxWriter, node: Node, x: str) -> str:
    """Gelu, by erf or tanh."""
    floats(node)
    return w.op("Gelu", x, approximate=getattr(node.op, "approximate", "none"))


@rule("leaky_relu", "elu", "celu")
def slope(w: OnnxWriter, node: Node, x: str) -> str:
    """LeakyRelu, Elu and Celu, with `alpha`."""
    single(node)
    kind = {"leaky_relu": "LeakyRelu", "elu": "Elu", "celu": "Celu"}[node.op.mnemonic]
    return w.op(kind, x, alpha=float(node.op.alpha))  # type: ignore[attr-defined]


@rule("hardsigmoid")
def hardsigmoid(w: OnnxWriter, node: Node, x: str) -> str:
    """HardSigmoid, `alpha` and `beta` with the same meaning."""
    single(node)
    op: Any = node.op
    return w.op("HardSigmoid", x, alpha=float(op.alpha), beta=float(op.beta))


@rule("mish", "softplus", "hardswish")
def smooth(w: OnnxWriter, node: Node, x: str) -> str:
    """Mish, Softplus and HardSwish."""
    single(node)
    return w.op(
        {"mish": "Mish", "softplus": "Softplus", "hardswish": "HardSwish"}[node.op.mnemonic], x
    )


@rule("matmul")
def matmul(w: OnnxWriter, node: Node, x: str, y: str) -> str:
    """MatMul, unless an operand is empty, which runtimes reject."""
    floats(node)
    if 0 in node.inputs[0].shape or 0 in node.inputs[1].shape:
        raise Unsaid("nothing to multiply")
    return w.op("MatMul", x, y)


@rule("linear")
def linear(w: OnnxWriter, node: Node, *operands: str) -> str:
    """Gemm for a matrix, else MatMul with the weight transposed; one product for each of several
    inputs.
    """
    floats(node)
    op: Any = node.op
    count = (len(operands) - op.bias) // 2
    xs, weights, bias = operands[:count], operands[count : 2 * count], operands[2 * count :]
    if any(0 in n.shape for n in node.inputs):
        raise Unsaid("nothing to multiply")
    if count == 1 and node.type.rank == 2:
        return w.op("Gemm", xs[0], weights[0], *bias, transB=1)
    total = ""
    for x, weight in zip(xs, weights, strict=True):
        product = w.op("MatMul", x, w.op("Transpose", weight, perm=[1, 0]))
        total = w.op("Add", total, product) if total else product
    return w.op("Add", total, bias[0]) if bias else total


@rule("conv1d", "conv2d", "conv3d")
def convolution(w: OnnxWriter, node: Node, x: str, weight: str, *bias: str) -> str:
    """Conv, where channels come first; elsewhere the primitive is exported."""
    op = node.op
    assert isinstance(op, Spatial)
    floats(node)
    if op.channels_last or any(
        isinstance(n, int) and n == 0 for n in (*node.shape, *node.inputs[0].shape)
    ):
        raise Unsaid("channels are last")
    primitive = next(n for n in _inside(node) if n.op.mnemonic == "conv").op
    given: Any = primitive
    return w.op(
        "Conv",
        x,
        weight,
        *bias,
        strides=list(given.strides),
        dilations=list(given.rhs_dilation),
        pads=[*given.low, *given.high],
        group=given.feature_groups,
    )


def _inside(node: Node) -> list[Node]:
    """The nodes of a composite's expansion."""
    from xlac.ir.graph import walk

    return list(walk(node.op.expanded(*node.inputs), set(node.inputs)))  # type: ignore[attr-defined]


@rule("layer_norm")
def layer_norm(w: OnnxWriter, node: Node, x: str, *learned: str) -> str:
    """LayerNormalization, if the axes are the last ones and there is a scale."""
    op: Any = node.op
    floats(node)
    axes = op.axis if isinstance(op.axis, tuple | list) else (op.axis,)
    rank = node.type.rank
    trailing = sorted(a % rank for a in axes)
    if not op.affine or trailing != [*range(trailing[0], rank)] or 0 in node.shape:
        raise Unsaid("LayerNormalization scales, along the last axes")
    return w.op("LayerNormalization", x, *learned, axis=trailing[0], epsilon=float(op.epsilon))


@rule("batch_norm")
def batch_norm(w: OnnxWriter, node: Node, x: str, *learned: str) -> str:
    """BatchNormalization, if channels are axis 1 and all four tensors are given."""
    op: Any = node.op
    floats(node)
    if not op.affine or op.axis != 1 or node.type.rank < 2 or 0 in node.shape:
        raise Unsaid("BatchNormalization scales, along axis 1")
    names = list(op.parameters(node.inputs[0].type))
    by = dict(zip(names, learned, strict=True))
    wanted = [by.get(n, "") for n in ("scale", "bias", "mean", "variance")]
    if not all(wanted):
        raise Unsaid("BatchNormalization has four tensors")
    return w.op("BatchNormalization", x, *wanted, epsilon=float(op.epsilon))


@rule("sum", "mean", "reduce_max", "reduce_min", "prod")
def reduced(w: OnnxWriter, node: Node, x: str) -> str:
    """ReduceSum, … where runtimes have the dtype and agree on NaN; elsewhere the primitive is
    exported.
    """
    op: Any = node.op
    dtype = node.inputs[0].type.dtype
    if (
        node.type.dtype is not dtype
        or dtype not in (DType.F32, DType.F64, DType.I32, DType.I64)
        or 0 in node.inputs[0].shape
    ):
        raise Unsaid("runtimes reduce few types")
    kind = {
        "sum": "ReduceSum",
        "mean": "ReduceMean",
        "reduce_max": "ReduceMax",
        "reduce_min": "ReduceMin",
        "prod": "ReduceProd",
    }
    given = (
        range(node.inputs[0].type.rank)
        if op.axis is None
        else (op.axis,)
        if isinstance(op.axis, int)
        else op.axis
    )
    axes = [a % node.inputs[0].type.rank for a in given]
    if not axes:
        return w.op("Identity", x)
    if dtype.is_float and op.mnemonic in ("reduce_max", "reduce_min"):
        raise Unsaid("runtimes differ on NaN")
    return w.op(kind[op.mnemonic], x, w.constant(np.array(axes)), keepdims=int(op.keepdims))


@rule("split")
def split(w: OnnxWriter, node: Node, x: str) -> list[str]:
    """Split with known sizes."""
    op: Any = node.op
    axis = op.axis % node.inputs[0].type.rank
    sizes = known(tuple(t.shape[axis] for t in node.results), "a split")
    return w.many("Split", [x, w.constant(np.array(sizes))], len(sizes), axis=axis)


@rule("isnan")
def isnan(w: OnnxWriter, node: Node, x: str) -> str:
    """IsNaN; bf16 is widened for it."""
    dtype = node.inputs[0].type.dtype
    if not dtype.is_float:
        raise Unsaid("integers are numbers")
    return w.op("IsNaN", w.cast(x, DType.F32) if dtype is DType.BF16 else x)


@rule("expand")
def expand(w: OnnxWriter, node: Node, x: str) -> str:
    """Expand to known sizes."""
    if any(isinstance(n, Sym) for n in node.shape):
        raise Unsaid("open sizes")
    return w.op("Expand", x, w.shape(node.shape))


@rule("squeeze", "unsqueeze", "flatten")
def reshaped(w: OnnxWriter, node: Node, x: str) -> str:
    """All of these become a Reshape."""
    return w.reshape(x, node.shape)
