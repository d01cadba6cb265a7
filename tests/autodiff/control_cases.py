"""Every form of loop, branch and call with derivatives, in a type of floats."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import Call, Cond, Scan
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

COUNT = Type(DType.I32)


class Control(NamedTuple):
    """Results of parameters, values of those in f64, and the relative tolerance of differences."""

    params: list[Node]
    outputs: Sequence[Node]
    values: dict[str, Any]
    tolerance: float = 2e-6


def params(types: Sequence[Type]) -> list[Node]:
    return [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]


def values(types: Sequence[Type], seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for number, of in enumerate(types):
        shape: Any = of.shape
        floats, whole = rng.uniform(0.2, 0.9, shape), rng.integers(0, 3, shape)
        found[f"x{number}"] = floats if of.dtype.is_float else whole.astype(of.dtype.numpy)
    return found


def made(op: Any, types: Sequence[Type], **known: Any) -> Control:
    given = params(types)
    return Control(given, results(Node.of(op, *given)), values(types) | known)


def rnn(h: Node, x: Node, w: Node) -> tuple[Node, Node]:
    new = build.apply1("tanh", build.add(build.dot(w, h, ((1,), (0,))), x))
    return new, build.mul(new, h)


def fixed(c: Node, x: Node) -> tuple[Node, Node]:
    """Yields what does not change, and carries what is replaced."""
    return build.sub(x, 1.0), build.mul(c, c)


class Forms:
    """The forms in one type of floats."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.scalar, self.row, self.square = (Type(dtype, s) for s in ((), (3,), (3, 3)))

    def of(self, *shapes: int) -> Type:
        return Type(self.dtype, shapes)

    def counted(self, n: Node, s: Node, x: Node, w: Node) -> tuple[Node, ...]:
        """Carries an integer, and something that only starts to change on its way."""
        grown = build.add(s, build.mul(x, build.cast(n, self.dtype)))
        return build.add(n, 1), grown, build.mul(build.exp(s), w)

    def bodies(self) -> list[tuple[Callable[..., Any], list[Type], int, int]]:
        """A body, what a scan takes, and how many of those are carried and scanned."""
        one = self.scalar
        return [
            (rnn, [self.row, self.of(5, 3), self.square], 1, 1),
            (self.counted, [COUNT, one, self.of(4), one], 2, 1),
            (fixed, [self.of(2), self.of(6, 2)], 1, 1),
            (lambda c: build.mul(build.exp(c), c), [one], 1, 0),
            (lambda x, w: build.mul(build.mul(x, x), w), [self.of(7), one], 0, 1),
            (lambda a, b: (b, build.mul(a, b)), [one, one], 2, 0),
        ]

    def scan(
        self, case: int, length: int | None = None, reverse: bool = False, every: int = 0
    ) -> Control:
        make, types, carries, scanned = self.bodies()[case]
        stop = carries + scanned
        if length is not None:
            types = [
                t.with_shape((length, *t.shape[1:])) if carries <= n < stop else t
                for n, t in enumerate(types)
            ]
        steps: Any = types[carries].shape[0] if scanned else 4 if length is None else length
        takes = [
            t.with_shape(t.shape[1:]) if carries <= n < stop else t for n, t in enumerate(types)
        ]
        body = build.graph("step", takes, make)
        return made(Scan(body, steps, carries, scanned, reverse, every), types)

    def nested(self) -> Control:
        """A scan in a scan."""
        one, line = self.scalar, self.of(3)
        inner = build.graph(
            "inner", [one] * 3, lambda c, x, w: (build.add(build.mul(c, w), build.exp(x)), c)
        )

        def outer(c: Node, xs: Node, w: Node) -> Sequence[Node]:
            end, each = results(Node.of(Scan(inner, 3, 1, 1), c, xs, w))
            return end, build.reduce(build.mul(each, xs), "add")

        body = build.graph("outer", [one, line, one], outer)
        return made(Scan(body, 4, 1, 1), [one, self.of(4, 3), one])

    def cond(self, number: int) -> Control:
        types = [self.row, self.row]
        branches: tuple[Graph, ...] = (
            build.graph("a", types, lambda x, y: (build.mul(build.exp(x), y), x)),
            build.graph("b", types, lambda x, y: (build.mul(x, x), build.like(2.0, x))),
            build.graph("c", types, lambda x, y: (build.like(1.0, x), build.apply1("sigmoid", y))),
        )
        return made(Cond(branches), [COUNT, *types], x0=np.asarray(number, np.int32))

    def called_twice(self) -> Control:
        types = [self.row, self.row]
        body = build.graph("f", types, lambda x, y: build.mul(build.exp(x), y))
        a, b = given = params(types)
        first = Node.of(Call(body, "f"), a, b)
        return Control(given, [Node.of(Call(body, "f"), first, a)], values(types))

    def bounded_while(self, most: int) -> Control:
        """Multiplies a row by a matrix until a bound that the data say."""
        types = [self.row, self.square, self.scalar, COUNT]
        test = build.graph(
            "test", types, lambda x, w, b, n: build.compare(build.reduce(x, "add"), "lt", b)
        )

        def step(x: Node, w: Node, b: Node, n: Node) -> tuple[Node, ...]:
            new = build.mul(build.exp(build.mul(0.3, build.dot(w, x, ((1,), (0,))))), x)
            return new, w, b, build.add(n, 1), build.mul(new, new), n

        op = BoundedWhile(test, build.graph("step", types, step), most)
        return made(op, types, x2=np.asarray(20.0))

    def counted_scan(self, count: int, reverse: bool) -> Control:
        body = build.graph("step", [self.row, self.row, self.square], rnn)
        types = [COUNT, self.row, self.of(5, 3), self.square]
        return made(CountedScan(body, 5, 1, 1, reverse), types, x0=np.asarray(count, np.int32))

    def again(self, order: int) -> Control:
        """The gradient of a gradient of a loop."""
        given, outputs, known, _ = self.scan(0, 2)
        value = build.reduce(build.mul(outputs[0], outputs[0]), "add")
        one = build.constant(1.0, self.dtype)
        for number in range(order - 1):
            found = linearize([value], given).transposed([one])
            value = build.reduce(build.mul(found[number], build.exp(found[number])), "add")
        return Control(given, [value], known, 2e-5)

    def every(self) -> Iterator[tuple[str, Control]]:
        """All of them, by name."""
        choices = itertools.product(range(6), (0, 1, None), (False, True))
        for case, length, reverse in choices:
            yield f"scan {case} {length} {reverse}", self.scan(case, length, reverse)
        for kept, reverse in itertools.product((1, 2, 9), (False, True)):
            yield f"scan that keeps every {kept} {reverse}", self.scan(0, 5, reverse, kept)
        yield "scan in scan", self.nested()
        for number in (0, 1, 2, 7, -1):
            yield f"cond {number}", self.cond(number)
        yield "call twice", self.called_twice()
        for most in (0, 1, 3, 50):
            yield f"while {most}", self.bounded_while(most)
        for count, reverse in itertools.product((-1, 0, 3, 9), (False, True)):
            yield f"counted scan {count} {reverse}", self.counted_scan(count, reverse)
        for order in (2, 3):
            yield f"gradient of a gradient {order}", self.again(order)
