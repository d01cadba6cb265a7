"""Random numbers: RandomUniform, RandomNormal, their Like forms, Bernoulli, Multinomial (ONNX
operator sets 1 to 22).

A compiled model draws the same numbers in every call. With a `seed`, a tensor of static size gets
the numbers that NumPy's RandomState draws, as in ONNX's reference; others come from a counter-based
generator (Philox), keyed by the seed or the number of the node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlac.frontends.limits import check_size
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.tensor.leaf import RngBits
from xlac_sdk.dtypes import DType

DRAWN = 1 << 20  # the most elements that are drawn at import


def uniform(call: OperatorCall, shape: Sequence[Dim], dtype: DType = DType.F64) -> Node:
    """Uniform numbers in [0, 1)."""
    known = _drawn(call, shape)
    if known is not None:
        return build.constant(np.asarray(known.uniform(0.0, 1.0, _static(shape))), dtype)
    bits = build.cast(_bits(call, shape, 0), DType.F64)
    return build.cast(build.mul(build.add(bits, 0.5), 2.0**-32), dtype)


def normal(call: OperatorCall, shape: Sequence[Dim], dtype: DType = DType.F64) -> Node:
    """Standard normal numbers."""
    known = _drawn(call, shape)
    if known is not None:
        return build.constant(np.asarray(known.randn(*_static(shape))), dtype)
    first, second = (
        build.mul(build.add(build.cast(_bits(call, shape, n), DType.F64), 0.5), 2.0**-32)
        for n in (0, 1)
    )
    radius = build.sqrt(build.mul(build.log(first), -2.0))
    return build.cast(build.mul(radius, build.apply1("cos", build.mul(second, 2 * math.pi))), dtype)


def _static(shape: Sequence[Dim]) -> tuple[int, ...]:
    return tuple(size for size in shape if isinstance(size, int))


def _drawn(call: OperatorCall, shape: Sequence[Dim]) -> np.random.RandomState | None:
    """The NumPy generator of ONNX's reference, for a tensor with a seed and a static, moderate
    size; else None.
    """
    seed = call.attr("seed", None)
    if (
        seed is None
        or math.isnan(seed)
        or len(_static(shape)) < len(shape)
        or math.prod(_static(shape)) > DRAWN
    ):
        return None
    return np.random.RandomState(int(seed) % (1 << 32))


def _bits(call: OperatorCall, shape: Sequence[Dim], stream: int) -> Node:
    check_size(shape, 8)
    seed = call.attr("seed", None)
    key = np.asarray(call.importer.built if seed is None else seed, np.float64).view(np.uint64)
    state = build.constant(np.asarray([key, 0, stream << 32], np.uint64))
    return build.results(Node.of(RngBits("philox", tuple(shape), DType.U32), state))[1]


def _shape(call: OperatorCall) -> tuple[Dim, ...]:
    return call[0].shape if call.operator.endswith("Like") else tuple(call.attr("shape"))


def _dtype(call: OperatorCall) -> DType:
    like = call.operator.endswith("Like") and call[0].type.dtype.is_float
    return call.dtype("dtype", call[0].type.dtype if like else DType.F32)


def _uniform(call: OperatorCall) -> Node:
    low, high = call.attr("low", 0.0), call.attr("high", 1.0)
    return build.cast(
        build.add(build.mul(uniform(call, _shape(call)), high - low), low), _dtype(call)
    )


def _normal(call: OperatorCall) -> Node:
    drawn = build.mul(normal(call, _shape(call)), call.attr("scale", 1.0))
    return build.cast(build.add(drawn, call.attr("mean", 0.0)), _dtype(call))


for _name, _builder in (("RandomUniform", _uniform), ("RandomNormal", _normal)):
    operator(_name)(_builder)
    operator(f"{_name}Like")(_builder)


@operator("Bernoulli", since=15)
def bernoulli(call: OperatorCall) -> Node:
    """1 with probability x, else 0."""
    x = call[0]
    hit = build.compare(uniform(call, x.shape), "lt", build.cast(x, DType.F64))
    return build.cast(hit, call.dtype("dtype", x.type.dtype))


@operator("Multinomial", since=7)
def multinomial(call: OperatorCall) -> Node:
    """Samples classes from unnormalized log-probabilities."""
    x = build.cast(call[0], DType.F64)
    batch, classes = x.shape
    count = call.attr("sample_size", 1)
    if not isinstance(classes, int):
        call.fail("the number of classes must be known")
    until = build.apply1("cumsum", build.apply1("softmax", x, axis=1), axis=1)
    drawn = build.reshape(uniform(call, (batch, count)), [batch, count, 1])
    below = build.compare(build.reshape(until, [batch, 1, classes]), "le", drawn)
    number = build.reduce(build.cast(below, DType.I64), "add", [2])
    return build.cast(build.minimum(number, classes - 1), call.dtype("dtype", DType.I32))
