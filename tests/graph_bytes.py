"""Random products and convolutions of bytes less zero points, which are exact in i32."""

from __future__ import annotations

from random import Random

import numpy as np
from graph_maker import Case

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.scalar.arithmetic import Add, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.view import Broadcast, Transpose
from xlac_sdk.dtypes import DType

BYTES = (DType.I8, DType.U8)
WIDE = (DType.I16, DType.I16, DType.I32, DType.I32, DType.U16, DType.U32)
DEPTHS = (0, 1, 2, 3, 4, 5, 8, 15, 17, 64, 65)
SIZES = (1, 2, 3, 7, 8, 17, 33)


def make(random: Random) -> Case:
    """One random product."""
    made = _Bytes(random)
    found = made.convolution() if random.random() < 0.5 else made.product()
    return Case(Graph("bytes", tuple(made.params), {"y": found}), made.inputs, made.weights)


class _Bytes:
    """Operands of a product; `convolution` and `product` multiply them."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.numbers = np.random.default_rng(random.randint(0, 2**31))
        self.inputs: dict[str, Array] = {}
        self.weights: dict[str, Array] = {}
        self.params: list[Node] = []
        self.wide = random.choice((None, *WIDE, *WIDE))  # what both operands are cast to

    def leaf(self, kind: str, shape: tuple[int, ...], dtype: DType, beyond: bool = False) -> Node:
        """Numbers of a type: all of bytes, else those of bytes and, where asked, others."""
        info = np.iinfo(dtype.numpy)
        low, high = max(info.min, -40000 if beyond else -128), min(info.max, 255)
        array = self.numbers.integers(low, high, shape, endpoint=True).astype(dtype.numpy)
        if self.random.random() < 0.2:
            array = np.full(shape, low, dtype.numpy)
        if kind == "constant":
            return build.constant(array, dtype)
        store = self.weights if kind == "weight" else self.inputs
        name = f"{kind}{len(store)}"
        store[name] = np.asarray(array)
        node = build.param(name, dtype, shape, kind)
        self.params += [] if kind == "weight" else [node]
        return node

    def operand(self, shape: tuple[int, ...], kind: str, channel: int) -> Node:
        """Bytes less a zero point, as they are or transposed."""
        random, rank = self.random, len(shape)
        order = random.sample(range(rank), rank) if random.random() < 0.25 else list(range(rank))
        before = tuple(shape[order.index(a)] for a in range(rank))
        dtype = random.choice(BYTES)
        x = self.leaf(kind, before, dtype)
        if self.wide is not None:
            x = Node.of(Cast(self.wide), x)
            if random.random() < 0.75:
                x = self.less(x, dtype, kind, order[channel])
        return x if order == sorted(order) else Node.of(Transpose(tuple(order)), x)

    def less(self, x: Node, dtype: DType, kind: str, channel: int) -> Node:
        random, wide, shape = self.random, x.type.dtype, x.shape
        axes = random.choice(((), (), (channel,), (random.randrange(len(shape)),)))
        kinds = ("constant", "constant", "weight", "input" if kind == "input" else "weight")
        held = random.choice((dtype, dtype, wide))
        sizes = tuple(int(shape[a]) for a in axes)
        zero = self.leaf(random.choice(kinds), sizes, held, random.random() < 0.2)
        wider = Node.of(Broadcast(shape, axes), Node.of(Cast(wide), zero))
        operands = (wider, x) if random.random() < 0.2 else (x, wider)
        return Node.of(Add(), *operands) if operands[0] is wider else Node.of(Sub(), *operands)

    def right(self) -> str:
        return self.random.choice(("weight", "constant", "weight", "input"))

    def product(self) -> Node:
        random = self.random
        sizes = {c: random.choice(SIZES) for c in "rstu"} | {"k": random.choice(DEPTHS), "b": 2}
        rows, columns = random.choice(("", "r", "r", "rs")), random.choice(("", "t", "t", "tu"))
        batch = random.choice(("", "", "b"))
        left, right = batch + rows + "k", batch + "k" + columns
        if random.random() < 0.4:
            left, right = ("".join(random.sample(c, len(c))) for c in (left, right))
        x = self.operand(tuple(sizes[c] for c in left), "input", random.randrange(len(left)))
        w = self.operand(tuple(sizes[c] for c in right), self.right(), len(right) - 1)
        if random.random() < 0.2:
            x, w, left, right = w, x, right, left
        at = [tuple(text.index(c) for c in of) for of in (batch, "k") for text in (left, right)]
        return Node.of(Dot(*at, DType.I32), x, w)

    def convolution(self) -> Node:
        random = self.random
        space = random.choice(("H", "H", "HW", "HW", "HWD"))
        groups = random.choice((1, 1, 1, 2, 3))
        inner, outer = random.choice((1, 2, 3, 4, 5, 8)), groups * random.choice((1, 2, 5, 16))
        strides, low, high, spread, apart = (
            tuple(random.choice(of) for _ in space) for of in _CONV
        )
        layout = random.choice(
            (
                (f"N{space}C", f"{space}IO", f"N{space}C"),
                (f"NC{space}", f"OI{space}", f"NC{space}"),
                (f"N{space}C", f"O{space}I", f"NC{space}"),
            )
        )
        of_x = {"N": random.choice((1, 2)), "C": inner * groups}
        of_x |= {c: random.choice((5, 6, 9)) for c in space}
        of_w = {"O": outer, "I": inner} | {c: random.choice((1, 2, 3)) for c in space}
        x = self.operand(tuple(of_x[c] for c in layout[0]), "input", layout[0].index("C"))
        w = self.operand(tuple(of_w[c] for c in layout[1]), self.right(), layout[1].index("O"))
        op = Conv(layout, strides, low, high, spread, apart, groups, 1, DType.I32)
        return Node.of(op, x, w)


_CONV = (1, 1, 2, 3), (0, 0, 1, 2, -1), (0, 0, 1, 2, -1), (1, 1, 1, 1, 2), (1, 1, 2)
"""Strides, padding before and after, and the dilation of x and of the kernel."""
