"""Creation of tensors, and random tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, Scalar, aten
from xlac.ir.dims import Dim, Sym
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType


@aten("full", "full_like", "new_full", "fill.Scalar", "fill.Tensor")
def full(call: AtenCall, like: Any, *values: Any, **named: Any) -> Node:
    """full and its variants: the last positional argument is the value."""
    return call.filled(values[-1])


@aten("scalar_tensor")
def scalar_tensor(call: AtenCall, value: Scalar, **_: Any) -> Node:
    """A number as a tensor of rank 0."""
    return call.node(value, call.dtype)


@aten(
    "zeros",
    "zeros_like",
    "_new_zeros_with_same_feature_meta",
    "new_zeros",
    "empty.memory_format",
    "empty_strided",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    "empty_permuted",
)
def zeros(call: AtenCall, *_: Any, **__: Any) -> Node:
    """Zeros; also for tensors that PyTorch leaves uninitialized."""
    return call.filled(0)


@aten("ones", "ones_like", "new_ones")
def ones(call: AtenCall, *_: Any, **__: Any) -> Node:
    """Ones of the result's shape and dtype."""
    return call.filled(1)


@aten("arange.start_step")
def arange(call: AtenCall, start: Scalar, end: Scalar, step: Scalar = 1, **_: Any) -> Node:
    """start, start + step, …, as many as the result's size."""
    return _counted(call, start, step)


@aten("arange")
def arange_stop(call: AtenCall, end: Scalar, **_: Any) -> Node:
    """0, 1, …, as many as the result's size."""
    return _counted(call, 0, 1)


@aten("arange.start")
def arange_start(call: AtenCall, start: Scalar, end: Scalar, **_: Any) -> Node:
    """start, start + 1, …, as many as the result's size."""
    return _counted(call, start, 1)


@aten("prims.iota.default")
def iota(call: AtenCall, length: Dim, start: Scalar = 0, step: Scalar = 1, **_: Any) -> Node:
    """start, start + step, …, `length` of them."""
    return _counted(call, start, step)


def _counted(call: AtenCall, start: Scalar, step: Scalar) -> Node:
    """start + i * step; floats are computed in f64 (f32 and 16-bit floats are then rounded once),
    as PyTorch does.
    """
    wide = DType.F64 if call.dtype.is_float else DType.I64
    values = build.iota(call.shape, 0, wide)
    if isinstance(step, Sym) or step != 1:
        values = build.mul(values, call.node(step, wide))
    if isinstance(start, Sym) or start != 0:
        values = build.add(values, call.node(start, wide))
    return build.cast(values, call.dtype)


@aten("eye", "eye.m")
def eye(call: AtenCall, *_: Any, **__: Any) -> Node:
    """Ones on the diagonal, zeros elsewhere."""
    return build.cast(
        build.compare(build.iota(call.shape, 0), "eq", build.iota(call.shape, 1)), call.dtype
    )


@aten("tril")
def tril(call: AtenCall, x: Node, diagonal: int = 0) -> Node:
    """The triangle up to a diagonal, zeros above."""
    return build.apply1("tril", x, k=diagonal)


@aten("triu")
def triu(call: AtenCall, x: Node, diagonal: int = 0) -> Node:
    """The triangle from a diagonal on, zeros below."""
    return build.apply1("triu", x, k=diagonal)


@aten("rand", "rand_like")
def rand(call: AtenCall, *_: Any, **__: Any) -> Node:
    """Uniform numbers in [0, 1) from xlac's generator. Of an integer dtype all are 0."""
    if not call.dtype.is_float:
        return call.filled(0)
    return call.random.uniform(call.shape, call.dtype)


@aten("randn", "randn_like")
def randn(call: AtenCall, *_: Any, **__: Any) -> Node:
    """Normally distributed numbers from xlac's generator: not PyTorch's sequence."""
    return call.random.normal(call.shape, call.dtype)


@aten("uniform")
def uniform(
    call: AtenCall, x: Node, low: float = 0.0, high: float = 1.0, generator: Any = None
) -> Node:
    """Uniform numbers in [low, high) from xlac's generator: not PyTorch's sequence."""
    drawn = build.compute(call.random.uniform(call.shape, call.dtype))
    return build.cast(build.add(build.mul(drawn, float(high) - float(low)), float(low)), call.dtype)


@aten("normal_functional")
def normal(
    call: AtenCall, x: Node, mean: float = 0.0, std: float = 1.0, generator: Any = None
) -> Node:
    """Normally distributed numbers of the shape of x, from xlac's generator."""
    return _normal(call, mean, std)


@aten("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor")
def normal_of(call: AtenCall, mean: Scalar, std: Scalar = 1.0, generator: Any = None) -> Node:
    """Normally distributed numbers, one for each given mean or deviation."""
    return _normal(call, mean, std)


@aten("normal.float_float")
def normal_sized(call: AtenCall, mean: float, std: float, size: Any, **_: Any) -> Node:
    """Normally distributed numbers of a given size."""
    return _normal(call, mean, std)


def _normal(call: AtenCall, mean: Scalar, std: Scalar) -> Node:
    drawn = build.compute(call.random.normal(call.shape, call.dtype))
    middle, spread = (build.compute(call.filled(v)) for v in (mean, std))
    return build.cast(build.add(build.mul(drawn, spread), middle), call.dtype)


@aten("exponential")
def exponential(call: AtenCall, x: Node, lambd: float = 1.0, generator: Any = None) -> Node:
    """Exponentially distributed numbers: -log(1 - u) / lambd of uniform u."""
    wide = call.dtype.compute
    drawn = build.log(build.sub(1.0, call.random.uniform(call.shape, wide)))
    return build.cast(build.mul(drawn, -1 / float(lambd)), call.dtype)


@aten("geometric")
def geometric(call: AtenCall, x: Node, p: float, generator: Any = None) -> Node:
    """The number of trials until the first success: 1 + floor(log(1 - u) / log(1 - p))."""
    wide = DType.F64 if call.dtype is DType.F64 else DType.F32
    drawn = build.log(build.sub(1.0, call.random.uniform(call.shape, wide)))
    steps = build.apply1("floor", build.div(drawn, math.log1p(-float(p)) if p < 1 else -math.inf))
    return build.cast(build.add(steps, 1.0), call.dtype)


@aten("multinomial")
def multinomial(
    call: AtenCall,
    weights: Node,
    num_samples: int,
    replacement: bool = False,
    generator: Any = None,
) -> Node:
    """Indices sampled by weights, with the Gumbel-max trick: the largest log weight + noise."""
    wide = build.compute(weights)
    count = weights.shape[-1]
    outer = weights.shape[:-1]
    if replacement:
        shape = (*outer, num_samples, count)
        scores = build.broadcast_to(build.reshape(build.log(wide), (*outer, 1, count)), shape)
        return build.apply1(
            "argmax", build.add(scores, _gumbel(call, shape, wide.type.dtype)), axis=len(shape) - 1
        )
    scores = build.add(build.log(wide), _gumbel(call, wide.shape, wide.type.dtype))
    axis = wide.type.rank - 1
    places = build.sort([scores, build.iota(wide.shape, axis)], axis, True)[1]
    return build.cut(places, axis, 0, num_samples)


def _gumbel(call: AtenCall, shape: Sequence[Dim], dtype: DType) -> Node:
    """Gumbel noise: -log(-log u), with u in (0, 1]."""
    inner = build.mul(build.log(build.sub(1.0, call.random.uniform(shape, dtype))), -1.0)
    return build.mul(build.log(inner), -1.0)


@aten("randint")
def randint(call: AtenCall, high: Scalar, size: Any, **_: Any) -> Node:
    """Integers in [0, high) from xlac's generator."""
    return _integers(call, 0, high)


@aten("randint.low")
def randint_low(call: AtenCall, low: Scalar, high: Scalar, size: Any, **_: Any) -> Node:
    """Integers in [low, high)."""
    return _integers(call, low, high)


@aten("randint_like")
def randint_like(call: AtenCall, like: Node, high: Scalar, **_: Any) -> Node:
    """Integers in [0, high), of the shape of a tensor."""
    return _integers(call, 0, high)


@aten("randint_like.low_dtype")
def randint_like_low(call: AtenCall, like: Node, low: Scalar, high: Scalar, **_: Any) -> Node:
    """Integers in [low, high), of the shape of a tensor."""
    return _integers(call, low, high)


def _integers(call: AtenCall, low: Scalar, high: Scalar) -> Node:
    bits = call.random.bits(call.shape, DType.U64)
    start = call.node(low, DType.I64)
    reach = build.cast(build.sub(call.node(high, DType.I64), start), DType.U64)
    drawn = build.cast(build.apply1("rem", bits, reach), DType.I64)
    return build.cast(build.add(drawn, start), call.dtype)


@aten("randperm")
def randperm(call: AtenCall, n: Dim, **_: Any) -> Node:
    """A random permutation: indices sorted by random keys of 64 bits."""
    keys = call.random.bits(call.shape, DType.U64)
    return build.cast(build.sort([keys, build.iota(call.shape, 0)], 0)[1], call.dtype)


@aten("bernoulli")
def bernoulli(call: AtenCall, x: Node, generator: Any = None) -> Node:
    """1 with the probability given by each element of x, else 0."""
    return _drawn(call, x)


@aten("bernoulli.p")
def bernoulli_p(call: AtenCall, x: Node, p: float = 0.5, generator: Any = None) -> Node:
    """1 with probability p, else 0."""
    return _drawn(call, p)


def _drawn(call: AtenCall, p: Scalar) -> Node:
    chance = call.filled(p, DType.F64 if call.natural(p) is DType.F64 else DType.F32)
    return build.cast(
        build.compare(call.random.uniform(call.shape, chance.type.dtype), "lt", chance), call.dtype
    )


@aten("native_dropout")
def dropout(call: AtenCall, x: Node, p: float, train: bool | None = True) -> tuple[Node, Node]:
    """Elements kept with probability 1 - p and scaled by 1 / (1 - p), and the mask of kept
    elements.
    """
    if train is False or p == 0:
        return x, build.full(True, x.shape, DType.BOOL)
    kept = build.compare(call.random.uniform(x.shape, DType.F32), "ge", float(p))
    wide = build.mul(build.compute(x), 1 / (1 - p) if p < 1 else 0.0)
    return build.cast(build.select(kept, wide, build.like(0, wide)), x.type.dtype), kept


@aten("_local_scalar_dense")
def item(call: AtenCall, x: Node) -> Node:
    """Always refused: a tensor's value as a Python number is known only at run time."""
    raise NotExpressible("a Python number made of a tensor's value")
