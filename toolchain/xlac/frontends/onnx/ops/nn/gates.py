"""Activation functions inside recurrent networks: given as lists of names, with their own
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.ir.graph import Node
from xlac.ir.op import ShapeError
from xlac.ops import build

Function = Callable[[Node], Node]

NUMBERS: dict[str, tuple[tuple[str, float], ...]] = {
    "Affine": (("alpha", 1.0), ("beta", 0.0)), "LeakyRelu": (("alpha", 0.01),),
    "ThresholdedRelu": (("alpha", 1.0),), "ScaledTanh": (("alpha", 1.0), ("beta", 1.0)),
    "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)), "Elu": (("alpha", 1.0),), "Relu": (),
    "Tanh": (), "Sigmoid": (), "Softsign": (), "Softplus": (),
}  # fmt: skip
"""The parameters of each function, with their defaults."""


def functions(call: OperatorCall, default: Sequence[str], directions: int) -> list[list[Function]]:
    """The functions for each direction, from the attributes activations, activation_alpha and
    activation_beta.

    Parameters are assigned in order to the functions that take them. `clip` limits the arguments of
    the gate functions: the first two of each direction. (The specification says every function;
    ONNX Runtime does not clip the cell's.)
    """
    names = call.attr("activations", None) or [*default] * directions
    if len(names) != len(default) * directions:
        call.fail(
            f"{directions} directions need {len(default) * directions} activations, got "
            f"{len(names)}"
        )
    given = {name: iter(call.attr(f"activation_{name}", [])) for name in ("alpha", "beta")}
    limit = call.attr("clip", None)
    activations = [
        _function(name, given, limit if n % len(default) < 2 else None)
        for n, name in enumerate(names)
    ]
    return [activations[n * len(default) : (n + 1) * len(default)] for n in range(directions)]


def _function(name: str, given: dict[str, Iterator[float]], limit: float | None) -> Function:
    known = next((n for n in NUMBERS if n.lower() == name.lower()), None)
    if known is None:
        raise ShapeError(
            f"activation '{name}' is not one of {', '.join(NUMBERS)}", attribute="activations"
        )
    numbers = [next(given[number], default) for number, default in NUMBERS[known]]

    def clipped(x: Node) -> Node:
        if limit is not None:
            x = build.minimum(build.maximum(x, -limit), limit)
        return _apply(known, x, *numbers)

    return clipped


def _apply(name: str, x: Node, alpha: float = 0.0, beta: float = 0.0) -> Node:
    match name:
        case "Affine":
            return build.add(build.mul(x, alpha), beta)
        case "ScaledTanh":
            return build.mul(build.apply1("tanh", build.mul(x, beta)), alpha)
        case "ThresholdedRelu":
            return build.select(build.compare(x, "gt", alpha), x, build.like(0.0, x))
        case "LeakyRelu":
            return build.apply1("leaky_relu", x, alpha=alpha)
        case "HardSigmoid":
            return build.apply1("hardsigmoid", x, alpha=alpha, beta=beta)
        case "Elu":
            return build.apply1("elu", x, alpha=alpha)
    return build.apply1(name.lower(), x)
