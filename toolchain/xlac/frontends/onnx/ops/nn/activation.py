"""Activations (Relu, Gelu, HardSigmoid, …): element by element."""

from __future__ import annotations

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build

_PLAIN = {
    "Relu": (6, "relu"),
    "Softplus": (1, "softplus"),
    "Softsign": (1, "softsign"),
    "Mish": (18, "mish"),
}
"""Operators without attributes: the operator set that introduced them, and xlac's operation."""

_TUNED: dict[str, tuple[int, str, dict[str, tuple[str, float]]]] = {
    "LeakyRelu": (6, "leaky_relu", {"alpha": ("alpha", 0.01)}),
    "Elu": (6, "elu", {"alpha": ("alpha", 1.0)}),
    "Selu": (
        6,
        "selu",
        {
            "alpha": ("alpha", 1.67326319217681884765625),
            "gamma": ("scale", 1.05070102214813232421875),
        },
    ),
    "Celu": (12, "celu", {"alpha": ("alpha", 1.0)}),
    "HardSigmoid": (6, "hardsigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "HardSwish": (14, "hardswish", {}),
}
"""Operators with attributes: the operator set that introduced them, xlac's operation, and its
attributes with the standard's defaults.
"""


def _plain(name: str, since: int, mnemonic: str) -> None:
    @operator(name, since=since, elementwise=True)
    def activation(call: OperatorCall) -> Node:
        return build.apply1(mnemonic, call[0])


def _tuned(name: str, since: int, mnemonic: str, attributes: dict[str, tuple[str, float]]) -> None:
    @operator(name, since=since, elementwise=True)
    def activation(call: OperatorCall) -> Node:
        given = {ours: call.attr(theirs, default) for theirs, (ours, default) in attributes.items()}
        return build.apply1(mnemonic, call[0], **given)


for _name, (_since, _mnemonic) in _PLAIN.items():
    _plain(_name, _since, _mnemonic)
for _name, (_since, _mnemonic, _attributes) in _TUNED.items():
    _tuned(_name, _since, _mnemonic, _attributes)


@operator("PRelu", since=1, elementwise=True)
def prelu_1(call: OperatorCall) -> Node:
    """Operator sets 1 and 6: one slope, or one for each channel."""
    x, slope = call[0], call[1]
    return _prelu(
        x, build.reshape(slope, (-1, *[1] * (x.type.rank - 2))) if x.type.rank > 1 else slope
    )


@operator("PRelu", since=7, elementwise=True)
def prelu_7(call: OperatorCall) -> Node:
    """Operator sets 7, 9 (integers too) and 16: the slope broadcasts to x."""
    return _prelu(call[0], call[1])


def _prelu(x: Node, slope: Node) -> Node:
    return build.select(build.compare(x, "lt", 0), build.mul(x, slope), x)


@operator("ThresholdedRelu", since=10, elementwise=True)
def thresholded_relu(call: OperatorCall) -> Node:
    """Operator sets 10 and 22."""
    x = call[0]
    return build.select(build.compare(x, "gt", call.attr("alpha", 1.0)), x, build.like(0, x))


@operator("Shrink", since=9, elementwise=True)
def shrink(call: OperatorCall) -> Node:
    """Operator set 9: x moved towards 0 by `bias` where |x| exceeds `lambd`, else 0."""
    x, limit, bias = call[0], call.attr("lambd", 0.5), call.attr("bias", 0.0)
    wide = build.floating(x)
    low, high = build.compare(wide, "lt", -limit), build.compare(wide, "gt", limit)
    shrunk = build.select(
        low, build.add(wide, bias), build.select(high, build.sub(wide, bias), build.like(0, wide))
    )
    return build.cast(shrunk, x.type.dtype)


@operator("Gelu", since=20, elementwise=True)
def gelu(call: OperatorCall) -> Node:
    """Operator set 20."""
    return build.apply1("gelu", call[0], approximate=call.attr("approximate", "none"))


@operator("Swish", since=24, elementwise=True)
def swish(call: OperatorCall) -> Node:
    """Operator set 24: x * sigmoid(alpha * x)."""
    return _swish(call[0], call.attr("alpha", 1.0))


@operator("SwiGLU", since=28, elementwise=True)
def swiglu(call: OperatorCall) -> Node:
    """Operator set 28: swish(gate) * value, of tensors of one shape."""
    gate, value = call[0], call[1]
    if gate.type != value.type:
        raise ShapeError(
            f"SwiGLU takes two tensors of one type, got {gate.type} and {value.type}", operand=1
        )
    return build.mul(_swish(gate, call.attr("alpha", 1.0)), value)


def _swish(x: Node, alpha: float) -> Node:
    wide = build.compute(x)
    gate = build.apply1("sigmoid", wide if alpha == 1.0 else build.mul(wide, alpha))
    return build.cast(build.mul(wide, gate), x.type.dtype)
