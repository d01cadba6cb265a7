"""Expressions without 64-bit integers: each is an i32 where that is known to be enough, else two
words.
"""

from __future__ import annotations

from dataclasses import replace

from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Buffer,
    Const,
    Exchange,
    Expr,
    Fold,
    Kernel,
    Load,
    Ramp,
    Shuffle,
    Splat,
    Var,
)
from xlac_sdk.kernel_ir.sharing import operands
from xlac_sdk.lowering.long_integers import conversions
from xlac_sdk.lowering.long_integers.operations import LongOperations
from xlac_sdk.lowering.long_integers.words import I32, LONG, U32, LongInteger, P
from xlac_sdk.lowering.math import FORMS
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer
from xlac_sdk.lowering.unused_prefix import UnusedNames
from xlac_sdk.target import Target

Split = Expr | LongInteger


class SplitExpressions:
    """Rewrites the expressions of one kernel; the writer collects what must precede a statement."""

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel, self.target = kernel, target
        self.m = Writer(target, FORMS, UnusedNames(kernel))
        self.long = LongOperations(self.m)
        self.names: dict[str, LongInteger] = {}  # 64-bit names in scope
        self._memo: dict[int, tuple[Expr, Split]] = {}
        self._buffers: dict[Buffer, Buffer] = {}

    def _forget(self) -> None:
        """Begins another statement: what was computed for the last is not named here."""
        self._memo = {}

    def _buffer(self, buffer: Buffer) -> Buffer:
        """A buffer of 64-bit elements as one of words."""
        if buffer.dtype not in LONG:
            return buffer
        known = self._buffers.get(buffer)
        if known is None:
            size = buffer.size
            words: int | Expr = (
                2 * size
                if isinstance(size, int)
                else Apply(P.MUL, (size, Const(2, size.dtype)), size.dtype)
            )
            known = self._buffers[buffer] = replace(buffer, dtype=U32, size=words)
        return known

    # ---- expressions -------------------------------------------------------------------------

    def _plain(self, root: Expr) -> Expr:
        """An expression of another type."""
        made = self._split(root)
        assert not isinstance(made, LongInteger)
        return made

    def _long(self, root: Expr) -> LongInteger:
        """A 64-bit integer."""
        made = self._split(root)
        assert isinstance(made, LongInteger)
        return made

    def _index(self, root: Expr) -> Expr:
        """An index, or an operand of another type."""
        made = self._split(root)
        return made.index if isinstance(made, LongInteger) else made

    def _split(self, root: Expr) -> Split:
        """Bottom-up without recursion; memoized by identity within a statement."""
        memo, stack = self._memo, [root]
        while stack:
            expr = stack[-1]
            if id(expr) in memo:
                stack.pop()
                continue
            waiting = [o for o in operands(expr) if id(o) not in memo]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            given = tuple(memo[id(o)][1] for o in operands(expr))
            memo[id(expr)] = (expr, self._made(expr, given))
        return memo[id(root)][1]

    def _made(self, expr: Expr, given: tuple[Split, ...]) -> Split:
        if isinstance(expr, Load):
            return self._load(expr, given)
        if expr.dtype in LONG:
            return self._made_long(expr, given)
        plain = tuple(one for one in given if not isinstance(one, LongInteger))
        if len(plain) < len(given):
            assert isinstance(expr, Apply)
            return self._from_long(expr, tuple(g for g in given if isinstance(g, LongInteger)))
        if all(a is b for a, b in zip(plain, operands(expr), strict=True)):
            return expr
        match expr:
            case Apply():
                return replace(expr, operands=plain)
            case Ramp():
                return replace(expr, base=plain[0])
            case Shuffle(picks=picks):
                return Shuffle(plain, picks)
        assert isinstance(expr, Splat | Fold | Exchange)
        return replace(expr, value=plain[0])

    def _load(self, expr: Load, given: tuple[Split, ...]) -> Split:
        index = given[0].index if isinstance(given[0], LongInteger) else given[0]
        mask = given[1] if len(given) > 1 else None
        assert not isinstance(mask, LongInteger)
        if expr.dtype not in LONG:
            same = index is expr.index and mask is expr.mask
            return expr if same else replace(expr, index=index, mask=mask)
        buffer = self._buffer(expr.buffer)

        def word(which: int) -> Value:
            at = self._at(index, expr.lanes, which)
            return self.m.value(Load(buffer, at, expr.lanes, mask))

        return LongInteger.of_loads(self.m, expr.lanes, lambda: word(0), lambda: word(1))

    def _at(self, index: Expr, lanes: int, which: int) -> Expr:
        """The place of the lower (0) or upper (1) word of an element, in words."""
        if isinstance(index, Const) and index.lanes == 1:
            first: Expr = Const(2 * int(index.value) + which, I32)
        elif isinstance(index, Ramp):
            base = self._at(index.base, 1, which)
            return Ramp(base, 2 * index.stride, index.lanes)
        else:
            twice = Apply(P.MUL, (index, Const(2, I32, index.lanes)), I32, index.lanes)
            first = twice
            if which:
                one = Const(1, I32, index.lanes)
                first = Apply(P.ADD, (twice, one), I32, index.lanes)
        return first if index.lanes == lanes else Ramp(first, 2, lanes)

    # ---- 64-bit results ----------------------------------------------------------------------

    def _made_long(self, expr: Expr, given: tuple[Split, ...]) -> LongInteger:
        m = self.m
        match expr:
            case Const(value=value, lanes=lanes):
                return LongInteger.of_number(m, int(value), lanes)
            case Var(name=name):
                known = self.names[name]
                if known.narrow is None or known.bounds is None:
                    return known
                # words that one statement makes of it are not named in others
                return LongInteger.of_int(m, known.narrow, known.bounds)
            case Apply():
                return self._apply(expr, given)
        longs = tuple(one for one in given if isinstance(one, LongInteger))
        narrow = tuple(one.narrow for one in longs if one.narrow is not None)
        bounds = [one.bounds for one in longs if one.bounds is not None]
        whole = len(narrow) == len(longs)
        match expr:
            case Ramp():
                return self.long.ramp(longs[0], expr)
            case Splat(lanes=lanes):
                if whole:
                    return LongInteger.of_int(m, Splat(narrow[0], lanes), bounds[0])
                parts = self.long.words(lambda word: Splat(word, lanes), longs, lanes)
            case Shuffle(picks=picks):
                if whole:
                    low, high = zip(*bounds, strict=True)
                    return LongInteger.of_int(m, Shuffle(narrow, picks), (min(low), max(high)))
                parts = self.long.words(lambda *words: Shuffle(words, picks), longs, len(picks))
            case Exchange(distance=distance):
                # every thread takes part in both: neither is put off
                if whole:
                    return LongInteger.of_int(m, Exchange(narrow[0], distance), bounds[0])
                parts = self.long.words(lambda word: Exchange(word, distance), longs, expr.lanes)
                return LongInteger.of_words(parts.low, parts.high)
            case _:
                assert isinstance(expr, Fold)
                return self.long.fold(expr, longs[0])
        return parts

    def _apply(self, expr: Apply, given: tuple[Split, ...]) -> LongInteger:
        m, primitive = self.m, expr.primitive
        longs = tuple(one for one in given if isinstance(one, LongInteger))
        source = expr.operands[-1].dtype
        if primitive is P.SELECT:
            condition = given[0]
            assert not isinstance(condition, LongInteger)
            return self.long.select(condition, *longs)
        if primitive is P.CAST:
            if longs:
                return conversions.retyped(m, longs[0], expr.dtype)
            (x,) = given
            assert not isinstance(x, LongInteger)
            if not source.is_float:
                return conversions.from_integer(m, x, expr.dtype)
            value = m.value(x)
            wide = value.cast(conversions.F32) if source.is_half else value
            return conversions.from_float(m, wide, expr.dtype)
        if primitive is P.BITCAST:
            if longs:
                return conversions.retyped(m, longs[0], expr.dtype)
            (x,) = given
            assert not isinstance(x, LongInteger)
            return conversions.from_bits(m, m.value(x), expr.lanes)
        return self.long.primitive(primitive, longs, expr.dtype)

    # ---- results of other types --------------------------------------------------------------

    def _from_long(self, expr: Apply, given: tuple[LongInteger, ...]) -> Expr:
        """A comparison, a conversion or the bits of 64-bit integers."""
        m, primitive, dtype = self.m, expr.primitive, expr.operands[-1].dtype
        if primitive is P.CAST:
            return conversions.cast(m, given[0], dtype, expr.dtype)
        if primitive is P.BITCAST:
            return conversions.to_bits(m, given[0], expr.dtype, expr.lanes)
        return self.long.compare(primitive, given, dtype)
