"""Matrix products as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import FLOATS, NUMBERS, check_dtype, check_one_dtype
from xlac_sdk.dtypes import DType

Ints = tuple[int, ...]


@declare
class Linear(Composite):
    """x @ weight.T + bias over the last axis, with `units` rows of weight.

    Several inputs have a weight each (`weight_0`, `weight_1`, …) and their products are added: that
    is the product of their concatenation. The bias is one for all.
    """

    mnemonic = "linear"
    operands = ("*xs",)
    units: int = 0
    bias: bool = True

    def parameters(self, *types: Type) -> Mapping[str, Type]:
        if not types:
            raise ShapeError("linear needs an input")
        for number, x in enumerate(types):
            if not x.shape:
                raise ShapeError(f"linear needs a last axis to multiply, got {x}", operand=number)
        names = ["weight"] if len(types) == 1 else [f"weight_{n}" for n in range(len(types))]
        found = {
            name: Type(x.dtype, (self.units, x.shape[-1]))
            for name, x in zip(names, types, strict=True)
        }
        return found | ({"bias": Type(types[0].dtype, (self.units,))} if self.bias else {})

    def infer(self, *types: Type) -> Type:
        count = (len(types) - self.bias) // 2
        if count < 1 or 2 * count + self.bias != len(types):
            raise ShapeError(
                f"linear needs as many weights as inputs{' and a bias' if self.bias else ''}, got {len(types)} operands"
            )
        if self.units < 1:
            raise ShapeError(f"linear needs at least 1 unit, got {self.units}", attribute="units")
        xs, learned = types[:count], types[count:]
        for number, x in enumerate(xs):
            check_dtype(self.mnemonic, x, FLOATS, number)
        check_one_dtype(self.mnemonic, types)
        for number, x in enumerate(xs):
            if x.shape[:-1] != xs[0].shape[:-1]:
                raise ShapeError(
                    f"linear needs inputs alike but for the last axis, got {xs[0]} and {x}",
                    operand=number,
                )
        for number, (name, wanted) in enumerate(self.parameters(*xs).items()):
            if learned[number] != wanted:
                raise ShapeError(
                    f"{name} of linear is {wanted}, got {learned[number]}", operand=count + number
                )
        return Type(xs[0].dtype, (*xs[0].shape[:-1], self.units))

    def expand(self, *inputs: Node) -> Node:
        count = (len(inputs) - self.bias) // 2
        dtype = inputs[0].type.dtype
        total: Node | None = None
        for x, weight in zip(inputs[:count], inputs[count:], strict=False):
            part = build.dot(x, weight, ((x.type.rank - 1,), (1,)), out_dtype=dtype.compute)
            total = part if total is None else build.add(total, part)
        assert total is not None
        if self.bias:
            total = build.add(total, build.compute(inputs[-1]))
        return build.cast(total, dtype)

    def evaluate(self, *arrays: Array) -> Array:
        count = (len(arrays) - self.bias) // 2
        wide = [numeric.widen(a) for a in arrays]
        total = sum(np.matmul(x, w.T) for x, w in zip(wide[:count], wide[count:], strict=False))
        return numeric.narrow(total + wide[-1] if self.bias else total, arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def case(
            shapes: Sequence[Ints], units: int, bias: bool = True, dtype: DType = DType.F32
        ) -> Sample:
            xs = [Type(dtype, s) for s in shapes]
            op = cls(units=units, bias=bias)
            return Sample((*xs, *op.parameters(*xs).values()), {"units": units, "bias": bias})

        found = [
            case([(3, 5)], 7), case([(3, 5)], 7, False), case([(5,)], 3), case([(2, 3, 5)], 4), case([(3, 5), (3, 2)], 7), case([(0, 5)], 3),
            case([(3, 0)], 3), case([(1, 64)], 128), case([(33, 65)], 67), case([(3, 5), (3, 2), (3, 1)], 2, False), case([(2, 1, 3, 5)], 1),
        ]  # fmt: skip
        return found + [case([(3, 9)], 5, dtype=d) for d in DType if d in FLOATS]


@declare
class Matmul(Composite):
    """The matrix product of NumPy: the last two axes multiply, axes before them broadcast, vectors
    join in.
    """

    mnemonic = "matmul"
    operands = ("x", "y")

    @classmethod
    def prepare(cls, inputs: Sequence[build.Value]) -> tuple[Node, ...]:
        return tuple(build.as_node(i, build.promoted(inputs)) for i in inputs)

    def infer(self, *types: Type) -> Type:
        x, y = types
        check_dtype(self.mnemonic, x, NUMBERS)
        check_one_dtype(self.mnemonic, types)
        if not x.shape or not y.shape:
            raise ShapeError(
                f"matmul needs at least vectors, got {x} and {y}",
                hint="write * for a product with a number",
            )
        depth = y.shape[-2] if y.rank > 1 else y.shape[0]
        if x.shape[-1] != depth:
            raise ShapeError(
                f"matmul: {x} has rows of {x.shape[-1]}, {y} has columns of {depth}", operand=1
            )
        batch = build.broadcast_shapes([x.shape[:-2], y.shape[:-2]])
        return Type(x.dtype, (*batch, *x.shape[-2:-1], *(y.shape[-1:] if y.rank > 1 else ())))

    def expand(self, *inputs: Node) -> Node:
        x, y = inputs
        result = self.infer(x.type, y.type)
        if y.type.rank <= 2:  # the batch of x is rows
            return build.dot(x, y, ((x.type.rank - 1,), (max(0, y.type.rank - 2),)))
        if x.type.rank == 1:
            return build.reshape(Matmul().expand(build.reshape(x, (1, *x.shape)), y), result.shape)
        batch = build.broadcast_shapes([x.shape[:-2], y.shape[:-2]])
        x = build.broadcast_to(x, (*batch, *x.shape[-2:]))
        y = build.broadcast_to(y, (*batch, *y.shape[-2:]))
        rank = len(batch)
        axes = tuple(range(rank))
        return build.dot(x, y, ((rank + 1,), (rank,)), (axes, axes))

    def evaluate(self, *arrays: Array) -> Array:
        x, y = (numeric.widen(a) for a in arrays)
        with np.errstate(all="ignore"):
            return numeric.narrow(np.matmul(x, y), arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        shapes: list[tuple[Ints, Ints]] = [
            ((3, 5), (5, 7)), ((5,), (5,)), ((5,), (5, 7)), ((3, 5), (5,)), ((2, 3, 5), (5, 7)), ((2, 3, 5), (2, 5, 7)),
            ((1, 3, 5), (4, 5, 7)), ((2, 1, 3, 5), (4, 5, 7)), ((3, 5), (2, 5, 7)), ((5,), (2, 5, 7)), ((2, 3, 5), (5,)),
            ((0, 5), (5, 7)), ((3, 0), (0, 7)), ((65, 33), (33, 67)),
        ]  # fmt: skip
        found = [Sample((Type(DType.F32, a), Type(DType.F32, b)), {}) for a, b in shapes]
        return found + [
            Sample((Type(d, (3, 9)), Type(d, (9, 5))), {}, ("small" if d.is_integer else "normal",))
            for d in DType
            if d in NUMBERS
        ]


@declare
class Einsum(Composite):
    """Einstein's summation: `ij,jk->ik`. Letters that the result lacks are summed; an ellipsis
    stands for batch axes.

    Without `->` the result has the letters that occur once, in alphabetical order.
    """

    mnemonic = "einsum"
    operands = ("*xs",)
    equation: str = ""

    def parse(self, shapes: Sequence[Shape]) -> tuple[list[str], str, dict[str, Dim]]:
        """The letters of each operand and of the result, and their extents; an ellipsis as digits."""
        left, arrow, right = self.equation.replace(" ", "").partition("->")
        parts = left.split(",")
        if len(parts) != len(shapes):
            raise ShapeError(
                f"{self.equation!r} has {len(parts)} operands, got {len(shapes)}",
                attribute="equation",
            )
        wide = 0
        for part, shape in zip(parts, shapes, strict=True):
            plain = part.replace("...", "")
            if not all(c.isascii() and c.isalpha() for c in plain) or part.count("...") > 1:
                raise ShapeError(
                    f"{part!r} in {self.equation!r} is not letters", attribute="equation"
                )
            extra = len(shape) - len(plain)
            if extra < 0 or (extra and "..." not in part):
                raise ShapeError(
                    f"{part!r} in {self.equation!r} does not fit a tensor of rank {len(shape)}",
                    attribute="equation",
                )
            wide = max(wide, extra)
        digits = "0123456789"[:wide]
        inputs = [
            p.replace("...", digits[wide - (len(s) - len(p) + 3) :] if "..." in p else "")
            for p, s in zip(parts, shapes, strict=True)
        ]
        if not arrow:
            once = [
                c
                for c in sorted(set("".join(inputs)))
                if c.isalpha() and "".join(inputs).count(c) == 1
            ]
            right = ("..." if wide else "") + "".join(once)
        output = right.replace("...", digits)
        size: dict[str, Dim] = {}
        for letters, shape in zip(inputs, shapes, strict=True):
            for letter, extent in zip(letters, shape, strict=True):
                if size.setdefault(letter, extent) == 1 and letter.isdigit():
                    size[letter] = extent
                elif size[letter] != extent and not (letter.isdigit() and extent == 1):
                    raise ShapeError(
                        f"{letter!r} in {self.equation!r} is {size[letter]} and {extent}",
                        attribute="equation",
                    )
        if len(set(output)) != len(output) or not set(output) <= set(size):
            raise ShapeError(
                f"the result of {self.equation!r} needs letters of the operands, each once",
                attribute="equation",
            )
        return inputs, output, size

    def infer(self, *types: Type) -> Type:
        if not types:
            raise ShapeError("einsum needs an operand")
        check_dtype(self.mnemonic, types[0], NUMBERS)
        check_one_dtype(self.mnemonic, types)
        _, output, size = self.parse([x.shape for x in types])
        return Type(types[0].dtype, tuple(size[c] for c in output))

    def expand(self, *inputs: Node) -> Node:
        letters, output, size = self.parse([x.shape for x in inputs])
        found = [_diagonal(build.compute(x), text) for x, text in zip(inputs, letters, strict=True)]
        value, text = found[0]
        for number in range(1, len(found)):
            later = set(output).union(*(t for _, t in found[number + 1 :]))
            value, text = _contract((value, text), found[number], later)
        value, text = _summed(value, text, set(output))
        value = build.transpose(value, [text.index(c) for c in output if c in text])
        return build.cast(
            build.spread(
                value,
                tuple(size[c] for c in output),
                [output.index(c) for c in output if c in text],
            ),
            inputs[0].type.dtype,
        )

    def evaluate(self, *arrays: Array) -> Array:
        wide = [numeric.widen(a) for a in arrays]
        with np.errstate(all="ignore"):
            return numeric.narrow(np.einsum(self.equation, *wide), arrays[0].dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cases: list[tuple[str, tuple[Ints, ...]]] = [
            ("ij,jk->ik", ((3, 5), (5, 7))), ("ij,jk", ((3, 5), (5, 7))), ("bij,bjk->bik", ((2, 3, 5), (2, 5, 7))), ("ij->ji", ((3, 5),)),
            ("ij->", ((3, 5),)), ("ii->i", ((4, 4),)), ("ii", ((4, 4),)), ("i,j->ij", ((3,), (5,))), ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
            ("...ij,...jk->...ik", ((2, 3, 5), (5, 7))), ("ij,ij->i", ((3, 5), (3, 5))), ("ij,jk,kl->il", ((3, 5), (5, 2), (2, 4))),
            ("ij,j->ij", ((0, 5), (5,))), ("ij,kj->ik", ((33, 65), (67, 65))), ("abc,abd->dc", ((2, 3, 4), (2, 3, 5))), ("ij,k->k", ((3, 5), (2,))),
        ]  # fmt: skip
        found = [
            Sample(tuple(Type(DType.F32, s) for s in shapes), {"equation": e})
            for e, shapes in cases
        ]
        return found + [
            Sample(
                (Type(d, (3, 9)), Type(d, (9, 5))),
                {"equation": "ij,jk->ik"},
                ("small" if d.is_integer else "normal",),
            )
            for d in DType
            if d in NUMBERS
        ]


def _diagonal(x: Node, text: str) -> tuple[Node, str]:
    """An operand that names no axis twice: repeated letters keep their diagonal. Unit ellipsis axes
    go.
    """
    while len(set(text)) != len(text):
        letter = next(c for c in text if text.count(c) > 1)
        a, b = [k for k, c in enumerate(text) if c == letter][:2]
        same = build.compare(build.iota(x.shape, a), "eq", build.iota(x.shape, b))
        x = build.reduce(build.select(same, x, 0), "add", b)
        text = text[:b] + text[b + 1 :]
    unit = [k for k, c in enumerate(text) if c.isdigit() and x.shape[k] == 1]
    kept = [k for k in range(len(text)) if k not in unit]
    return build.reshape(x, [x.shape[k] for k in kept]), "".join(text[k] for k in kept)


def _summed(x: Node, text: str, needed: set[str]) -> tuple[Node, str]:
    """Letters that nobody needs any more, summed."""
    gone = [k for k, c in enumerate(text) if c not in needed]
    return build.reduce(x, "add", gone), "".join(c for c in text if c in needed)


def _contract(lhs: tuple[Node, str], rhs: tuple[Node, str], later: set[str]) -> tuple[Node, str]:
    (x, a), (y, b) = lhs, rhs
    x, a = _summed(x, a, later | set(b))
    y, b = _summed(y, b, later | set(a))
    shared = [c for c in a if c in b]
    batch, inner = [c for c in shared if c in later], [c for c in shared if c not in later]
    found = build.dot(
        x,
        y,
        ([a.index(c) for c in inner], [b.index(c) for c in inner]),
        ([a.index(c) for c in batch], [b.index(c) for c in batch]),
    )
    return found, "".join([*batch, *(c for c in a if c not in b), *(c for c in b if c not in a)])
