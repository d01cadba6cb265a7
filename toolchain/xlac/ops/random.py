"""Counter-based random generators, in NumPy and as kernel expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac.ir.dims import Dim, Shape, ceil_div, divisor, static, volume
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.source import Diagnostic, UnsupportedError

P = Primitive
U32, U64 = DType.U32, DType.U64


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A generator whose `state` words of 64 bits hold the key and counter; a block has `words`
    words of 32 bits.
    """

    state: int
    words: int


ALGORITHMS = {"threefry": Algorithm(2, 2), "philox": Algorithm(3, 4)}

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
PHILOX_KEYS = (0x9E3779B9, 0xBB67AE85)


class Numbers:
    """32-bit arithmetic on NumPy arrays."""

    def constant(self, value: int) -> Any:
        """A constant of 32 bits."""
        return np.uint32(value)

    def add(self, a: Any, b: Any) -> Any:
        """The sum, which wraps around."""
        return a + b

    def xor(self, a: Any, b: Any) -> Any:
        """The exclusive or."""
        return a ^ b

    def rotate(self, a: Any, by: int) -> Any:
        """Bits rotated to the left."""
        return (a << np.uint32(by)) | (a >> np.uint32(32 - by))

    def product(self, a: Any, factor: int) -> tuple[Any, Any]:
        """The high and the low 32 bits of a product."""
        wide = a.astype(np.uint64) * np.uint64(factor)
        return (wide >> np.uint64(32)).astype(np.uint32), wide.astype(np.uint32)


class Exprs:
    """32-bit arithmetic on kernel expressions.

    `name` binds a value to a name: without it, a cipher of twenty rounds would be a tree of
    exponential size.
    """

    def __init__(self, name: Callable[[str, Expr], Expr]) -> None:
        self.name = name

    def constant(self, value: int) -> Expr:
        """A constant of 32 bits."""
        return Const(value, U32)

    def add(self, a: Expr, b: Expr) -> Expr:
        """The sum, which wraps around."""
        return self.name("x", build.apply(P.ADD, a, b))

    def xor(self, a: Expr, b: Expr) -> Expr:
        """The exclusive or."""
        return self.name("x", build.apply(P.XOR, a, b))

    def rotate(self, a: Expr, by: int) -> Expr:
        """Bits rotated to the left."""
        up, down = build.apply(P.SHL, a, Const(by, U32)), build.apply(P.SHR, a, Const(32 - by, U32))
        return self.name("x", build.apply(P.OR, up, down))

    def product(self, a: Expr, factor: int) -> tuple[Expr, Expr]:
        """The high and the low 32 bits of a product."""
        wide = self.name("wide", build.apply(P.MUL, build.cast(a, U64), Const(factor, U64)))
        return build.cast(build.apply(P.SHR, wide, Const(32, U64)), U32), build.cast(wide, U32)


def threefry(key: Sequence[Any], counter: Sequence[Any], on: Numbers | Exprs) -> tuple[Any, ...]:
    """Threefry-2x32 with 20 rounds."""
    keys = (key[0], key[1], on.xor(on.xor(key[0], key[1]), on.constant(PARITY)))
    x, y = on.add(counter[0], keys[0]), on.add(counter[1], keys[1])
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            x = on.add(x, y)
            y = on.xor(on.rotate(y, by), x)
        x = on.add(x, keys[(group + 1) % 3])
        y = on.add(on.add(y, keys[(group + 2) % 3]), on.constant(group + 1))
    return x, y


def philox(key: Sequence[Any], counter: Sequence[Any], on: Numbers | Exprs) -> tuple[Any, ...]:
    """Philox-4x32 with 10 rounds."""
    a, b, c, d = counter
    k0, k1 = key
    for round_ in range(10):
        if round_:
            k0, k1 = (
                on.add(k0, on.constant(PHILOX_KEYS[0])),
                on.add(k1, on.constant(PHILOX_KEYS[1])),
            )
        high0, low0 = on.product(a, PHILOX_FACTORS[0])
        high1, low1 = on.product(c, PHILOX_FACTORS[1])
        a, b, c, d = on.xor(on.xor(high1, b), k0), low1, on.xor(on.xor(high0, d), k1), low0
    return a, b, c, d


def _halves(value: NDArray[np.uint64]) -> tuple[Any, Any]:
    return value.astype(np.uint32), (value >> np.uint64(32)).astype(np.uint32)


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a result as [outer, count, inner]: a block's `each` elements are adjacent along
    the middle axis.

    Blocks are numbered row-major over [outer, steps, inner]; surplus elements of those at the end
    of the middle axis are dropped.
    """

    outer: Dim
    count: Dim
    inner: Dim
    each: int

    @property
    def steps(self) -> Dim:
        """The number of blocks along the middle axis."""
        return ceil_div(self.count, self.each)

    @property
    def whole(self) -> bool:
        """Whether no block has surplus elements, whatever the sizes."""
        return divisor(self.count) % self.each == 0

    @property
    def blocks(self) -> Dim:
        """The number of blocks."""
        return self.outer * self.steps * self.inner


def layout(algorithm: str, shape: Shape, dtype: DType) -> Layout:
    """The layout of blocks in a result. Philox fills the result in order; so does threefry in 64
    bits, and wherever that gives the same; otherwise its two words are adjacent along the first
    axis of even extent, else along the longest. Raises UnsupportedError where this depends on open
    sizes.
    """
    each = ALGORITHMS[algorithm].words // (2 if dtype is U64 else 1)
    if algorithm == "threefry" and each == 2 and len(shape) > 1:
        if not all(isinstance(n, int) for n in shape):
            problem = (
                "threefry orders its words by which sizes are even, and "
                f"{list(map(str, shape))} has open ones"
            )
            hint = "philox counts elements, and gives the same bits for every size"
            raise UnsupportedError(Diagnostic("XL5010", problem, hint=hint))
        sizes = static(shape)
        even = (a for a, n in enumerate(sizes) if n % 2 == 0)
        axis = next(even, max(range(len(sizes)), key=lambda a: sizes[a]))
        outer, inner = prod(sizes[:axis]), prod(sizes[axis + 1 :])
        if inner != 1 or sizes[axis] % 2:
            return Layout(outer, sizes[axis], inner, each)
    return Layout(1, volume(shape), 1, each)


def words(algorithm: str, state: NDArray[Any], blocks: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The next state, and the 32-bit words of the first blocks, one row per block."""
    state = state.astype(np.uint64)
    with np.errstate(over="ignore"):
        key = _halves(state[0])
        low = state[1] + np.arange(blocks, dtype=np.uint64)
        new = state.copy()
        new[1] = state[1] + np.uint64(blocks)
        if algorithm == "threefry":
            parts = threefry(key, _halves(low), Numbers())
        else:
            high = state[2] + (low < state[1]).astype(np.uint64)
            new[2] = state[2] + np.uint64(new[1] < state[1])
            parts = philox(key, (*_halves(low), *_halves(high)), Numbers())
    return new, np.stack(parts, axis=-1).astype(np.uint32)


def block(
    algorithm: str, number: Expr, state: Callable[[int], Expr], name: Callable[[str, Expr], Expr]
) -> tuple[Expr, ...]:
    """The words of one block in a kernel: `state(i)` reads the state, `name` is `Builder.let`."""
    on = Exprs(name)

    def halves(value: Expr) -> tuple[Expr, Expr]:
        return build.cast(value, U32), build.cast(build.apply(P.SHR, value, Const(32, U64)), U32)

    first = name("counter", state(1))
    low = name("low", build.apply(P.ADD, first, build.cast(number, U64)))
    key = tuple(name("key", half) for half in halves(state(0)))
    if algorithm == "threefry":
        return threefry(key, tuple(name("c", half) for half in halves(low)), on)
    high = name(
        "high", build.apply(P.ADD, state(2), build.cast(build.apply(P.LT, low, first), U64))
    )
    return philox(key, tuple(name("c", half) for half in (*halves(low), *halves(high))), on)


def advance(algorithm: str, blocks: Dim, state: Callable[[int], Expr]) -> tuple[Expr, ...]:
    """The words of the state after a kernel has used `blocks` blocks."""
    used = Const(blocks, U64) if isinstance(blocks, int) else build.cast(build.lift(blocks), U64)
    counter = build.apply(P.ADD, state(1), used)
    if algorithm == "threefry":
        return state(0), counter
    carry = build.cast(build.apply(P.LT, counter, state(1)), U64)
    return state(0), counter, build.apply(P.ADD, state(2), carry)
