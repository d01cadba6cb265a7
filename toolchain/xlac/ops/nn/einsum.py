"""Einstein's summation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node
from xlac.ir.op import Array, Sample, ShapeError, declare
from xlac.ir.types import Type
from xlac.ops import build, numeric
from xlac.ops.checks import NUMBERS, check_dtype, check_one_dtype
from xlac.ops.nn.linear import Ints
from xlac_sdk.dtypes import DType


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
        """The letters of each operand and of the result, with extents; the axes of an ellipsis are
        named by digits.
        """
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
        terms = [_diagonal(build.compute(x), text) for x, text in zip(inputs, letters, strict=True)]
        value, text = terms[0]
        for number in range(1, len(terms)):
            later = set(output).union(*(t for _, t in terms[number + 1 :]))
            value, text = _contract((value, text), terms[number], later)
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
            ("ij,jk->ik", ((3, 5), (5, 7))), ("ij,jk", ((3, 5), (5, 7))),
            ("bij,bjk->bik", ((2, 3, 5), (2, 5, 7))), ("ij->ji", ((3, 5),)), ("ij->", ((3, 5),)),
            ("ii->i", ((4, 4),)), ("ii", ((4, 4),)), ("i,j->ij", ((3,), (5,))),
            ("bhqd,bhkd->bhqk", ((2, 3, 4, 5), (2, 3, 6, 5))),
            ("...ij,...jk->...ik", ((2, 3, 5), (5, 7))), ("ij,ij->i", ((3, 5), (3, 5))),
            ("ij,jk,kl->il", ((3, 5), (5, 2), (2, 4))), ("ij,j->ij", ((0, 5), (5,))),
            ("ij,kj->ik", ((33, 65), (67, 65))), ("abc,abd->dc", ((2, 3, 4), (2, 3, 5))),
            ("ij,k->k", ((3, 5), (2,))),
        ]  # fmt: skip
        samples = [
            Sample(tuple(Type(DType.F32, s) for s in shapes), {"equation": e})
            for e, shapes in cases
        ]
        return samples + [
            Sample(
                (Type(d, (3, 9)), Type(d, (9, 5))),
                {"equation": "ij,jk->ik"},
                ("small" if d.is_integer else "normal",),
            )
            for d in DType
            if d in NUMBERS
        ]


def _diagonal(x: Node, text: str) -> tuple[Node, str]:
    """An operand whose letters are distinct: repeated letters take the diagonal. Unit axes of an
    ellipsis are dropped.
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
    """Sums over letters that are not needed any more."""
    gone = [k for k, c in enumerate(text) if c not in needed]
    return build.reduce(x, "add", gone), "".join(c for c in text if c in needed)


def _contract(lhs: tuple[Node, str], rhs: tuple[Node, str], later: set[str]) -> tuple[Node, str]:
    (x, a), (y, b) = lhs, rhs
    x, a = _summed(x, a, later | set(b))
    y, b = _summed(y, b, later | set(a))
    shared = [c for c in a if c in b]
    batch, inner = [c for c in shared if c in later], [c for c in shared if c not in later]
    product = build.dot(
        x,
        y,
        ([a.index(c) for c in inner], [b.index(c) for c in inner]),
        ([a.index(c) for c in batch], [b.index(c) for c in batch]),
    )
    return product, "".join([*batch, *(c for c in a if c not in b), *(c for c in b if c not in a)])
