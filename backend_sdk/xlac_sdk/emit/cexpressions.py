"""Expressions as C-family text: scalars, and the lanes of vectors one at a time.

A vector is a struct with an array of lanes. The text of a vector expression is that of one lane,
which `Expressions.lane` names: usually the counter of a loop over lanes around the statement.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cconversions import Conversions
from xlac_sdk.emit.cdialect import WORDS, Dialect, literal, unsupported, vector_type
from xlac_sdk.emit.cfunctions import arithmetic
from xlac_sdk.emit.csimplify import settled, unwrapped
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Const,
    Exchange,
    Expr,
    Fold,
    Load,
    Ramp,
    Shuffle,
    Splat,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import Ranges, combined, fits

P = Primitive

_INFIX = {P.ADD: "+", P.SUB: "-", P.MUL: "*", P.DIV: "/", P.REM: "%"}
# shared memory for exchanges, and where the half of it begins that is next; kernels have no names
# with this ending
SCRATCH, TURN = "scratch_", "turn_"
_PLAIN = (DType.I32, DType.I64)  # types in which sums need no cast


class Expressions(Conversions):
    """The text of expressions; `texts` has the names of those that a statement has named, by
    identity.
    """

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self.texts: dict[int, str] = {}
        self.range = Ranges()
        self.touched: set[str] = set()  # names that the text uses
        # vector types that the text uses, in order
        self.vectors: dict[tuple[DType, int], None] = {}
        self.lane = ""
        # scalar names of vectors that exist only within a loop over lanes
        self.alone: set[str] = set()
        self.count = 0
        self.threads = 0  # of a block, if there are any
        self.exchanges = False  # whether the text exchanges values between threads

    def fresh(self) -> str:
        """A fresh name for a part of an expression; kernels have no names with this ending."""
        self.count += 1
        return f"e{self.count}_"

    def name(self, name: str) -> str:
        """A name in the dialect's spelling, recorded as used."""
        self.touched.add(name)
        return self.dialect.identifier(name)

    def type(self, expr: Expr) -> str:
        """The type of a variable for the value; a struct for a vector."""
        if expr.lanes in self.dialect.native:
            kind = DType.I8 if expr.dtype is DType.BOOL else expr.dtype
            return f"{self.dialect.types[kind]}{expr.lanes}"
        if expr.lanes > 1:
            if not self.dialect.vector:
                raise unsupported(self.dialect, "vectors")
            self.vectors[expr.dtype, expr.lanes] = None
            return vector_type(expr.dtype, expr.lanes)
        if expr.dtype is DType.I64 and fits(self.range(expr), DType.I32):
            return self.dialect.index
        return self.dialect.types[expr.dtype]

    @contextmanager
    def at(self, lane: str) -> Iterator[None]:
        """A scope in which the text of vectors is that of this lane."""
        before, self.lane = self.lane, lane
        yield
        self.lane = before

    def text(self, expr: Expr) -> str:
        """The text of an expression, or its name if it has one."""
        name = self.texts.get(id(expr))
        if name is None:
            return self.write(expr)
        return name if expr.lanes == 1 else self.pick(name, expr)

    def pick(self, name: str, expr: Expr) -> str:
        """The current lane of a named vector."""
        assert self.lane, "the text of a vector is that of one lane"
        if expr.lanes in self.dialect.native:
            return self.lane_of(name, expr)
        return name if name in self.alone else f"{name}.lane[{self.lane}]"

    def lane_of(self, name: str, expr: Expr) -> str:
        """The current lane of a named vector of a language that has vectors."""
        raise NotImplementedError

    def write(self, expr: Expr) -> str:
        """The text of an expression without using its name."""
        if expr.lanes > 1 and not self.dialect.vector:
            raise unsupported(self.dialect, "vectors")
        match expr:
            case Const(value=value, dtype=dtype):
                return literal(value, dtype)
            case Var(name=name):
                return self.name(name) if expr.lanes == 1 else self.pick(self.name(name), expr)
            case Splat(value=value):
                return self.text(value)
            case Ramp():
                return self.ramp(expr)
            case Load(buffer=buffer, mask=mask):
                place = f"{self.name(buffer.name)}[{self.place(expr.index, expr.lanes)}]"
                return place if mask is None else f"({self.text(mask)} ? {place} : 0)"
            case Apply(primitive=Primitive.CAST, operands=(value,), dtype=dtype):
                return self.cast(self.text(value), value.dtype, dtype)
            case Apply(primitive=Primitive.BITCAST, operands=(value,), dtype=dtype):
                if value.lanes == expr.lanes:
                    return self.bitcast(self.text(value), value.dtype, dtype)
                return self.regrouped(expr)
            case Apply():
                return self.apply(expr)
            case Fold(primitive=primitive, value=value):
                return self.fold(primitive, value)
            case Shuffle(values=values, picks=picks):
                assert len(picks) == 1, "a shuffle that makes a vector has a name"
                return self.picked(values, picks[0])
            case Exchange(value=value, distance=distance):
                if not self.dialect.exchange:
                    raise unsupported(self.dialect, "exchange between threads")
                self.exchanges = True
                half = f"{SCRATCH} + ({TURN} ^= {self.threads}u)"
                return self.dialect.exchange.format(
                    self.bare(value), distance, d=value.dtype.value, scratch=half
                )

    # ---- places and lanes ----------------------------------------------------------------------

    def place(self, index: Expr, lanes: int) -> str:
        """The index between the brackets; that of the current lane for an access of several
        elements.
        """
        if lanes == 1 or index.lanes > 1:
            return self.number(index)
        if isinstance(index, Const) and index.value == 0:
            return self.lane
        return unwrapped(self.ramp(Ramp(index, 1, lanes)))

    def ramp(self, expr: Ramp) -> str:
        """One lane of a ramp: base + stride * lane."""
        base = self.number(expr.base) if isinstance(expr.base, Const) else self.text(expr.base)
        reach = self.range(expr)
        wide = (
            ""
            if fits(reach, DType.I32) or expr.dtype is not DType.I64
            else f"({self.dialect.types[DType.I64]})"
        )
        if expr.lanes == 1 or expr.stride == 0:
            return base
        if expr.dtype not in _PLAIN or reach is None:  # the product may overflow
            kind, word = self.dialect.types[expr.dtype], arithmetic(expr.dtype)
            return f"({kind})(({word}){base} + ({word})({expr.stride}) * ({word}){self.lane})"
        step = self.lane if expr.stride == 1 else f"{expr.stride} * {self.lane}"
        return f"({wide}{base} + {step})"

    def fold(self, primitive: Primitive, value: Expr) -> str:
        """The reduction of all lanes, pairwise."""
        parts = []
        for lane in range(value.lanes):
            with self.at(str(lane)):
                parts.append(self.text(value))
        while len(parts) > 1:
            half = (len(parts) + 1) // 2
            pairs = [
                self.spell(primitive, [a, b], value.dtype)
                for a, b in zip(parts, parts[half:], strict=False)
            ]
            parts = [*pairs, *parts[len(pairs) : half]]
        return parts[0]

    def regrouped(self, expr: Apply) -> str:
        """One lane of a bitcast to lanes of another width: joined from several, or part of one."""
        (value,), lane = expr.operands, self.lane if expr.lanes > 1 else "0"
        bits, wide = sorted((value.dtype.bits, expr.dtype.bits))
        part, whole, count, types = WORDS[bits], WORDS[wide], wide // bits, self.dialect.types
        if expr.dtype.bits == bits:
            known = lane.isdecimal()
            with self.at(str(int(lane) // count) if known else f"({lane} / {count})"):
                word = self.bitcast(self.text(value), value.dtype, whole)
            chosen = f"({types[part]})({word} >> ({lane} % {count} * {bits}))"
            return self.bitcast(chosen, part, expr.dtype)
        text = ""
        for k in range(count):
            part_lane = f"({count} * {lane} + {k})"
            with self.at(str(count * int(lane) + k) if lane.isdecimal() else part_lane):
                one = self.bitcast(self.text(value), value.dtype, part)
            text += f"{' | ' if text else ''}(({types[whole]}){one} << {k * bits})"
        return self.bitcast(f"({text})", whole, expr.dtype)

    def picked(self, values: tuple[Expr, ...], pick: int) -> str:
        """One lane of the concatenation of vectors, or of scalars."""
        for value in values:
            if pick < value.lanes:
                with self.at(str(pick)):
                    return self.text(value)
            pick -= value.lanes
        raise AssertionError("a shuffle picks a lane that is not there")

    # ---- numbers -------------------------------------------------------------------------------

    def number(self, expr: Expr) -> str:
        """An expression; a small constant without its suffix, if no operand is
        narrower than int.
        """
        if isinstance(expr, Const) and abs(int(expr.value)) < 1 << 31:
            return str(expr.value) if int(expr.value) >= 0 else f"({expr.value})"
        return self.bare(expr)

    def bare(self, expr: Expr) -> str:
        """An expression without outer parentheses, about which compilers warn in a condition."""
        return unwrapped(self.text(expr))

    def apply(self, expr: Apply) -> str:
        """A primitive applied to operands."""
        primitive, operands = expr.primitive, expr.operands
        dtype = operands[1].dtype if primitive is P.SELECT else operands[0].dtype
        given = [self.text(o) for o in operands]
        if primitive.is_comparison and not dtype.is_float:
            known = settled(primitive, operands, dtype)
            if known is not None:
                return f"((void){given[0]}, (void){given[1]}, {int(known)})"
        if (
            primitive in (P.DIV, P.REM)
            and isinstance(by := operands[1], Const)
            and dtype.is_integer
            and by.value not in (0, -1)
        ):
            text = (
                f"({given[0]} {'/' if primitive is P.DIV else '%'} "
                f"{self.number(by) if dtype in _PLAIN else given[1]})"
            )
            return text if dtype.bits >= 32 else f"({self.dialect.types[dtype]}){text}"
        if (
            dtype in _PLAIN
            and primitive in _INFIX
            and fits(bounds := combined(primitive, *map(self.range, operands)), dtype)
        ):
            both = all(isinstance(o, Const) for o in operands)
            a, b = given if both else self.operands(operands)
            wide = "" if fits(bounds, DType.I32) else f"({self.dialect.types[dtype]})"
            return f"({wide}{a} {_INFIX[primitive]} {b})"
        if (
            primitive.is_comparison
            and dtype in _PLAIN
            and not all(isinstance(o, Const) for o in operands)
        ):
            given = list(self.operands(operands))
        if dtype.is_half and primitive is not P.SELECT:
            raise unsupported(self.dialect, f"'{primitive.value}' of {dtype}")
        return self.spell(primitive, given, dtype)

    def operands(self, exprs: tuple[Expr, ...]) -> Iterator[str]:
        """Operands of one signed type, whose constants need no suffix."""
        return (self.number(e) if isinstance(e, Const) else self.text(e) for e in exprs)

    def spell(self, primitive: Primitive, given: list[str], dtype: DType) -> str:
        """A primitive applied to operands given as text."""
        float_suffix = "f" if dtype is DType.F32 else ""
        if primitive is P.ABS and dtype.is_integer and not dtype.is_signed:
            return given[0]
        return self.dialect.spelling(primitive, dtype).format(
            *given,
            t=self.dialect.types[dtype],
            w=arithmetic(dtype),
            d=dtype.value,
            f=float_suffix,
            one=f"1.0{float_suffix}",
        )
