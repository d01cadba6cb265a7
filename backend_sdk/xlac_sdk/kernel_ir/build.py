"""Builds kernel IR: a builder for statements over the expressions of `indexing.py`, `sums.py` and
`bounds.py`, which are re-exported here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import gcd

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.bounds import bounds, multiple
from xlac_sdk.kernel_ir.division import div, divmod_of, mod
from xlac_sdk.kernel_ir.indexing import (
    Number,
    add,
    apply,
    cast,
    index,
    lift,
    mul,
    ramp,
    select,
    size_var,
    splat,
    sub,
)
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Apply,
    Assign,
    Await,
    Barrier,
    Buffer,
    Const,
    Expr,
    Fold,
    For,
    If,
    Let,
    Load,
    LoopKind,
    Prefetch,
    Ramp,
    Space,
    Splat,
    Stmt,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.polynomial import greatest
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sums import INDEX, ONE, P, Terms, factors, joined, terms, total
from xlac_sdk.support.limits import count_work

__all__ = [
    "INDEX",
    "ONE",
    "Builder",
    "Number",
    "P",
    "Terms",
    "add",
    "apply",
    "bits",
    "bounds",
    "cast",
    "div",
    "divmod_of",
    "factors",
    "fold",
    "index",
    "joined",
    "lift",
    "load",
    "mod",
    "mul",
    "multiple",
    "ramp",
    "select",
    "size_var",
    "splat",
    "sub",
    "terms",
    "total",
]


class Builder:
    """Collects statements. Nested blocks are Python `with` blocks, so a schedule reads like its
    loop nest.
    """

    def __init__(self) -> None:
        self._blocks: list[list[Stmt]] = [[]]
        self._counts: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """An identifier not used before in this kernel."""
        count = self._counts.get(hint, 0)
        self._counts[hint] = count + 1
        return f"{hint}_{count}" if count else hint

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement to the current block."""
        count_work()
        self._blocks[-1].append(stmt)

    @property
    def open_blocks(self) -> tuple[list[Stmt], ...]:
        """The open blocks, outermost first, by which caches of names tell what is in scope."""
        return tuple(self._blocks)

    def body(self) -> tuple[Stmt, ...]:
        """Everything written so far."""
        assert len(self._blocks) == 1, "a block is still open"
        return tuple(self._blocks[0])

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Collects statements separately; the caller places them."""
        self._blocks.append([])
        yield self._blocks[-1]
        self._blocks.pop()

    @contextmanager
    def loop(
        self,
        hint: str,
        start: Number,
        stop: Number,
        step: int = 1,
        kind: LoopKind = LoopKind.SERIAL,
        grain: int = 1,
    ) -> Iterator[Expr]:
        """A loop; yields its counter. A serial or unrolled loop of exactly one iteration is
        replaced by its body.
        """
        start, stop = lift(start), lift(stop)
        count: int | None = None  # number of iterations, if known
        if isinstance(start, Const) and isinstance(stop, Const):
            count = max(0, -(-(int(stop.value) - int(start.value)) // step))
        if count == 1 and kind in (LoopKind.SERIAL, LoopKind.UNROLLED):
            yield start
            return
        low, high = bounds(start)[0], bounds(stop)[1]
        if count and high is not None and low is not None and high > low:
            high = low + (high - low - 1) // step * step
        elif high is not None:
            high -= 1
        by = gcd(multiple(start), step)
        below = None if isinstance(stop, Const) else stop
        counter = Var(self.fresh(hint), INDEX, low=low, high=high, multiple=by, below=below)
        with self.block() as body:
            yield counter
        if count != 0:
            self.emit(For(counter, start, stop, tuple(body), step, kind, grain))

    def let(self, hint: str, value: Expr) -> Expr:
        """Names a value; constants and names are returned unchanged."""
        if isinstance(value, (Const, Var)):
            return value
        if value.dtype is INDEX:
            low, high = bounds(value)
            by = multiple(value) if value.lanes == 1 else 1
            var = Var(self.fresh(hint), INDEX, value.lanes, low, high, by or 1, _below(value))
        else:
            var = Var(self.fresh(hint), value.dtype, value.lanes)
        self.emit(Let(var, value))
        return var

    def variable(self, hint: str, value: Expr) -> Var:
        """A mutable variable with an initial value."""
        var = Var(self.fresh(hint), value.dtype, value.lanes)
        self.emit(Let(var, value, mutable=True))
        return var

    def assign(self, var: Var, value: Expr) -> None:
        """Assigns a value to a variable."""
        self.emit(Assign(var, splat(value, var.lanes)))

    def local(self, hint: str, dtype: DType, size: int, space: Space = Space.LOCAL) -> Buffer:
        """A local or shared buffer of `size` elements."""
        buffer = Buffer(self.fresh(hint), dtype, size, space)
        self.emit(Allocate(buffer))
        return buffer

    def store(
        self,
        buffer: Buffer,
        at: Number,
        value: Expr,
        mask: Expr | None = None,
        *,
        align: int = 0,
        streaming: bool = False,
        atomic: Primitive | None = None,
    ) -> None:
        """Stores a value. Ramps with constant stride 1 become consecutive stores."""
        where = lift(at)
        if isinstance(where, Ramp) and where.stride == 1:
            value, where = splat(value, where.lanes), where.base
        elif where.lanes > 1:
            value = splat(value, where.lanes)
        self.emit(Store(buffer, where, value, mask, align, streaming, atomic))

    def when(self, condition: Expr) -> _When:
        """A block that runs if the condition holds: `with builder.when(condition):`"""
        return _When(self, condition)

    def barrier(self) -> None:
        """A barrier: every thread of a block arrives before any continues."""
        self.emit(Barrier())

    def wait(self, condition: Expr) -> None:
        """Blocks this thread until a condition, which others make true, holds."""
        self.emit(Await(condition))

    def prefetch(self, buffer: Buffer, at: Number, write: bool = False) -> None:
        """Prefetches memory that will soon be read, or written."""
        self.emit(Prefetch(buffer, lift(at), write))


class _When:
    """`with builder.when(c): …` writes an If."""

    def __init__(self, builder: Builder, condition: Expr) -> None:
        self.builder, self.condition = builder, condition

    def __enter__(self) -> None:
        self._block = self.builder.block()
        self._body = self._block.__enter__()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._block.__exit__(None, None, None)
        if kind is None and self._body:
            self.builder.emit(If(self.condition, tuple(self._body)))


def _below(value: Expr) -> Expr | None:
    """An upper bound (exclusive) of a quotient or remainder as an expression over the kernel's
    sizes, if known.
    """
    match value:
        case Apply(Primitive.DIV | Primitive.REM, (a, b), dtype=DType.I64, lanes=1):
            if not isinstance(b, Const) or any(
                isinstance(f, Var) and f.below for t in terms(a) for f in factors(t)
            ):
                most = greatest(value)
                return None if isinstance(most, Const) else add(most, 1)
    return None


def load(
    buffer: Buffer, at: Number, lanes: int = 1, mask: Expr | None = None, align: int = 0
) -> Expr:
    """Loads elements: consecutive for a stride-1 ramp, gathered for another vector, else one.

    With `lanes > 1` and a scalar index, loads that many consecutive elements.
    """
    where = lift(at)
    if isinstance(where, Splat):
        return (
            Splat(Load(buffer, where.value), where.lanes)
            if mask is None
            else Load(buffer, where, where.lanes, mask)
        )
    if isinstance(where, Ramp) and where.stride == 1:
        return Load(buffer, where.base, where.lanes, mask, align)
    if isinstance(where, Const) and where.lanes > 1 and mask is None:
        return Splat(Load(buffer, index(int(where.value))), where.lanes)
    return Load(buffer, where, max(lanes, where.lanes), mask, align)


def bits(value: Expr, dtype: DType) -> Expr:
    """All bits of a vector, or of a scalar, as lanes of another type, the lowest first."""
    if value.dtype is dtype:
        return value
    lanes = value.lanes * value.dtype.bits // dtype.bits
    return Apply(Primitive.BITCAST, (value,), dtype, lanes)


def fold(primitive: Primitive, value: Expr) -> Expr:
    """The lanes of a vector combined; a scalar is returned unchanged."""
    return value if value.lanes == 1 else Fold(primitive, value)
