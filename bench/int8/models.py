"""Float models from seeded weights, which are quantized: products, convolutions, whole networks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]


class Builder:
    """Collects the nodes and the weights of a model with one input, x."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.held: list[Any] = []

    def weight(self, values: Array) -> str:
        """Data, by its name."""
        name = f"w{len(self.held)}"
        self.held.append(numpy_helper.from_array(values, name))
        return name

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        """A weight of normal numbers."""
        values = self.rng.standard_normal(shape) * scale
        return self.weight(values.astype(np.float32))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The result of a node."""
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def conv(
        self, x: str, shape: tuple[int, int, int], stride: int = 1, groups: int = 1, act: str = ""
    ) -> str:
        """A convolution of (channels, filters, taps a side), and what follows it."""
        channels, filters, taps = shape
        fan = channels // groups * taps * taps
        weight = self.normal(filters, channels // groups, taps, taps, scale=(2 / fan) ** 0.5)
        y = self.op(
            "Conv",
            x,
            weight,
            self.normal(filters, scale=0.1),
            pads=[taps // 2] * 4,
            strides=[stride] * 2,
            group=groups,
            kernel_shape=[taps] * 2,
        )
        if act == "Swish":
            return self.op("Mul", y, self.op("Sigmoid", y))
        return self.op(act, y) if act else y

    def linear(self, x: str, inner: int, outer: int) -> str:
        """A product with a weight, and a bias."""
        y = self.op("MatMul", x, self.normal(inner, outer, scale=inner**-0.5))
        return self.op("Add", y, self.normal(outer, scale=0.1))

    def head(self, x: str, channels: int) -> str:
        """Classes of a map's means."""
        flat = self.op("Flatten", self.op("GlobalAveragePool", x))
        weight = self.normal(channels, 1000, scale=channels**-0.5)
        return self.op("Gemm", flat, weight, self.normal(1000, scale=0.1))

    def save(self, file: Path, shape: list[int], output: str) -> None:
        """Writes the model."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = onnx.ValueInfoProto(name=output)
        graph = helper.make_graph(self.nodes, "model", [x], [y], self.held)
        sets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), file)


def product(b: Builder, rows: int, inner: int, columns: int) -> tuple[list[int], str]:
    """One product of a matrix with a weight."""
    weight = b.normal(inner, columns, scale=inner**-0.5)
    return [rows, inner], b.op("MatMul", "x", weight)


def one_conv(
    b: Builder, channels: int, filters: int, side: int, taps: int, groups: int = 1
) -> tuple[list[int], str]:
    """One convolution and a rectifier."""
    y = b.conv("x", (channels, filters, taps), groups=groups, act="Relu")
    return [1, channels, side, side], y


def resnet(b: Builder) -> tuple[list[int], str]:
    """ResNet-18 of 112 by 112 pixels."""
    x = b.conv("x", (3, 64, 7), 2, act="Relu")
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for stage, filters in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = b.conv(x, (channels, filters, 3), stride, act="Relu")
            y = b.conv(y, (filters, filters, 3))
            same = stride == 1 and channels == filters
            x = x if same else b.conv(x, (channels, filters, 1), stride)
            x, channels = b.op("Relu", b.op("Add", y, x)), filters
    return [1, 3, 112, 112], b.head(x, channels)


BLOCKS = (
    (16, 1, 1),
    (24, 2, 6),
    (24, 1, 6),
    (40, 2, 6),
    (40, 1, 6),
    (80, 2, 6),
    (80, 1, 6),
    (112, 1, 6),
    (192, 2, 6),
    (192, 1, 6),
    (320, 1, 6),
)


def mobile(b: Builder, act: str, gated: bool) -> tuple[list[int], str]:
    """Inverted residuals of 160 by 160 pixels: MobileNet's; with gates EfficientNet's."""
    x, channels = b.conv("x", (3, 32, 3), 2, act=act), 32
    for filters, stride, wider in BLOCKS:
        inner = channels * wider
        y = b.conv(x, (channels, inner, 1), act=act) if wider > 1 else x
        y = b.conv(y, (inner, inner, 3), stride, groups=inner, act=act)
        if gated:
            few = max(8, channels // 4)
            gate = b.conv(b.op("GlobalAveragePool", y), (inner, few, 1), act=act)
            y = b.op("Mul", y, b.op("Sigmoid", b.conv(gate, (few, inner, 1))))
        y = b.conv(y, (inner, filters, 1))
        x = b.op("Add", x, y) if stride == 1 and channels == filters else y
        channels = filters
    return [1, 3, 160, 160], b.head(b.conv(x, (channels, 1280, 1), act=act), 1280)


def _gelu(b: Builder, x: str) -> str:
    half, one, root = (b.weight(np.asarray(v, np.float32)) for v in (0.5, 1.0, 2**0.5))
    y = b.op("Add", b.op("Erf", b.op("Div", x, root)), one)
    return b.op("Mul", b.op("Mul", x, y), half)


def mixer(
    b: Builder, layers: int = 4, tokens: int = 196, width: int = 256
) -> tuple[list[int], str]:
    """An MLP-mixer of 224 by 224 pixels."""
    x = b.op("Conv", "x", b.normal(width, 3, 16, 16, scale=0.03), strides=[16] * 2)
    shape = b.weight(np.array([1, tokens, width], np.int64))
    x = b.op("Reshape", b.op("Transpose", x, perm=[0, 2, 3, 1]), shape)

    def normed(x: str) -> str:
        ones = b.weight(np.ones(width, np.float32))
        return b.op("LayerNormalization", x, ones, b.weight(np.zeros(width, np.float32)))

    for _ in range(layers):
        y = b.op("Transpose", normed(x), perm=[0, 2, 1])
        y = b.linear(_gelu(b, b.linear(y, tokens, 512)), 512, tokens)
        x = b.op("Add", x, b.op("Transpose", y, perm=[0, 2, 1]))
        y = b.linear(_gelu(b, b.linear(normed(x), width, 1024)), 1024, width)
        x = b.op("Add", x, y)
    x = b.op("ReduceMean", normed(x), axes=[1], keepdims=0)
    weight = b.normal(width, 1000, scale=width**-0.5)
    return [1, 3, 224, 224], b.op("Gemm", x, weight, b.normal(1000, scale=0.1))


def encoder(
    b: Builder, layers: int = 2, tokens: int = 128, width: int = 384, heads: int = 6
) -> tuple[list[int], str]:
    """Layers of BERT."""
    each = width // heads
    apart, joined = (
        b.weight(np.array([1, tokens, *rest], np.int64)) for rest in ((heads, each), (width,))
    )
    root = b.weight(np.asarray(each**0.5, np.float32))

    def normed(x: str) -> str:
        ones = b.weight(np.ones(width, np.float32))
        return b.op("LayerNormalization", x, ones, b.weight(np.zeros(width, np.float32)))

    x = "x"
    for _ in range(layers):
        q, k, v = (
            b.op("Transpose", b.op("Reshape", b.linear(x, width, width), apart), perm=perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        scores = b.op("Softmax", b.op("Div", b.op("MatMul", q, k), root), axis=-1)
        heads_ = b.op("Transpose", b.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        x = normed(b.op("Add", x, b.linear(b.op("Reshape", heads_, joined), width, width)))
        x = normed(
            b.op("Add", x, b.linear(_gelu(b, b.linear(x, width, 4 * width)), 4 * width, width))
        )
    return [1, tokens, width], x


def decoder(b: Builder) -> tuple[list[int], str]:
    """A VAE's decoder: 64 by 64 pixels of 128 numbers."""
    x = b.op("Gemm", "x", b.normal(128, 256 * 64, scale=0.1), b.normal(256 * 64, scale=0.1))
    x = b.op("Reshape", x, b.weight(np.array([1, 256, 8, 8], np.int64)))
    channels = 256
    for filters in (128, 64, 32):
        scales = b.weight(np.array([1, 1, 2, 2], np.float32))
        x = b.op(
            "Resize",
            x,
            "",
            scales,
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        x = b.conv(x, (channels, filters, 3), act="Relu")
        x = b.conv(x, (filters, filters, 3), act="Relu")
        channels = filters
    return [1, 128], b.op("Sigmoid", b.conv(x, (channels, 3, 3)))


MODELS: dict[str, Callable[[Builder], tuple[list[int], str]]] = {
    "matmul 256": lambda b: product(b, 256, 256, 256),
    "matmul 512": lambda b: product(b, 512, 512, 512),
    "matmul 1024": lambda b: product(b, 1024, 1024, 1024),
    "matmul 2048": lambda b: product(b, 2048, 2048, 2048),
    "matmul 64x1024x1024": lambda b: product(b, 64, 1024, 1024),
    "matmul 1x1024x1024": lambda b: product(b, 1, 1024, 1024),
    "conv 3x3, 64, 28": lambda b: one_conv(b, 64, 64, 28, 3),
    "conv 3x3, 256, 14": lambda b: one_conv(b, 256, 256, 14, 3),
    "conv 1x1, 256, 14": lambda b: one_conv(b, 256, 256, 14, 1),
    "depthwise 3x3, 128, 28": lambda b: one_conv(b, 128, 128, 28, 3, 128),
    "resnet18": resnet,
    "mobilenet": lambda b: mobile(b, "Relu", gated=False),
    "efficientnet": lambda b: mobile(b, "Swish", gated=True),
    "mixer": mixer,
    "bert": encoder,
    "vae decoder": decoder,
}
