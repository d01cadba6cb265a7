"""Random graphs whose values stay tame, so that what two ways of computing them give can be
compared.

`cases()` is a hypothesis strategy; `make(Random(seed))` gives one without hypothesis. Values are
bounded, functions are applied where they are smooth, and comparisons are made of values that are
exact (inputs and integers), so that a difference in the last bits stays one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import strategies as st

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control import control
from xlac.ops.reduction import cumulative, reduction
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.window import Window
from xlac.ops.scalar import arithmetic
from xlac.ops.tensor import dynamic_slice, extend, view
from xlac_sdk.dtypes import DType

FLOATS = (DType.F32, DType.F32, DType.F32, DType.F32, DType.F64, DType.F16, DType.BF16)
INTEGERS = (DType.I32, DType.I64, DType.I8, DType.U8, DType.U32)
LARGEST = 1500  # elements of a value
BOUND = 60.0  # of the values of floats


@dataclass(frozen=True, eq=False)
class Case:
    """A graph and everything needed to run it."""

    graph: Graph
    inputs: Mapping[str, Array]
    weights: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Value:
    """A node, the largest absolute value of its elements, and whether they are free of rounding."""

    node: Node
    bound: float
    exact: bool = False

    @property
    def dtype(self) -> DType:
        return self.node.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(s for s in self.node.shape if isinstance(s, int))

    def __str__(self) -> str:
        return str(self.node.type)


def cases(nodes: int = 10) -> st.SearchStrategy[Case]:
    """Graphs of about so many steps; a step is one to a dozen nodes."""
    return st.randoms(use_true_random=False).map(lambda random: make(random, nodes))


def make(random: Random, nodes: int = 10) -> Case:
    """One random graph."""
    return Maker(random).case(random.randint(1, nodes))


class Maker:
    """Grows a graph step by step from values that it has."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.values: list[Value] = []
        self.inputs: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}
        self.params: list[Node] = []

    def case(self, steps: int) -> Case:
        for _ in range(self.random.randint(1, 3)):
            self.values.append(self.param(self.shape(), self.random.choice(FLOATS)))
        grown = 0
        for _ in range(steps * 3):
            found = self.random.choice(STEPS)(self)
            if found is None or (found.node.type.size == 0 and self.random.random() < 0.8):
                continue
            if math.prod(found.shape) > LARGEST or found.bound > BOUND:
                continue
            self.values.append(found)
            grown += 1
            if grown == steps:
                break
        chosen = [
            self.values[-1],
            *self.random.sample(self.values, self.random.randint(0, min(2, len(self.values)))),
        ]
        outputs = {f"y{n}": node for n, node in enumerate(dict.fromkeys(v.node for v in chosen))}
        return Case(Graph("random", tuple(self.params), outputs), self.inputs, self.weights)

    # ---- leaves --------------------------------------------------------------------------

    def size(self) -> int:
        return self.random.choice(
            (1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 0 if self.random.random() < 0.1 else 6)
        )

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.random.choice((0, 1, 2, 2, 3, 3, 4)) if rank is None else rank
        sizes = [self.size() for _ in range(rank)]
        while math.prod(sizes) > LARGEST // 4:
            sizes[sizes.index(max(sizes))] = 2
        return tuple(sizes)

    def param(self, shape: tuple[int, ...], dtype: DType, kind: str = "input") -> Value:
        numbers = np.random.default_rng(self.random.randint(0, 2**31))
        if dtype is DType.BOOL:
            array = numbers.random(shape) < 0.5
        elif dtype.is_integer:
            array = numbers.integers(0 if not dtype.is_signed else -7, 8, shape).astype(dtype.numpy)
        else:
            array = numbers.uniform(-1.5, 1.5, shape).astype(np.float32).astype(dtype.numpy)
        name = f"{'w' if kind == 'weight' else 'x'}{len(self.inputs) + len(self.weights)}"
        (self.weights if kind == "weight" else self.inputs)[name] = np.asarray(array)
        node = build.param(name, dtype, shape, kind)
        if kind != "weight":
            self.params.append(node)
        return Value(node, 7.0 if dtype.is_integer else 1.5, True)

    def fresh(self, shape: tuple[int, ...], dtype: DType) -> Value:
        """An operand: an input, a weight, or a constant."""
        if self.random.random() < 0.25:
            numbers = np.random.default_rng(self.random.randint(0, 2**31))
            low = 0 if dtype.is_integer and not dtype.is_signed else -2
            array = (
                numbers.integers(low, 3, shape)
                if dtype.is_integer
                else numbers.uniform(-1.5, 1.5, shape)
            )
            return Value(build.constant(array, dtype), 2.0, True)
        return self.param(shape, dtype, self.random.choice(("input", "weight", "weight")))

    def some(self, accept: Callable[[Value], bool] = lambda v: True) -> Value | None:
        found = [v for v in self.values[-6:] if accept(v)] or [v for v in self.values if accept(v)]
        return self.random.choice(found) if found else None

    def number(self) -> Value | None:
        return self.some(lambda v: v.dtype.is_float)

    def partner(self, x: Value) -> Value:
        """An operand of the same type as x, sometimes one that is broadcast."""
        alike = [v for v in self.values if v.node.type == x.node.type]
        if alike and self.random.random() < 0.6:
            return self.random.choice(alike)
        if not x.shape or self.random.random() < 0.3:
            return self.fresh(x.shape, x.dtype)
        axes = tuple(a for a in range(len(x.shape)) if self.random.random() < 0.5)
        small = self.fresh(tuple(x.shape[a] for a in axes), x.dtype)
        return Value(
            build.spread(small.node, x.shape, axes)
            if axes != tuple(range(len(x.shape)))
            else small.node,
            small.bound,
            True,
        )


# ---- steps: each takes a maker and gives a value, or nothing where none fits ---------------


def unary(m: Maker) -> Value | None:
    x = m.number()
    if x is None:
        return None
    n, b = x.node, x.bound
    half = x.dtype.is_half
    kind = m.random.choice(
        (
            "exp",
            "sqrt",
            "log",
            "sin",
            "cos",
            "erf",
            "relu",
            "neg",
            "scale",
            "shift",
            "divide",
            "square",
            "sigmoid",
            "minus",
        )
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


def views(m: Maker) -> Value | None:
    x = m.some()
    if x is None:
        return None
    rank, shape, n = len(x.shape), x.shape, x.node
    match m.random.choice(
        (
            "transpose",
            "transpose",
            "reshape",
            "reshape",
            "slice",
            "pad",
            "concat",
            "broadcast",
            "unit",
        )
    ):
        case "transpose" if rank > 1:
            return Value(
                Node.of(view.Transpose(tuple(m.random.sample(range(rank), rank))), n),
                x.bound,
                x.exact,
            )
        case "reshape":
            return Value(Node.of(view.Reshape(regrouped(m.random, shape)), n), x.bound, x.exact)
        case "slice" if rank:
            spans = [span(m.random, size) for size in shape]
            starts, stops, steps = (tuple(s[i] for s in spans) for i in range(3))
            return Value(Node.of(view.Slice(starts, stops, steps), n), x.bound, x.exact)
        case "pad" if rank and x.dtype is not DType.BOOL:
            low = tuple(m.random.choice((0, 0, 1, 2)) for _ in shape)
            high = tuple(m.random.choice((0, 0, 1, -1 if size > 1 else 1)) for size in shape)
            gaps = tuple(m.random.choice((0, 0, 0, 1)) for _ in shape)
            return Value(
                Node.of(extend.Pad(low, high, gaps), n, build.constant(0, x.dtype)),
                x.bound,
                x.exact,
            )
        case "concat" if rank:
            axis = m.random.randrange(rank)
            others = [
                v
                for v in m.values
                if v.dtype is x.dtype and len(v.shape) == rank and fits(v.shape, shape, axis)
            ]
            y = m.random.choice(others)
            return Value(
                Node.of(extend.Concat(axis), n, y.node), max(x.bound, y.bound), x.exact and y.exact
            )
        case "broadcast":
            place = m.random.randint(0, rank)
            wide = (*shape[:place], m.random.randint(1, 4), *shape[place:])
            axes = tuple(a for a in range(rank + 1) if a != place)
            return Value(Node.of(view.Broadcast(wide, axes), n), x.bound, x.exact)
        case "unit":
            place = m.random.randint(0, rank)
            return Value(
                Node.of(view.Reshape((*shape[:place], 1, *shape[place:])), n), x.bound, x.exact
            )
        case _:
            return None


def fits(a: tuple[int, ...], b: tuple[int, ...], axis: int) -> bool:
    return all(i == axis or a[i] == b[i] for i in range(len(a)))


def span(random: Random, size: int) -> tuple[int, int, int]:
    a, b = sorted((random.randint(0, size), random.randint(0, size)))
    step = random.choice((1, 1, 1, 2, -1))
    if step < 0 and b > a:
        return b - 1, a - 1, -random.choice((1, 2))
    return (a, b, step) if step > 0 else (a, b, 1)


def regrouped(random: Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Neighbouring axes merged, and one split."""
    sizes = list(shape)
    while len(sizes) > 1 and random.random() < 0.6:
        at = random.randrange(len(sizes) - 1)
        sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
    if sizes and random.random() < 0.6:
        at = random.randrange(len(sizes))
        divisors = [d for d in range(1, sizes[at] + 1) if sizes[at] % d == 0]
        if divisors:
            by = random.choice(divisors)
            sizes[at : at + 1] = [by, sizes[at] // by]
    return tuple(sizes)


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


def contraction(m: Maker) -> Value | None:
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) in (1, 2, 3))
    if x is None:
        return None
    depth, columns = x.shape[-1], m.size()
    rank = len(x.shape)
    if rank == 3 and m.random.random() < 0.5:
        shape = (
            (x.shape[0], depth, columns)
            if m.random.random() < 0.5
            else (x.shape[0], columns, depth)
        )
        y = m.fresh(shape, x.dtype)
        contract = 1 if shape[1] == depth and shape[2] == columns else 2
        result = build.dot(x.node, y.node, ((2,), (contract,)), ((0,), (0,)))
    else:
        flipped = m.random.random() < 0.5
        y = m.fresh((columns, depth) if flipped else (depth, columns), x.dtype)
        at = m.random.choice([a for a in range(rank) if x.shape[a] == depth])
        result = build.dot(x.node, y.node, ((at,), (1 if flipped else 0,)))
    scaled = build.div(result, float(max(1, depth)))
    if m.random.random() < 0.5 and columns:
        bias = m.fresh((columns,), x.dtype)
        scaled = build.add(scaled, build.spread(bias.node, scaled.shape, (len(scaled.shape) - 1,)))
    return Value(scaled, x.bound * y.bound + 2)


def convolution(m: Maker) -> Value | None:
    """A small image convolved, sometimes with a normalisation by channel after it."""
    x = m.some(lambda v: v.dtype is DType.F32 and len(v.shape) == 4 and 0 not in v.shape)
    if x is None:
        x = m.param(
            (
                m.random.randint(1, 2),
                m.random.randint(1, 4),
                m.random.randint(3, 6),
                m.random.randint(3, 6),
            ),
            DType.F32,
        )
    channels, taps = x.shape[1], m.random.choice((1, 2, 3))
    if min(x.shape[2:]) < taps:
        return None
    filters, border, stride = (
        m.random.randint(1, 5),
        m.random.choice((0, 1)),
        m.random.choice((1, 1, 2)),
    )
    kernel = m.fresh((filters, channels, taps, taps), DType.F32)
    pads = (border, border)
    node = Node.of(
        Conv(("NCHW", "OIHW", "NCHW"), (stride, stride), pads, pads, (1, 1), (1, 1)),
        x.node,
        kernel.node,
    )
    bound = x.bound * kernel.bound * channels * taps * taps
    node = build.div(node, float(channels * taps * taps))
    if m.random.random() < 0.6:
        shift, scale = (m.fresh((filters,), DType.F32).node for _ in range(2))
        node = build.mul(
            build.add(node, build.spread(shift, node.shape, (1,))),
            build.spread(scale, node.shape, (1,)),
        )
    return Value(node, (bound / (channels * taps * taps) + 2) * 2)


def pooled(m: Maker) -> Value | None:
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) in (2, 3, 4) and 0 not in v.shape)
    if x is None:
        return None
    rank = len(x.shape)
    window = tuple(m.random.randint(1, min(3, size)) for size in x.shape)
    strides = tuple(m.random.choice((1, 1, 2)) for _ in range(rank))
    combine, ones, zeros = m.random.choice(("max", "add")), (1,) * rank, (0,) * rank
    result = Node.of(Window(combine, None, window, strides, zeros, zeros, ones, ones), x.node)
    return Value(result, x.bound * math.prod(window) if combine == "add" else x.bound)


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


def taken(m: Maker) -> Value | None:
    """Rows taken by numbers, some of them out of range."""
    x = m.some(lambda v: v.dtype.is_float and len(v.shape) > 0 and 0 not in v.shape)
    if x is None:
        return None
    where = m.param((m.random.randint(1, 5),), DType.I32)
    if m.random.random() < 0.5:
        return Value(
            build.take(x.node, where.node, m.random.randrange(len(x.shape))), x.bound, x.exact
        )
    start = [m.param((), DType.I32).node for _ in x.shape]
    sizes = tuple(m.random.randint(1, size) for size in x.shape)
    return Value(Node.of(dynamic_slice.DynSlice(sizes), x.node, *start), x.bound, x.exact)


def looped(m: Maker) -> Value | None:
    """A scan that carries a vector and projects what it scans, or a branch."""
    x = m.some(lambda v: v.dtype is DType.F32 and len(v.shape) == 2 and 0 not in v.shape)
    if x is None:
        return None
    length, width = x.shape
    vector, matrix = Type(DType.F32, (width,)), Type(DType.F32, (width, width))
    weight, first = m.fresh((width, width), DType.F32), m.fresh((width,), DType.F32)
    if m.random.random() < 0.3:
        index_ = m.param((), DType.I32)
        branches = tuple(
            build.graph(
                f"branch{k}",
                [x.node.type, vector],
                lambda a, b, k=k: build.add(a, build.spread(build.mul(b, float(k)), a.shape, (1,))),
            )
            for k in range(2)
        )
        return Value(Node.of(control.Cond(branches), index_.node, x.node, first.node), x.bound + 3)

    def step(h: Node, s: Node, w: Node) -> tuple[Node, Node]:
        seen = build.div(build.dot(s, w, ((0,), (0,))), float(width))
        new = build.mul(build.add(h, build.exp(build.minimum(seen, 0.0))), 0.5)
        return new, build.add(new, build.mul(s, build.reduce(build.sqrt(build.mul(w, w)), "max")))

    body = build.graph("step", [vector, vector, matrix], step)
    scan = Node.of(
        control.Scan(body, length, 1, 1, m.random.random() < 0.3), first.node, x.node, weight.node
    )
    return Value(build.pick(scan, m.random.randrange(2)), (first.bound + 2) + x.bound * 2)


STEPS: tuple[Callable[[Maker], Value | None], ...] = (
    unary, unary, unary, binary, binary, binary, integer, logic, convert, views, views, views, views, reduced, reduced,
    normalised, composite, contraction, contraction, convolution, pooled, running, taken, looped,
)  # fmt: skip


def tolerance(dtype: DType) -> float:
    """How far two ways of computing a value may differ, in units of the largest value that may
    occur.
    """
    return {DType.F64: 1e-11, DType.F32: 2e-5, DType.F16: 3e-2, DType.BF16: 0.2}.get(dtype, 0.0)
