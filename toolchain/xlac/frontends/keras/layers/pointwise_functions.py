"""Functions of keras.ops that compute element by element, or along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlac.frontends.keras.registry import ACTIVATIONS, operation
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build


def operand(value: Any) -> Any:
    """A tensor or number, or a list of numbers as a constant. Raises ShapeError for others."""
    if isinstance(value, list):
        try:
            return build.constant(np.asarray(value, np.float32))
        except (TypeError, ValueError, OverflowError) as error:
            raise ShapeError(f"{value!r}"[:200] + " is not a list of numbers") from error
    if not isinstance(value, Node | int | float):
        raise ShapeError(f"{value!r}"[:200] + " is neither a tensor nor a number")
    return value


def _elementwise(name: str, mnemonic: str, **attributes: Any) -> None:
    def build_function(*operands: Any) -> Node:
        return build.apply1(mnemonic, *map(operand, operands), **attributes)

    operation(name)(build_function)


for _name, _mnemonic in {
    "Add": "add",
    "Subtract": "sub",
    "Multiply": "mul",
    "Power": "pow",
    "Maximum": "max",
    "Minimum": "min",
    "Negative": "neg",
    "Absolute": "abs",
    "Exp": "exp",
    "Expm1": "expm1",
    "Log": "log",
    "Log1p": "log1p",
    "Log2": "log2",
    "Sqrt": "sqrt",
    "Rsqrt": "rsqrt",
    "Square": "square",
    "Reciprocal": "reciprocal",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Arcsin": "asin",
    "Arccos": "acos",
    "Arctan": "atan",
    "Arctan2": "atan2",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Arcsinh": "asinh",
    "Arccosh": "acosh",
    "Arctanh": "atanh",
    "Floor": "floor",
    "Ceil": "ceil",
    "Sign": "sign",
    "Erf": "erf",
    "Matmul": "matmul",
    "LogicalAnd": "logical_and",
    "LogicalOr": "logical_or",
    "LogicalXor": "logical_xor",
    "LogicalNot": "logical_not",
    "Isnan": "isnan",
    "Isinf": "isinf",
    "Isfinite": "isfinite",
    "StopGradient": "stop_gradient",
    "Equal": "equal",
    "NotEqual": "not_equal",
    "Greater": "greater",
    "Less": "less",
    "GreaterEqual": "greater_equal",
    "LessEqual": "less_equal",
    "Mod": "mod",
    "FloorDivide": "floor_divide",
}.items():
    _elementwise(_name, _mnemonic)


@operation("Divide", "TrueDivide")
def divide(x1: Any, x2: Any) -> Node:
    """The quotient, of integers too a float."""
    both = [operand(value) for value in (x1, x2)]
    return build.div(*(build.floating(x) if isinstance(x, Node) else float(x) for x in both))


def _activated(name: str, known: str) -> None:
    operation(name)(lambda x: ACTIVATIONS[known](x))


for _name, _known in {
    "Relu": "relu",
    "Relu6": "relu6",
    "Sigmoid": "sigmoid",
    "Silu": "silu",
    "Tanh": "tanh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "HardSigmoid": "hard_sigmoid",
    "HardSilu": "hard_silu",
    "HardTanh": "hard_tanh",
    "LogSigmoid": "log_sigmoid",
    "Selu": "selu",
    "TanhShrink": "tanh_shrink",
    "SparseSigmoid": "sparse_sigmoid",
    "SparsePlus": "sparse_plus",
}.items():
    _activated(_name, _known)


@operation("Gelu")
def gelu(x: Node, approximate: bool = True) -> Node:
    """The Gaussian error linear unit, by default approximated by tanh."""
    return build.apply1("gelu", x, approximate="tanh" if approximate else "none")


@operation("LeakyRelu")
def leaky_relu(x: Node, negative_slope: float = 0.2) -> Node:
    """x where it is positive, else x times a slope."""
    return build.apply1("leaky_relu", x, alpha=negative_slope)


@operation("Elu")
def elu(x: Node, alpha: float = 1.0) -> Node:
    """x where it is positive, else alpha (exp(x) - 1)."""
    return build.apply1("elu", x, alpha=alpha)


@operation("Celu")
def celu(x: Node, alpha: float = 1.0) -> Node:
    """x where it is positive, else alpha (exp(x / alpha) - 1)."""
    return build.apply1("celu", x, alpha=alpha)


@operation("Softmax")
def softmax(x: Node, axis: int = -1) -> Node:
    """Softmax along an axis."""
    return build.apply1("softmax", x, axis=axis)


@operation("LogSoftmax")
def log_softmax(x: Node, axis: int = -1) -> Node:
    """The logarithm of softmax along an axis."""
    return build.apply1("log_softmax", x, axis=axis)
