"""Random models of quantized and dequantized values (QDQ), exact by construction: scales are powers
of two and sums are short, so every float is what real numbers would be, and rounding is by ties to
even. Any two right implementations agree to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from onnx import ModelProto, helper
from onnx_cases import model, value

DTYPES = (np.uint8, np.int8, np.uint8, np.int8, np.uint16, np.int16)
LARGEST = 1 << 9  # of a value, in units of the step that it has then


@dataclass
class QdqMaker:
    """Grows a model from an input of floats that are multiples of 1/16."""

    random: Random
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    made: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)

    def name(self) -> str:
        return f"v{len(self.nodes)}_{len(self.constants)}"

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        found = self.name()
        self.nodes.append(helper.make_node(kind, inputs, [found], **attributes))
        return found

    def constant(self, array: Any) -> str:
        found = f"c{len(self.constants)}"
        self.constants[found] = np.asarray(array)
        return found

    def zero(self, dtype: Any, count: int | None) -> Any:
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if info.bits == 8 else (-300, 300)
        some = [0, 0, 1, -1, 3, low, high, (low + high + 1) // 2]
        chosen = [max(info.min, self.random.choice(some)) for _ in range(count or 1)]
        return np.array(chosen if count else chosen[0], dtype)

    def scale(self, low: int, high: int, count: int | None) -> Any:
        powers = [2.0 ** self.random.randint(low, high) for _ in range(count or 1)]
        return np.array(powers if count else powers[0], np.float32)

    def quantized(self, x: str, shape: tuple[int, ...]) -> str:
        """Through a quantized type and back; sometimes with a scale for each channel."""
        dtype = self.random.choice(DTYPES)
        axis = self.random.randrange(len(shape)) if shape and self.random.random() < 0.3 else None
        count = None if axis is None else shape[axis]
        given = [self.constant(self.scale(-3, 1, count)), self.constant(self.zero(dtype, count))]
        along = {} if axis is None else {"axis": axis - self.random.choice((0, len(shape)))}
        narrow = self.node("QuantizeLinear", [x, *given], **along)
        moved = self.random.random()
        if axis is None and moved < 0.15 and len(shape) > 1:  # what only moves values, between
            narrow = self.node("Reshape", [narrow, self.constant(np.array(shape, np.int64))])
        return self.node("DequantizeLinear", [narrow, *given], **along)

    def weight(self, shape: tuple[int, ...], axis: int) -> str:
        """A dequantized constant, by channel or as a whole."""
        dtype = self.random.choice((np.int8, np.int8, np.uint8))
        count = shape[axis] if self.random.random() < 0.6 else None
        info = np.iinfo(dtype)
        numbers = np.random.default_rng(self.random.randrange(1 << 30))
        array = numbers.integers(info.min, info.max, shape, dtype, endpoint=True)
        zero = self.zero(dtype, count) if self.random.random() < 0.5 else None
        given = [self.constant(array), self.constant(self.scale(-9, -7, count))]
        given += [] if zero is None else [self.constant(zero)]
        return self.node("DequantizeLinear", given, axis=axis)

    def bias(self, count: int) -> list[str]:
        if self.random.random() < 0.4:
            return []
        numbers = np.random.default_rng(self.random.randrange(1 << 30))
        if self.random.random() < 0.5:
            return [self.constant(numbers.integers(-20, 20, count).astype(np.float32) / 8)]
        array = self.constant(numbers.integers(-500, 500, count).astype(np.int32))
        return [self.node("DequantizeLinear", [array, self.constant(self.scale(-8, -6, None))])]

    def step(self) -> tuple[str, tuple[int, ...]] | None:
        x, shape = self.random.choice(self.made[-4:])
        kind = self.random.choice(STEPS)
        image = len(shape) == 4
        if kind == "Conv" and image:
            return self.convolution(x, shape)
        if kind == "ConvTranspose" and image:
            return self.transposed(x, shape)
        if kind == "MatMul" and shape:
            wide = self.random.choice((1, 3, 8, 17))
            w = self.weight((shape[-1], wide), 1)
            return self.quantized(self.node("MatMul", [x, w]), (*shape[:-1], wide)), (
                *shape[:-1],
                wide,
            )
        if kind == "Gemm" and len(shape) == 2:
            wide, turned = self.random.choice((2, 5, 16)), self.random.choice((0, 1))
            w = self.weight((wide, shape[1]) if turned else (shape[1], wide), 1 - turned)
            found = self.node("Gemm", [x, w, *self.bias(wide)], transB=turned)
            return self.quantized(found, (shape[0], wide)), (shape[0], wide)
        if kind in ("Add", "Sub", "Mul", "Max"):
            other = self.random.choice([n for n, s in self.made if s == shape])
            return self.quantized(self.node(kind, [x, other]), shape), shape
        if kind == "Concat" and shape:
            axis = self.random.randrange(len(shape))
            other = self.random.choice([n for n, s in self.made if s == shape])
            grown = tuple(2 * n if a == axis else n for a, n in enumerate(shape))
            return self.node("Concat", [x, other], axis=axis), grown
        if kind in ("MaxPool", "AveragePool") and image and min(shape[2:]) >= 2:
            pooled = (*shape[:2], shape[2] // 2, shape[3] // 2)
            found = self.node(kind, [x], kernel_shape=[2, 2], strides=[2, 2])
            return (found if kind == "MaxPool" else self.quantized(found, pooled)), pooled
        if kind == "Transpose" and len(shape) > 1:
            perm = self.random.sample(range(len(shape)), len(shape))
            return self.node("Transpose", [x], perm=perm), tuple(shape[p] for p in perm)
        if kind == "Flatten" and len(shape) > 2:
            return self.node("Flatten", [x]), (shape[0], int(np.prod(shape[1:])))
        if kind == "Relu":
            return self.node("Relu", [x]), shape
        if kind == "Clip":
            low, high = sorted(self.random.sample(range(-4, 9), 2))
            ends = [self.constant(np.float32(end)) for end in (low, high)]
            return self.node("Clip", [x, *ends]), shape
        if kind == "Again":
            return self.quantized(x, shape), shape
        return None

    def convolution(self, x: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        channels = shape[1]
        groups = self.random.choice((1, 1, channels))
        made = groups * self.random.choice((1, 2)) if groups > 1 else self.random.choice((1, 4, 9))
        kernel = [self.random.choice((1, 2, 3)) for _ in range(2)]
        strides = [self.random.choice((1, 1, 2)) for _ in range(2)]
        pads = [self.random.choice((0, 0, 1)) for _ in range(4)]
        sizes = [
            (n + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1
            for i, n in enumerate(shape[2:])
        ]
        if min(sizes) < 1:
            kernel, strides, pads, sizes = [1, 1], [1, 1], [0] * 4, list(shape[2:])
        w = self.weight((made, channels // groups, *kernel), 0)
        found = self.node(
            "Conv",
            [x, w, *self.bias(made)],
            kernel_shape=kernel,
            strides=strides,
            pads=pads,
            group=groups,
        )
        result = (shape[0], made, *sizes)
        return self.quantized(found, result), result

    def transposed(self, x: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]] | None:
        """A transposed convolution, whose kernel is turned and whose input has gaps."""
        channels, made = shape[1], self.random.choice((1, 2, 4))
        kernel = [self.random.choice((1, 2, 3, 4)) for _ in range(2)]
        strides = [self.random.choice((1, 2, 2, 3)) for _ in range(2)]
        dilations = [self.random.choice((1, 1, 1, 2)) for _ in range(2)]
        pads = [self.random.choice((0, 0, 1, 2)) for _ in range(4)]
        more = [self.random.randrange(step) for step in strides]
        sizes = [
            (n - 1) * strides[i]
            + dilations[i] * (kernel[i] - 1)
            + 1
            + more[i]
            - pads[i]
            - pads[i + 2]
            for i, n in enumerate(shape[2:])
        ]
        if min(sizes) < 1 or channels > 6:
            return None  # sums are to be short
        w = self.weight((channels, made, *kernel), 1)
        found = self.node(
            "ConvTranspose",
            [x, w, *self.bias(made)],
            kernel_shape=kernel,
            strides=strides,
            dilations=dilations,
            output_padding=more,
            pads=pads,
        )
        result = (shape[0], made, *sizes)
        return self.quantized(found, result), result


STEPS = (
    *("Conv",) * 4, *("ConvTranspose", "MatMul", "Gemm") * 2, "Add", "Add", "Sub", "Mul", "Max",
    "Concat", "MaxPool", "AveragePool", "Transpose", "Flatten", "Relu", "Relu", "Clip", "Again",
)  # fmt: skip


def make(random: Random) -> tuple[ModelProto, dict[str, Any]]:
    """A model, and the array for its input."""
    maker = QdqMaker(random)
    shape = random.choice(((1, 3, 7, 6), (2, 4, 5, 5), (3, 8), (2, 16), (2, 3, 8), (1, 1, 9, 8)))
    numbers = np.random.default_rng(random.randrange(1 << 30))
    x = (numbers.integers(-160, 160, shape) / 16).astype(np.float32)
    maker.made.append((maker.quantized("x", shape), shape))
    for _ in range(random.randint(2, 12)):
        found = maker.step()
        if found is not None and np.prod(found[1]) <= 2000:
            maker.made.append(found)
    last, of = maker.made[-1]
    middle = maker.made[len(maker.made) // 2][0]
    outputs = [value(maker.quantized(last, of), None), value(middle, None)]
    return model(maker.nodes, [value("x", shape)], outputs, maker.constants, version=21), {"x": x}
