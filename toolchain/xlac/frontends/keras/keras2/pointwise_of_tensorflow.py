"""Functions of TensorFlow that compute element by element, or along axes."""

from __future__ import annotations

from typing import Any

from xlac.frontends.keras.layers import functions
from xlac.frontends.keras.layers.pointwise_functions import divide, operand
from xlac.frontends.keras.registry import ACTIVATIONS, function_of_tensorflow
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build

Axes = int | list[int] | None
Text = str | None


def _of_two(mnemonic: str, *names: str) -> None:
    @function_of_tensorflow(*names)
    def build_pair(x: Any, y: Any, name: Text = None) -> Node:
        return build.apply1(mnemonic, *alike(x, y))


def alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands; a number takes the type of the tensor that it meets."""
    pair = [operand(x), operand(y)]
    for n, other in ((0, pair[1]), (1, pair[0])):
        if not isinstance(pair[n], Node) and isinstance(other, Node):
            pair[n] = build.like(pair[n], other)
    return pair[0], pair[1]


for _name in "squared_difference greater greater_equal less less_equal".split():
    _of_two(_name, f"math.{_name}")
for _mnemonic, _names in {
    "add": ("__operators__.add", "math.add"),
    "sub": ("math.subtract",),
    "mul": ("math.multiply",),
    "pow": ("math.pow",),
    "max": ("math.maximum",),
    "min": ("math.minimum",),
    "mod": ("math.floormod",),
    "floor_divide": ("compat.v1.floor_div", "math.floordiv"),
    "equal": ("math.equal",),
    "not_equal": ("math.not_equal",),
    "logical_and": ("math.logical_and", "__operators__.logical_and"),
    "logical_or": ("math.logical_or", "__operators__.logical_or"),
}.items():
    _of_two(_mnemonic, *_names)


@function_of_tensorflow("math.atan2")
def atan2(y: Any, x: Any, name: Text = None) -> Node:
    """The angle of (x, y)."""
    return build.apply1("atan2", *alike(y, x))


@function_of_tensorflow("__operators__.eq")
def equal(x: Any, /, other: Any) -> Node:
    """x == other, as an operator."""
    return build.apply1("equal", *alike(x, other))


@function_of_tensorflow("__operators__.ne")
def not_equal(x: Any, /, other: Any) -> Node:
    """x != other, as an operator."""
    return build.apply1("not_equal", *alike(x, other))


@function_of_tensorflow("math.truediv", "math.divide")
def quotient(x: Any, y: Any, name: Text = None) -> Node:
    """x / y, of floats."""
    if not any(isinstance(v, Node) and v.type.dtype.is_float for v in (x, y)):
        raise ShapeError("quotients of integers are not supported", hint="tf.cast them to floats")
    return divide(*alike(x, y))


def _of_one(name: str, mnemonic: str) -> None:
    @function_of_tensorflow(name)
    def build_one(x: Node, name: Text = None) -> Node:
        return build.apply1(mnemonic, x)


for _name in (
    "abs negative square sqrt rsqrt exp expm1 log log1p sin cos tan asin acos atan sinh cosh asinh "
    "acosh atanh floor ceil sign erf reciprocal logical_not"
).split():
    _of_one(f"math.{_name}", {"negative": "neg"}.get(_name, _name))
_of_one("math.is_nan", "isnan")
_of_one("math.is_inf", "isinf")
_of_one("math.is_finite", "isfinite")
_of_one("identity", "identity")
_of_one("zeros_like", "zeros_like")
_of_one("ones_like", "ones_like")


def _activated(known: str, *names: str) -> None:
    @function_of_tensorflow(*names)
    def build_activation(features: Node, name: Text = None) -> Node:
        return ACTIVATIONS[known](features)


for _name in "relu relu6 selu elu softsign".split():
    _activated(_name, f"nn.{_name}")
for _name in "tanh sigmoid".split():
    _activated(_name, f"math.{_name}")
_activated("softplus", "math.softplus", "nn.softplus")


@function_of_tensorflow("nn.silu")
def silu(features: Node, beta: float = 1.0) -> Node:
    """x times the logistic function of beta x."""
    return build.mul(features, build.apply1("sigmoid", build.mul(features, beta)))


@function_of_tensorflow("nn.gelu")
def gelu(features: Node, approximate: bool = False, name: Text = None) -> Node:
    """The Gaussian error linear unit."""
    return build.apply1("gelu", features, approximate="tanh" if approximate else "none")


@function_of_tensorflow("nn.leaky_relu")
def leaky_relu(features: Node, alpha: float = 0.2, name: Text = None) -> Node:
    """x where it is positive, else x times a slope."""
    return build.apply1("leaky_relu", features, alpha=alpha)


def _along(name: str, mnemonic: str) -> None:
    @function_of_tensorflow(name)
    def build_along(logits: Node, axis: int | None = None, name: Text = None) -> Node:
        return build.apply1(mnemonic, logits, axis=-1 if axis is None else axis)


_along("nn.softmax", "softmax")
_along("nn.log_softmax", "log_softmax")


def _reduction(name: str, mnemonic: str) -> None:
    @function_of_tensorflow(f"math.{name}")
    def build_reduction(
        input_tensor: Node, axis: Axes = None, keepdims: bool = False, name: Text = None
    ) -> Node:
        return build.apply1(mnemonic, input_tensor, axis=axis, keepdims=bool(keepdims))


for _name, _mnemonic in {
    "reduce_sum": "sum",
    "reduce_mean": "mean",
    "reduce_prod": "prod",
    "reduce_max": "reduce_max",
    "reduce_min": "reduce_min",
    "reduce_variance": "var",
    "reduce_std": "std",
    "reduce_all": "all",
    "reduce_any": "any",
    "reduce_logsumexp": "logsumexp",
}.items():
    _reduction(_name, _mnemonic)


def _position(name: str, mnemonic: str) -> None:
    @function_of_tensorflow(f"math.{name}")
    def build_position(
        input: Node, axis: int | None = None, output_type: str = "int64", name: Text = None
    ) -> Node:
        return functions.cast(build.apply1(mnemonic, input, axis=axis or 0), output_type)


_position("argmax", "argmax")
_position("argmin", "argmin")


@function_of_tensorflow("math.l2_normalize")
def l2_normalize(
    x: Node, axis: Axes = None, epsilon: float = 1e-12, name: Text = None, dim: None = None
) -> Node:
    """x over the root of the sum of its squares, which counts at least epsilon."""
    total = build.apply1("sum", build.mul(x, x), axis=axis, keepdims=True)
    return build.mul(x, build.apply1("rsqrt", build.maximum(total, epsilon)))
