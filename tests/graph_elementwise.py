"""Steps of random graphs, element by element and along rows: each takes a maker and gives a value,
or nothing where none fits.
"""

from __future__ import annotations

import math

from graph_maker import FLOATS, INTEGERS, Maker, Value

from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction import cumulative, reduction
from xlac.ops.scalar import arithmetic
from xlac_sdk.dtypes import DType


def unary(m: Maker) -> Value | None:
    x = m.number()
    if x is None:
        return None
    n, b = x.node, x.bound
    half = x.dtype.is_half
    kind = m.random.choice(
        "exp sqrt log sin cos erf relu neg scale shift divide square sigmoid minus".split()
    )
    if kind == "exp" and b > 3:
        kind = "sin"
    if kind in ("sin", "cos") and (half or b > 20):
        kind = "relu"
    match kind:
        case "exp":
            return Value(build.exp(n), math.exp(b))
        case "sqrt":
            return Value(build.sqrt(build.add(build.mul(n, n), 0.5)), b + 1)
        case "log":
            return Value(build.log(build.add(build.mul(n, n), 1.0)), math.log(b * b + 1) + 0.1)
        case "sin":
            return Value(Node.of(arithmetic.Sin(), n), 1)
        case "cos":
            return Value(Node.of(arithmetic.Cos(), n), 1)
        case "erf":
            return Value(Node.of(arithmetic.Erf(), n), 1)
        case "relu":
            return Value(build.maximum(n, 0.0), b, x.exact)
        case "neg":
            return Value(build.sub(m.random.choice((0.0, -0.0)), n), b, x.exact)
        case "minus":
            return Value(build.mul(n, -1.0), b, x.exact)
        case "scale":
            return Value(build.mul(n, m.random.choice((0.5, 1.0, 0.3, -2.0))), 2 * b)
        case "shift":
            return Value(build.add(n, m.random.choice((0.0, -0.0, 1.5, -0.25))), b + 1.5)
        case "divide":
            return Value(build.div(n, m.random.choice((2.0, 1.0, 3.0, -4.0))), b)
        case "square":
            return Value(Node.of(arithmetic.Pow(), n, build.like(2.0, n)), b * b)
        case _:
            return Value(
                build.div(
                    1.0,
                    build.add(
                        build.exp(build.sub(0.0, build.minimum(build.maximum(n, -4.0), 4.0))), 1.0
                    ),
                ),
                1,
            )


def binary(m: Maker) -> Value | None:
    x = m.number()
    if x is None:
        return None
    y = m.partner(x)
    a, b = (x, y) if m.random.random() < 0.6 else (y, x)
    match m.random.choice(("add", "add", "sub", "mul", "mul", "max", "min", "div")):
        case "add":
            return Value(build.add(a.node, b.node), a.bound + b.bound)
        case "sub":
            return Value(build.sub(a.node, b.node), a.bound + b.bound)
        case "mul":
            return Value(build.mul(a.node, b.node), a.bound * b.bound)
        case "max":
            return Value(build.maximum(a.node, b.node), max(a.bound, b.bound), a.exact and b.exact)
        case "min":
            return Value(build.minimum(a.node, b.node), max(a.bound, b.bound), a.exact and b.exact)
        case _:
            return Value(build.div(a.node, build.add(build.mul(b.node, b.node), 1.0)), a.bound)


def integer(m: Maker) -> Value | None:
    """Arithmetic that is exact, and wraps."""
    x = m.some(lambda v: v.dtype.is_integer) or m.param(m.shape(), m.random.choice(INTEGERS))
    y = m.partner(x)
    op = m.random.choice(
        (
            arithmetic.Add,
            arithmetic.Sub,
            arithmetic.Mul,
            arithmetic.Max,
            arithmetic.Min,
            arithmetic.And,
            arithmetic.Or,
            arithmetic.Xor,
            arithmetic.Div,
            arithmetic.Rem,
        )
    )
    return Value(Node.of(op(), x.node, y.node), 7, True)


def logic(m: Maker) -> Value | None:
    """A selection by a comparison of exact values."""
    x = m.number()
    if x is None:
        return None
    y = m.partner(x)
    key = m.some(lambda v: v.exact and v.shape == x.shape and v.dtype is not DType.BOOL) or m.param(
        x.shape, DType.F32
    )
    other = m.fresh(key.shape, key.dtype)
    condition = build.compare(
        key.node, m.random.choice(("lt", "le", "gt", "ge", "eq", "ne")), other.node
    )
    if m.random.random() < 0.3:
        condition = Node.of(arithmetic.Xor(), condition, build.like(True, condition))
    return Value(
        build.select(condition, x.node, y.node), max(x.bound, y.bound), x.exact and y.exact
    )


def convert(m: Maker) -> Value | None:
    x = m.some()
    if x is None:
        return None
    if x.dtype.is_float and not x.exact:
        return Value(build.cast(x.node, m.random.choice(FLOATS)), x.bound * 1.01)
    target = m.random.choice((*FLOATS, *FLOATS, DType.I32, DType.I8, DType.BOOL))
    if x.dtype.is_integer and target.is_float:
        small = build.apply("and", x.node, build.constant(7, x.dtype))
        assert isinstance(small, Node)
        return Value(build.cast(small, target), 7, True)
    return Value(
        build.cast(x.node, target), x.bound * 1.01 if x.dtype is not DType.BOOL else 1, True
    )


def reduced(m: Maker) -> Value | None:
    x = m.number()
    if x is None:
        return None
    rank = len(x.shape)
    axes = tuple(a for a in range(rank) if m.random.random() < 0.5)
    combine = m.random.choice(("add", "add", "max", "min"))
    count = math.prod(x.shape[a] for a in axes)
    if not count and combine != "add":
        return None
    result = Node.of(reduction.Reduce(axes, combine), x.node)
    if combine == "add" and m.random.random() < 0.5:
        return Value(build.div(result, float(max(count, 1))), x.bound)
    return Value(result, x.bound * count if combine == "add" else x.bound)


def normalised(m: Maker) -> Value | None:
    """Softmax, or a normalisation by mean and variance, written out."""
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) > 0 and v.shape[-1] > 0)
    if x is None:
        return None
    n, last = x.node, len(x.shape) - 1
    if m.random.random() < 0.5:
        top = build.reduce(n, "max", (last,))
        powers = build.exp(build.sub(n, build.back(top, n.shape, (last,))))
        return Value(
            build.div(powers, build.back(build.reduce(powers, "add", (last,)), n.shape, (last,))), 1
        )
    size = float(x.shape[-1])
    mean = build.div(build.reduce(n, "add", (last,)), size)
    apart = build.sub(n, build.back(mean, n.shape, (last,)))
    spread = build.div(build.reduce(build.mul(apart, apart), "add", (last,)), size)
    scale = build.sqrt(build.add(spread, 1.0))
    return Value(build.div(apart, build.back(scale, n.shape, (last,))), 2 * x.bound)


def composite(m: Maker) -> Value | None:
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) > 0 and v.shape[-1] > 0)
    if x is None:
        return None
    name = m.random.choice(("softmax", "relu", "gelu", "sigmoid", "tanh", "silu"))
    found = build.apply(name, x.node)
    return Value(found, max(1.0, x.bound)) if isinstance(found, Node) else None


def running(m: Maker) -> Value | None:
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) > 0)
    if x is None:
        return None
    axis, combine = m.random.randrange(len(x.shape)), m.random.choice(("add", "max"))
    exclusive = combine == "add" and m.random.random() < 0.3
    result = Node.of(
        cumulative.Cumulative(axis, combine, m.random.random() < 0.5, exclusive), x.node
    )
    return Value(result, x.bound * max(1, x.shape[axis]))
