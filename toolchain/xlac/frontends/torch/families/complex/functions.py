"""Functions of one complex number."""

from __future__ import annotations

import math
from collections.abc import Callable

from xlac.frontends.torch.complex_tensors import ComplexTensor, aten_complex
from xlac.frontends.torch.table import AtenCall
from xlac.ops.complex import exponential, inverse, logarithm
from xlac.ops.complex.arithmetic import mul
from xlac.ops.complex.parts import Parts, scaled

FUNCTIONS: dict[str, Callable[[Parts], Parts]] = {
    "exp": exponential.exp, "expm1": exponential.expm1_, "sin": exponential.sin_,
    "cos": exponential.cos_, "tan": exponential.tan, "sinh": exponential.sinh_,
    "cosh": exponential.cosh_, "tanh": exponential.tanh_, "sigmoid": exponential.logistic,
    "log": logarithm.log, "log1p": logarithm.log1p_, "sqrt": logarithm.sqrt,
    "rsqrt": logarithm.rsqrt, "asin": inverse.asin, "acos": inverse.acos, "atan": inverse.atan,
    "asinh": inverse.asinh, "acosh": inverse.acosh, "atanh": inverse.atanh,
    "silu": lambda x: mul(x, exponential.logistic(x)),
    "exp2": lambda x: exponential.exp(scaled(x, math.log(2))),
    "log2": lambda x: scaled(logarithm.log(x), 1 / math.log(2)),
    "log10": lambda x: scaled(logarithm.log(x), 1 / math.log(10)),
}  # fmt: skip
"""The functions, by ATen's names; docs/STABLEHLO.md states their error bounds."""


def _function(name: str, function: Callable[[Parts], Parts]) -> None:
    @aten_complex(name)
    def builder(call: AtenCall, x: ComplexTensor) -> ComplexTensor:
        """A function, element by element."""
        return ComplexTensor(*function(x.parts))


for _name, _meaning in FUNCTIONS.items():
    _function(_name, _meaning)
