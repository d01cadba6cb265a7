"""Loops that data ends, within a bound: a while of at most `max` steps, and a scan of which so many
steps run as a value says. Both have gradients; both are, in the end, loops of the other kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, bounds, static
from xlac.ir.graph import Graph, Node, apply, pick, zeros
from xlac.ir.op import Array, ShapeError, declare
from xlac.ir.types import Type, Types
from xlac.ops.checks import check_scalar, several
from xlac.ops.control import bodies
from xlac.ops.control.control import Scan, While, alone
from xlac_sdk.dtypes import DType

COUNT = DType.I32
MOST = np.iinfo(COUNT.numpy).max


@declare
class BoundedWhile(Composite):
    """Runs `body` on the carried values as long as `cond` of them is true, at most `max` times.

    The body takes the carried values and gives the new ones, then what the step yields. The results
    are the last carried values, how many steps there were (i32), and the yields stacked along a new
    axis 0 of `max`: zeros where no step was. A checked program reports a loop that `max` ended.
    """

    mnemonic = "bounded_while"
    operands = ("*carry",)
    cond: Graph | None = None
    body: Graph | None = None
    max: Dim = 0

    def infer(self, *types: Type) -> Types:
        if self.cond is None or self.body is None:
            raise ShapeError("bounded_while needs a condition and a body", attribute="body")
        _check_length(self.max, "max")
        bodies.check(self.mnemonic, self.cond, types, [Type(DType.BOOL)], "cond")
        bodies.check(self.mnemonic, self.body, types)
        gives = bodies.outputs(self.body)
        _check_carry(self.mnemonic, types, gives)
        return several([*types, Type(COUNT), *_stacked(gives[len(types) :], self.max)])

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        assert self.cond is not None and self.body is not None and isinstance(self.max, int)
        carry, taken = list(arrays), 0
        rows = _Stacks(bodies.outputs(self.body)[len(arrays) :], self.max)
        while taken < self.max and bool(bodies.run(self.cond, carry)[0]):
            results = bodies.run(self.body, carry)
            carry = results[: len(arrays)]
            rows.write(taken, results[len(arrays) :])
            taken += 1
        return alone([*carry, np.asarray(taken, COUNT.numpy), *rows.arrays])

    def loop(self, *inputs: Node) -> Node:
        """The while loop that this is: it gives the results, in their order."""
        assert self.cond is not None and self.body is not None
        count = len(inputs)
        yields = list(self.body.outputs.values())[count:]
        number = apply("param", name="count", type=Type(COUNT))
        buffers = [_buffer(n, y.type, self.max) for n, y in enumerate(yields)]
        (holds,) = self.cond.outputs.values()
        below = apply("compare", number, size(self.max), direction="lt")
        test = Graph(
            self.cond.name,
            (*self.cond.inputs, number, *buffers),
            {"y0": apply("and", holds, below)},
        )
        next_ = [
            *list(self.body.outputs.values())[:count],
            apply("add", number, _number(1)),
            *(_written(b, y, number) for b, y in zip(buffers, yields, strict=True)),
        ]
        step = _graph(self.body.name, [*self.body.inputs, number, *buffers], next_)
        return Node.of(While(test, step), *inputs, _number(0), *(zeros(b.type) for b in buffers))

    def expand(self, *inputs: Node) -> tuple[Node, ...]:
        if self.max == 0:
            return _nothing(inputs, self.infer(*(i.type for i in inputs)))
        loop = self.loop(*inputs)
        return tuple(pick(loop, n) for n in range(len(loop.results)))

    def bodies(self) -> Sequence[Any]:
        return tuple(graph for graph in (self.cond, self.body) if graph is not None)


@declare
class CountedScan(Composite):
    """A scan of whose `length` steps only the first `count` run.

    Operands are the count (i32), then those of `scan`; the results are those of `scan`, zeros where
    no step was. `reverse` goes from the last step that runs to the first.
    """

    mnemonic = "counted_scan"
    operands = ("count", "*args")
    body: Graph | None = None
    length: Dim = 0
    carries: int = 0
    scanned: int = 0
    reverse: bool = False

    def infer(self, *types: Type) -> Types:
        count, *args = types
        check_scalar(self.mnemonic, count, 0)
        if count.dtype is not COUNT:
            raise ShapeError(f"the number of steps is i32[], got {count}", operand=0)
        _check_length(self.length, "length")
        return self.whole().infer(*args)

    def whole(self) -> Scan:
        """The scan of all steps."""
        return Scan(self.body, self.length, self.carries, self.scanned, self.reverse)

    def parts(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        """What the body takes as carried, scanned and the rest."""
        return self.whole().parts(values)

    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        assert self.body is not None and isinstance(self.length, int)
        count, *args = arrays
        first, xs, rest = self.parts(args)
        carry = list(first)
        rows = _Stacks(bodies.outputs(self.body)[self.carries :], self.length)
        steps = range(max(0, min(int(count), self.length)))
        for step in reversed(steps) if self.reverse else steps:
            results = bodies.run(self.body, [*carry, *(x[step] for x in xs), *rest])
            carry = results[: self.carries]
            rows.write(step, results[self.carries :])
        return alone([*carry, *rows.arrays])

    def expand(self, *inputs: Node) -> Node | tuple[Node, ...]:
        first = self.parts(inputs[1:])[0]
        if self.length == 0:
            return _nothing(first, self.infer(*(i.type for i in inputs)))
        loop = self.loop(*inputs)
        start = len(first) + 1  # behind the counter
        kept = [*range(len(first)), *range(start, start + self.yields())]
        results = tuple(pick(loop, n) for n in kept)
        return results if len(results) > 1 else results[0]

    def loop(self, *inputs: Node) -> Node:
        """The while loop that this is: it gives the carried values, a count, the stacks, and what
        it was given besides.
        """
        assert self.body is not None
        count, *args = inputs
        first, xs, rest = self.parts(args)
        most = apply("min", count, size(self.length))
        carry, _, others = self.parts(self.body.inputs)
        number, limit = (apply("param", name=n, type=Type(COUNT)) for n in ("count", "steps"))
        whole = [apply("param", name=f"whole{n}", type=x.type) for n, x in enumerate(xs)]
        at = number
        if self.reverse:
            at = apply("sub", apply("sub", limit, _number(1)), number)
        known = dict(
            zip(self.parts(self.body.inputs)[1], (_slice(x, at) for x in whole), strict=True)
        )
        gives = list(replaced(self.body, known).outputs.values())
        yields = gives[self.carries :]
        buffers = [_buffer(n, y.type, self.length) for n, y in enumerate(yields)]
        params = [*carry, number, *buffers, limit, *whole, *others]
        below = apply("compare", number, limit, direction="lt")
        test = _graph(f"{self.body.name}_goes_on", params, [below])
        next_ = [
            *gives[: self.carries],
            apply("add", number, _number(1)),
            *(_written(b, y, at) for b, y in zip(buffers, yields, strict=True)),
            limit,
            *whole,
            *others,
        ]
        return Node.of(
            While(test, _graph(self.body.name, params, next_)),
            *first,
            _number(0),
            *(zeros(b.type) for b in buffers),
            most,
            *xs,
            *rest,
        )

    def yields(self) -> int:
        """How many stacks it gives."""
        assert self.body is not None
        return len(self.body.outputs) - self.carries

    def bodies(self) -> Sequence[Any]:
        return () if self.body is None else (self.body,)


class _Stacks:
    """What steps yield, stacked: zeros until a step writes its row."""

    def __init__(self, types: Sequence[Type], length: int) -> None:
        self.arrays = [np.zeros((length, *static(t.shape)), t.dtype.numpy) for t in types]

    def write(self, row: int, values: Sequence[Array]) -> None:
        """Writes a row of every stack, in the precision of what is computed."""
        for n, value in enumerate(values):
            if value.dtype != self.arrays[n].dtype:  # f64 stands for f32
                self.arrays[n] = self.arrays[n].astype(value.dtype)
            self.arrays[n][row] = value


def size(dim: Dim) -> Node:
    """A size as an i32 scalar, which may be known only when the model runs."""
    if isinstance(dim, int):
        return _number(dim)
    line = apply("iota", shape=(dim,), axis=0, dtype=COUNT)
    return apply("dim_size", line, axis=0)


def replaced(body: Graph, values: Mapping[Node, Node]) -> Graph:
    """A body in which some of its inputs are other values."""
    return body.rewrite(lambda node: values.get(node, node))


def _check_length(length: Dim, name: str) -> None:
    if bounds(length)[0] < 0 or bounds(length)[1] > MOST:
        raise ShapeError(f"{name} is from 0 to {MOST}, got {length}", attribute=name)


def _check_carry(mnemonic: str, carry: Sequence[Type], gives: Sequence[Type]) -> None:
    if tuple(gives[: len(carry)]) != tuple(carry):
        raise ShapeError(
            f"the body of {mnemonic} carries {bodies.listed(carry)}, but gives "
            f"{bodies.listed(gives[: len(carry)])}",
            attribute="body",
        )


def _stacked(types: Sequence[Type], length: Dim) -> list[Type]:
    return [t.with_shape((length, *t.shape)) for t in types]


def _nothing(carry: Sequence[Node], types: Types) -> tuple[Node, ...]:
    """The results where no step can be."""
    rest = types[len(carry) :] if isinstance(types, tuple) else () if carry else (types,)
    return (*carry, *(zeros(t) for t in rest))


def _number(value: int) -> Node:
    return apply("const", value=np.asarray(value, COUNT.numpy))


def _buffer(number: int, row: Type, length: Dim) -> Node:
    return apply("param", name=f"stack{number}", type=row.with_shape((length, *row.shape)))


def _written(buffer: Node, row: Node, at: Node) -> Node:
    """A stack with a row at a place."""
    update = apply("reshape", row, shape=(1, *row.shape))
    return apply("dyn_update", buffer, update, at, *[_number(0)] * row.type.rank)


def _slice(x: Node, at: Node) -> Node:
    """One slice along axis 0."""
    rank = x.type.rank - 1
    row = apply("dyn_slice", x, at, *[_number(0)] * rank, sizes=(1, *x.shape[1:]))
    return apply("reshape", row, shape=x.shape[1:])


def _graph(name: str, inputs: Sequence[Node], outputs: Sequence[Node]) -> Graph:
    return Graph(name, tuple(inputs), {f"y{n}": node for n, node in enumerate(outputs)})
