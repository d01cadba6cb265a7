"""Folds batch normalizations after a convolution into the convolution's kernel and bias."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from xlac.integrations.simplify.protos import reads
from xlac.ir.op import Array

FLOATS = (np.float32, np.float64)
EPSILON = 1e-5
STEADY = 9  # the first operator set in which BatchNormalization has no `is_test` attribute

Arrays = Callable[[str], Array | None]


def merged(
    nodes: list[Any],
    opset: int,
    outputs: Collection[str],
    array: Arrays,
    fresh: Callable[[str], str],
) -> tuple[list[Any], dict[str, Array]]:
    """The nodes without batch normalizations of a convolution's result that nothing else reads, and
    the new constants by name.

    `array` gives the elements of a constant, else None; `fresh` makes names unique. Kernels are
    scaled in f64 and rounded once.
    """
    if opset < STEADY:
        return nodes, {}
    users = Counter(name for node in nodes for name in reads(node))
    convolutions = {node.output[0]: node for node in nodes if _is(node, "Conv")}
    constants: dict[str, Array] = {}
    gone = set()
    for node in nodes:
        conv = convolutions.get(node.input[0]) if _is(node, "BatchNormalization") else None
        if conv is None or users[node.input[0]] > 1 or node.input[0] in outputs or _trains(node):
            continue
        folded = _scaled(conv, node, array)
        if folded is None:
            continue
        result = node.output[0]
        names = [fresh(f"{result}.kernel"), fresh(f"{result}.bias")]
        constants |= dict(zip(names, folded, strict=True))
        del conv.input[1:]
        conv.input.extend(names)
        conv.output[0] = result
        gone.add(id(node))
    return [node for node in nodes if id(node) not in gone], constants


def _is(node: Any, operator: str) -> bool:
    return bool(node.op_type == operator and node.domain in ("", "ai.onnx"))


def _trains(node: Any) -> bool:
    named = sum(bool(name) for name in node.output)
    return named > 1 or any(a.name == "training_mode" and a.i for a in node.attribute)


def _scaled(conv: Any, norm: Any, array: Arrays) -> tuple[Array, Array] | None:
    """The folded kernel and bias; None where the parameters are not constants of one float type."""
    names = [*conv.input[1:3], *norm.input[1:5]]
    parts = [array(name) for name in names if name]
    if any(a is None or a.dtype not in FLOATS or a.dtype != parts[0].dtype for a in parts):  # type: ignore[union-attr]
        return None
    kernel, *bias = (a.astype(np.float64) for a in parts if a is not None)
    scale, shift, mean, variance = bias[-4:]
    epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), EPSILON)
    factor = scale / np.sqrt(variance + epsilon)
    begin = bias[0] if len(bias) > 4 else 0.0
    dtype = parts[0].dtype  # type: ignore[union-attr]
    wide = factor.reshape(-1, *[1] * (kernel.ndim - 1))
    scaled = (kernel * wide).astype(dtype), ((begin - mean) * factor + shift).astype(dtype)
    return scaled if all(np.isfinite(a).all() for a in scaled) else None
