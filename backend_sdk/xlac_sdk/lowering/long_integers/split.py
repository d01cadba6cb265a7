"""Rewrites a kernel for a target without 64-bit integers.

    kernel = split_long_integers(kernel, target)

Indices, loop counters and the kernel's sizes become i32, with bounds of what is computed from them:
a launch with a size beyond 2^30, and a kernel with a buffer of more words, are refused. Every other
64-bit integer is two u32, the lower one first, as in memory; buffers of them have twice as many
elements. An upper word is only computed where something depends on it.

The kernel has been legalized for the same target with these types (`with_long_integers`), so few
primitives are left, and is in its form of loops or blocks already. What it becomes is legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Assign,
    Await,
    Barrier,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    LoopKind,
    Prefetch,
    Ramp,
    Stmt,
    Store,
    TensorMap,
    Var,
    names,
)
from xlac_sdk.kernel_ir.ranges import fits
from xlac_sdk.lowering.long_integers import arithmetic
from xlac_sdk.lowering.long_integers.expressions import SplitExpressions
from xlac_sdk.lowering.long_integers.words import (
    I32,
    INT,
    LONG,
    U32,
    LongInteger,
    P,
    int_var,
    retyped,
)
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.support.unused_names import unused_name
from xlac_sdk.target import MOST_ELEMENTS, Target

EXPANDED = (P.POW, P.ABS)  # by `legalize`, before integers are split


def with_long_integers(target: Target) -> Target:
    """The target with 64-bit integers, for which kernels are legalized before they are split."""
    lacks = {pair for pair in target.lacks if pair[1] not in LONG}
    lacks |= {(primitive, dtype) for primitive in EXPANDED for dtype in LONG}
    return replace(target, dtypes=target.dtypes | LONG, lacks=frozenset(lacks))


def split_long_integers(kernel: Kernel, target: Target) -> Kernel:
    """An equivalent kernel without 64-bit integers. Raises UnsupportedError for atomic operations
    on them, for buffers of more than 2^30 words, and for hand-written functions, which take them.
    """
    return _Splitter(kernel, target).run()


class _Splitter(SplitExpressions):
    """Rewrites the statements of one kernel."""

    def run(self) -> Kernel:
        kernel = self.kernel
        self.taken = names(kernel)
        parameters = tuple(map(self._stored, kernel.parameters))
        sizes = []
        for var in kernel.sizes:
            low, high = max(var.low or 0, -MOST_ELEMENTS), MOST_ELEMENTS
            high = high if var.high is None else min(var.high, high)
            made = Var(var.name, I32, 1, low, high, var.multiple)
            sizes.append(made)
            self.names[var.name] = LongInteger.of_int(self.m, made, (low, high))
        body = self._block(kernel.body)
        return replace(kernel, parameters=parameters, sizes=tuple(sizes), body=body)

    def _stored(self, buffer: Buffer) -> Buffer:
        held = self._buffer(buffer)
        if isinstance(held.size, int) and held.size > MOST_ELEMENTS:
            _refuse(self.target, f"a buffer of {held.size:,} elements of {held.dtype}")
        return held

    # ---- statements --------------------------------------------------------------------------

    def _block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        result: list[Stmt] = []
        for stmt in body:
            self._forget()
            made = [*self._stmt(stmt)]
            result += [*self.m.take(), *made]
        return tuple(result)

    def _stmt(self, stmt: Stmt) -> Iterator[Stmt]:
        """The rewritten statement. What the writer collects meanwhile precedes it."""
        match stmt:
            case For():
                yield from self._for(stmt)
            case If(condition=condition, then=then, otherwise=otherwise):
                new, before = self._plain(condition), self.m.take()
                made = If(new, self._block(then), self._block(otherwise))
                yield from (*before, made)
            case Let(var=var, value=value) if var.dtype in LONG:
                yield from self._let(var, self._long(value), stmt.mutable)
            case Let(value=value):
                yield replace(stmt, value=self._plain(value))
            case Assign(var=var, value=value) if var.dtype in LONG:
                known, new_value = self.names[var.name], self._long(value)
                words = new_value.low, new_value.high  # both, before either is assigned
                for old, word in zip((known.low, known.high), words, strict=True):
                    assert isinstance(old.expr, Var)
                    yield Assign(old.expr, word.expr)
            case Assign(value=value):
                yield replace(stmt, value=self._plain(value))
            case Store():
                yield from self._store(stmt)
            case Allocate(buffer=buffer):
                yield Allocate(self._stored(buffer))
            case Prefetch(buffer=buffer, index=index):
                held, at = self._buffer(buffer), self._index(index)
                at = at if held is buffer else self._at(at, 1, 0)
                yield replace(stmt, buffer=held, index=at)
            case Instruction():
                yield self._instruction(stmt)
            case Await(condition=condition):
                condition = self._plain(condition)
                if self.m.statements:
                    _refuse(self.target, "way to await 64-bit integers")
                yield Await(condition)
            case Barrier():
                yield stmt

    def _for(self, stmt: For) -> Iterator[Stmt]:
        """A loop with an i32 counter. Bounds that may be beyond are cut to the i32 nearest: a loop
        of so many turns does not end.
        """
        counter, start, stop = stmt.counter, stmt.start, stmt.stop
        before: list[Stmt] = []
        first_of_body: tuple[Stmt, ...] = ()
        if stmt.kind in (LoopKind.PARALLEL, LoopKind.BLOCK):
            # the host computes how many there are, by the kernel's sizes
            start, stop = retyped(start), retyped(stop)
            counter = int_var(counter)
            ends = (counter.low or 0, INT[1] if counter.high is None else counter.high)
            self.names[counter.name] = LongInteger.of_int(self.m, counter, ends)
        elif counter.dtype in LONG:
            first, last = self._long(start), self._long(stop)
            if self._counts_far(first, last):
                before, counter, stop, first_of_body = self._distance(counter, first, last)
                start = Const(0, I32)
            else:
                counter, held = self._counter(stmt, first, last)
                start, stop = self._cut(first), self._cut(last)
                before = self.m.take()
                self.names[counter.name] = held
        else:
            start, stop = self._plain(start), self._plain(stop)
            before = self.m.take()
        body = (*first_of_body, *self._block(stmt.body))
        yield from (*before, replace(stmt, counter=counter, start=start, stop=stop, body=body))

    def _counts_far(self, first: LongInteger, last: LongInteger) -> bool:
        """Whether a loop of few turns may reach beyond an i32."""
        if first.narrow is not None and last.narrow is not None:
            return False
        return first.bounds is None or first.bounds[1] > MOST_ELEMENTS

    def _distance(
        self, counter: Var, first: LongInteger, last: LongInteger
    ) -> tuple[list[Stmt], Var, Expr, tuple[Stmt, ...]]:
        """A loop between 64-bit numbers: what precedes it, the distance from its start as the
        counter, and where that ends, and the names of the number itself in its body.
        """
        m = self.m
        start = LongInteger.of_words(first.low, first.high)
        empty = ~arithmetic.less(m, start, last, counter.dtype)
        count = arithmetic.sub(m, last, start)
        whole = m.select(count.high.eq(0), count.low, 0xFFFFFFFF).cast(I32)
        most = m.select(whole < 0, whole.like(INT[1]), whole)
        stop = m.select(empty, whole.like(0), most).expr
        before = m.take()
        distance = Var(unused_name(f"{counter.name}_distance", self.taken), I32, 1, 0)
        number = arithmetic.add(m, start, LongInteger.of_int(m, distance, (0, INT[1])))
        lets = (*self._let(replace(counter, low=None, high=None), number, False),)
        return before, distance, stop, (*m.take(), *lets)

    def _counter(self, stmt: For, first: LongInteger, last: LongInteger) -> tuple[Var, LongInteger]:
        """The counter as an i32, with the bounds that are known of it."""
        for end in (stmt.start, stmt.stop):
            if isinstance(end, Const) and not fits((int(end.value),) * 2, I32):
                _refuse(self.target, f"loop to {int(end.value):,}")
        low, high = stmt.counter.low, stmt.counter.high
        if low is None:
            low = first.bounds[0] if first.bounds else INT[0]
        if high is None:
            high = last.bounds[1] - 1 if last.bounds else INT[1]
        low, high = max(low, INT[0]), min(high, INT[1])
        counter = int_var(stmt.counter)
        return counter, LongInteger.of_int(self.m, counter, (low, max(low, high)))

    def _cut(self, end: LongInteger) -> Expr:
        """A bound of a loop as the nearest i32."""
        if end.narrow is not None:
            return end.narrow
        m = self.m
        whole = end.low.cast(I32)
        upper = end.high.cast(I32)
        beyond = m.select(upper < 0, whole.like(INT[0]), whole.like(INT[1]))
        return m.select(upper.eq(whole >> 31), whole, beyond).expr

    def _let(self, var: Var, value: LongInteger, mutable: bool) -> Iterator[Stmt]:
        """A name for an i32 or for two words."""
        low, high = var.low, var.high
        known = low is not None and high is not None and fits((low, high), I32)
        if not mutable and (value.narrow is not None or known):
            named = int_var(var)
            bounds = value.bounds or INT
            if low is not None and high is not None and known:
                bounds = max(low, bounds[0]), min(high, bounds[1])
            self.names[var.name] = LongInteger.of_int(self.m, named, bounds)
            yield Let(named, value.index)
            return
        words = value.low, value.high
        made = []
        for word, part in zip(words, ("low", "high"), strict=True):
            one = Var(unused_name(f"{var.name}_{part}", self.taken), U32, var.lanes)
            made.append(Value(self.m, one))
            yield Let(one, word.expr, mutable)
        self.names[var.name] = LongInteger.of_words(*made)

    def _store(self, stmt: Store) -> Iterator[Stmt]:
        """A store; one of a 64-bit integer stores two words, computed before either is stored."""
        index, m = self._index(stmt.index), self.m
        mask = None if stmt.mask is None else self._plain(stmt.mask)
        if stmt.value.dtype not in LONG:
            yield replace(stmt, index=index, value=self._plain(stmt.value), mask=mask)
            return
        if stmt.atomic is not None:
            _refuse(self.target, f"atomic '{stmt.atomic.value}' of {stmt.value.dtype}")
        value = self._long(stmt.value)
        words = value.low, value.high
        mask = None if mask is None else m.value(mask).expr
        if isinstance(index, Ramp):
            index = replace(index, base=m.value(index.base).expr)
        else:
            index = m.value(index).expr
        held = self._buffer(stmt.buffer)
        for which, word in enumerate(words):
            at = self._at(index, stmt.value.lanes, which)
            yield replace(stmt, buffer=held, index=at, value=word.expr, mask=mask, align=0)

    def _instruction(self, stmt: Instruction) -> Instruction:
        """An instruction, whose operands are i32 where they were 64-bit integers. For one that the
        target lacks, only the meaning is kept.
        """
        given: list[Expr | Buffer | TensorMap] = []
        if stmt.code is not None:
            _refuse(self.target, "hand-written functions, which take 64-bit sizes")
        for one in stmt.operands if stmt.name in self.target.instructions else ():
            if isinstance(one, TensorMap):
                _refuse(self.target, f"instruction '{stmt.name}'")
            given.append(self._buffer(one) if isinstance(one, Buffer) else self._operand(stmt, one))
        before = self.m.take()
        meaning = self._block(stmt.meaning)
        self.m.statements += before
        return replace(stmt, operands=tuple(given), meaning=meaning)

    def _operand(self, stmt: Instruction, expr: Expr) -> Expr:
        made = self._split(expr)
        if not isinstance(made, LongInteger):
            return made
        if made.narrow is None:
            _refuse(self.target, f"instruction '{stmt.name}' on 64-bit integers")
        return made.narrow


def _refuse(target: Target, what: str) -> NoReturn:
    """Raises UnsupportedError."""
    problem = f"target '{target.name}' has no 64-bit integers, and so no {what}"
    raise UnsupportedError(Diagnostic("XL5010", problem, hint="another target"))
