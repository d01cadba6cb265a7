"""Operations on 64-bit integers: as i32 where bounds tell that this is enough, else on words."""

from __future__ import annotations

from collections.abc import Callable

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, Fold, Ramp, Shuffle, Splat
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import fits
from xlac_sdk.lowering.long_integers import arithmetic, division
from xlac_sdk.lowering.long_integers.narrow import bounds_of
from xlac_sdk.lowering.long_integers.words import I32, LongInteger, P
from xlac_sdk.lowering.math.writer import Writer

BITWISE = (P.AND, P.OR, P.XOR, P.NOT)
ORDERED = (P.MAX, P.MIN, P.AND, P.OR, P.XOR)  # a fold of them stays within the lanes' bounds


class LongOperations:
    """Operations on numbers of i64 or u64, whose statements the writer collects."""

    def __init__(self, m: Writer) -> None:
        self.m, self.target = m, m.target

    def words(
        self, form: Callable[..., Expr], longs: tuple[LongInteger, ...], lanes: int
    ) -> LongInteger:
        """A form of expressions on the lower words, and on the upper ones."""
        return LongInteger.of_loads(
            self.m,
            lanes,
            lambda: self.m.value(form(*(one.low.expr for one in longs))),
            lambda: self.m.value(form(*(one.high.expr for one in longs))),
        )

    def primitive(
        self, primitive: Primitive, given: tuple[LongInteger, ...], dtype: DType
    ) -> LongInteger:
        """Arithmetic on numbers of a type."""
        m = self.m
        narrow = [one.narrow for one in given if one.narrow is not None]
        if len(narrow) == len(given):
            bounds = bounds_of(primitive, tuple(o.bounds for o in given if o.bounds), dtype)
            if bounds is not None:
                return LongInteger.of_int(m, self._of_int(primitive, narrow), bounds)
        if len(given) == 1:
            return self._of_one(primitive, given[0])
        a, b = given
        match primitive:
            case P.ADD:
                return arithmetic.add(m, a, b)
            case P.SUB:
                return arithmetic.sub(m, a, b)
            case P.MUL:
                return arithmetic.multiply(m, a, b)
            case P.DIV | P.REM:
                return division.divide(m, a, b, dtype)[primitive is P.REM]
            case P.MAX:
                return arithmetic.select(m, arithmetic.less(m, b, a, dtype), a, b)
            case P.MIN:
                return arithmetic.select(m, arithmetic.less(m, a, b, dtype), a, b)
            case P.SHL | P.SHR:
                return arithmetic.shift(m, primitive, a, b, dtype)
        assert primitive in BITWISE, f"{primitive} of 64-bit integers is expanded before"
        return arithmetic.bitwise(m, primitive, a, b)

    def _of_one(self, primitive: Primitive, a: LongInteger) -> LongInteger:
        match primitive:
            case P.NEG:
                return arithmetic.negate(self.m, a)
            case P.NOT:
                return arithmetic.bitwise(self.m, primitive, a)
            case P.POPCNT:
                return arithmetic.count_ones(self.m, a)
        assert primitive is P.CLZ, f"{primitive} of 64-bit integers is expanded before"
        return arithmetic.leading_zeros(self.m, a)

    def _of_int(self, primitive: Primitive, given: list[Expr]) -> Expr:
        if self.target.spells(primitive, I32):
            return Apply(primitive, tuple(given), I32, given[0].lanes)
        return self.m.apply(primitive, *map(self.m.value, given)).expr

    def compare(self, primitive: Primitive, given: tuple[LongInteger, ...], dtype: DType) -> Expr:
        """A comparison of numbers of a type."""
        m, (a, b) = self.m, given
        if a.narrow is None or b.narrow is None:
            return arithmetic.compare(m, primitive, a, b, dtype).expr
        if self.target.spells(primitive, I32):
            return Apply(primitive, (a.narrow, b.narrow), DType.BOOL, a.lanes)
        return m.apply(primitive, m.value(a.narrow), m.value(b.narrow)).expr

    def select(self, condition: Expr, a: LongInteger, b: LongInteger) -> LongInteger:
        """a where the condition holds, else b."""
        if a.narrow is not None and b.narrow is not None and a.bounds and b.bounds:
            bounds = min(a.bounds[0], b.bounds[0]), max(a.bounds[1], b.bounds[1])
            chosen = Apply(P.SELECT, (condition, a.narrow, b.narrow), I32, a.lanes)
            return LongInteger.of_int(self.m, chosen, bounds)
        return arithmetic.select(self.m, self.m.value(condition), a, b)

    # ---- lanes -------------------------------------------------------------------------------

    def ramp(self, base: LongInteger, expr: Ramp) -> LongInteger:
        """A base plus multiples of a stride."""
        stride, lanes = expr.stride, expr.lanes
        last = stride * (lanes - 1)
        if base.narrow is not None and base.bounds is not None:
            reach = base.bounds[0] + min(0, last), base.bounds[1] + max(0, last)
            if fits(reach, I32) and fits(reach, expr.dtype):
                return LongInteger.of_int(self.m, Ramp(base.narrow, stride, lanes), reach)
        first = self.words(lambda word: Splat(word, lanes), (base,), lanes)
        steps = Ramp(Const(0, I32), stride, lanes)
        return arithmetic.add(
            self.m, first, LongInteger.of_int(self.m, steps, (min(0, last), max(0, last)))
        )

    def fold(self, expr: Fold, value: LongInteger) -> LongInteger:
        """Lanes combined by halves; the last of an odd number is kept for the end."""
        ordered = expr.primitive in ORDERED and self.target.spells(expr.primitive, I32)
        if ordered and value.narrow is not None and value.bounds is not None:
            ends = value.bounds, value.bounds
            bounds = bounds_of(expr.primitive, ends, expr.dtype) or value.bounds
            return LongInteger.of_int(self.m, Fold(expr.primitive, value.narrow), bounds)
        rest: list[LongInteger] = []
        while value.lanes > 1:
            half = value.lanes // 2
            if value.lanes % 2:
                rest.append(self._lanes(value, value.lanes - 1, 1))
            first, second = self._lanes(value, 0, half), self._lanes(value, half, half)
            value = self.primitive(expr.primitive, (first, second), expr.dtype)
        for one in rest:
            value = self.primitive(expr.primitive, (value, one), expr.dtype)
        return value

    def _lanes(self, value: LongInteger, start: int, count: int) -> LongInteger:
        picks = tuple(range(start, start + count))
        if value.narrow is not None and value.bounds is not None:
            return LongInteger.of_int(self.m, Shuffle((value.narrow,), picks), value.bounds)
        return self.words(lambda word: Shuffle((word,), picks), (value,), count)
