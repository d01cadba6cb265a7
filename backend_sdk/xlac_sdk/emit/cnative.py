"""Native vectors of a language: whole vectors as expressions, such as `float16` and `vload16` in
OpenCL C.

A vector whose number of lanes the language supports (`Dialect.native`) is one native value; others
remain structs. Operations that the language lacks on whole vectors are written lane by lane, as a
list of lanes. A vector of bools is a vector of signed bytes, 0 or -1; in memory a bool is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import WORDS, Dialect, literal
from xlac_sdk.emit.cexpressions import Expressions
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Apply,
    Buffer,
    Const,
    Exchange,
    Expr,
    Load,
    Ramp,
    Shuffle,
    Space,
    Splat,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive

P = Primitive
# {0} {1} operands, {t} their type, {u} the unsigned type of equal width; signed sums wrap
_SIGNED = {
    P.ADD: "as_{t}(as_{u}({0}) + as_{u}({1}))",
    P.SUB: "as_{t}(as_{u}({0}) - as_{u}({1}))",
    P.MUL: "as_{t}(as_{u}({0}) * as_{u}({1}))",
    P.NEG: "as_{t}(({u})(0) - as_{u}({0}))",
    P.ABS: "as_{t}(abs({0}))",
}
_UNSIGNED = {
    P.ADD: "({0} + {1})",
    P.SUB: "({0} - {1})",
    P.MUL: "({0} * {1})",
    P.NEG: "(({u})(0) - {0})",
    P.ABS: "{0}",
}
_INTEGERS = {
    P.AND: "({0} & {1})",
    P.OR: "({0} | {1})",
    P.XOR: "({0} ^ {1})",
    P.NOT: "(~{0})",
    P.MAX: "max({0}, {1})",
    P.MIN: "min({0}, {1})",
    P.POPCNT: "popcount({0})",
    P.CLZ: "clz({0})",
}
_BOOLS = {
    P.AND: "({0} & {1})",
    P.OR: "({0} | {1})",
    P.XOR: "({0} ^ {1})",
    P.NOT: "(~{0})",
    P.MAX: "({0} | {1})",
    P.MIN: "({0} & {1})",
    P.EQ: "({0} == {1})",
    P.NE: "({0} != {1})",
}
_COMPARED = {P.LT: "<", P.LE: "<=", P.EQ: "==", P.NE: "!="}
_SHIFTED = {P.SHL: "<<", P.SHR: ">>"}
_EXTREMES = {
    P.MAX: "a > b ? a : a < b ? b : ((a == b) & (a != ({t})(0))) ? a : a + b",
    P.MIN: "a < b ? a : a > b ? b : ((a == b) & (a != ({t})(0))) ? a : -(-a + -b)",
}


def extremes(dialect: Dialect, before: str) -> Mapping[str, str]:
    """Functions for the larger and the smaller of two vectors of floats, by name."""
    return {
        f"{p.value}_{d.value}x{n}": f"{before} {(t := f'{dialect.types[d]}{n}')} "
        f"{p.value}_{d.value}x{n}({t} a, {t} b)\n{{\n    return {text.format(t=t)};\n}}"
        for p, text in _EXTREMES.items()
        for d in (DType.F32, DType.F64)
        for n in dialect.native
    }


class NativeVectors(Expressions):
    """The text of whole vectors."""

    def native(self, expr: Expr) -> bool:
        """Whether a value is a native vector."""
        return expr.lanes in self.dialect.native

    def vector(self, dtype: DType, lanes: int) -> str:
        """The language's type of a vector."""
        return f"{self.dialect.types[DType.I8 if dtype is DType.BOOL else dtype]}{lanes}"

    def signed(self, dtype: DType, lanes: int) -> str:
        """The type of a comparison's result: signed integers of the operands' width."""
        return self.vector(DType(f"i{dtype.bits}") if dtype is not DType.BOOL else dtype, lanes)

    def lane_of(self, name: str, expr: Expr) -> str:
        """The current lane of a named native vector."""
        text = f"{name}.s{int(self.lane):X}"
        return f"({text} & 1)" if expr.dtype is DType.BOOL else text

    def by_lanes(self, expr: Expr) -> bool:
        """Whether a native vector is written as a list of its lanes."""
        match expr:
            case Load(index=index, mask=mask):
                return not _consecutive(index) or not isinstance(mask, None | Splat)
            case Shuffle() | Exchange():
                return True
            case Apply(primitive=Primitive.CAST, operands=(value,)):
                kinds = {value.dtype, expr.dtype}
                half = value.dtype.is_half or expr.dtype.is_half
                return half and (kinds != {DType.F16, DType.F32} or not self.dialect.half)
            case Apply(primitive=Primitive.BITCAST, operands=(value,)):
                return not self.native(value)
            case Apply(primitive=primitive, operands=operands):
                return self._spelled(primitive, operands) is None
        return False

    def whole(self, expr: Expr) -> str:
        """The text of a native vector, or its name if it has one."""
        name = self.texts.get(id(expr))
        return name if name is not None else self.write_whole(expr)

    def write_whole(self, expr: Expr) -> str:
        """The text of a native vector, without using its name."""
        kind = self.vector(expr.dtype, expr.lanes)
        if self.by_lanes(expr):
            return f"({kind})({', '.join(self._lanes(expr))})"
        match expr:
            case Const(value=value, dtype=dtype):
                number = "-1" if value else "0"
                return f"({kind})({number if dtype is DType.BOOL else literal(value, dtype)})"
            case Var(name=name):
                return self.name(name)
            case Splat(value=value):
                text = self.bare(value)
                return f"({kind})({f'-({text})' if expr.dtype is DType.BOOL else text})"
            case Ramp(base=base, stride=stride):
                steps = ", ".join(str(stride * lane) for lane in range(expr.lanes))
                return f"(({kind})({self.number(base)}) + ({kind})({steps}))"
            case Load():
                return self._loaded(expr, kind)
            case Apply(primitive=Primitive.CAST, operands=(value,)):
                return self._converted(self.whole(value), value, expr.dtype, kind)
            case Apply(primitive=Primitive.BITCAST, operands=(value,)):
                return f"as_{kind}({self.whole(value)})"
            case Apply(primitive=primitive, operands=operands):
                return self._applied(primitive, operands, kind)
        raise AssertionError(f"no text for a vector of {type(expr).__name__}")

    def _lanes(self, expr: Expr) -> Iterator[str]:
        minus = "-" if expr.dtype is DType.BOOL else ""
        for lane in range(expr.lanes):
            if isinstance(expr, Shuffle):
                yield minus + self.picked(expr.values, expr.picks[lane])
                continue
            with self.at(str(lane)):
                yield minus + self.write(expr)

    # ---- primitives ------------------------------------------------------------------------

    def _spelled(self, primitive: Primitive, operands: tuple[Expr, ...]) -> str | None:
        """The spelling of a primitive on whole vectors; None if the language has none."""
        dtype = operands[-1].dtype
        if primitive is P.SELECT:
            return "({0} ? {1} : {2})"
        if dtype is DType.BOOL:
            return _BOOLS.get(primitive)
        if primitive in _COMPARED:
            return f"({{0}} {_COMPARED[primitive]} {{1}})"
        if dtype.is_float:
            if dtype.is_half:
                return None
            extreme = f"{primitive.value}_{{d}}({{0}}, {{1}})"
            return extreme if primitive in _EXTREMES else self.dialect.floats.get(primitive)
        if primitive in _SHIFTED:
            by = operands[1].value if isinstance(operands[1], Splat) else operands[1]
            known = isinstance(by, Const) and 0 <= by.value < dtype.bits
            return f"({{0}} {_SHIFTED[primitive]} {{1}})" if known else None
        table = _SIGNED if dtype.is_signed else _UNSIGNED
        return table.get(primitive) or _INTEGERS.get(primitive)

    def _applied(self, primitive: Primitive, operands: tuple[Expr, ...], kind: str) -> str:
        spelling = self._spelled(primitive, operands)
        assert spelling is not None
        dtype, lanes = operands[-1].dtype, operands[-1].lanes
        given = [self.whole(operand) for operand in operands]
        if primitive is P.SELECT:
            given[0] = self._widened(given[0], self.signed(dtype, lanes))
        bits = WORDS[dtype.bits]
        text = spelling.format(
            *given,
            t=self.vector(dtype, lanes),
            u=self.vector(bits, lanes),
            d=f"{dtype.value}x{lanes}",
            f="",
            one="1.0f" if dtype is DType.F32 else "1.0",
        )
        return self._widened(text, kind, dtype) if primitive in _COMPARED else text

    def _widened(self, text: str, kind: str, dtype: DType = DType.BOOL) -> str:
        """Bools as vectors of the width of `kind`, from those of a comparison of `dtype`."""
        lanes = kind.lstrip("abcdefghijklmnopqrstuvwxyz")
        return text if self.signed(dtype, int(lanes)) == kind else f"convert_{kind}({text})"

    def _converted(self, text: str, value: Expr, dtype: DType, kind: str) -> str:
        source, lanes = value.dtype, value.lanes
        if source is not dtype and DType.F16 in (source, dtype):
            return f"{dtype.value}_of_{source.value}x{lanes}({text})"
        if source is DType.BOOL:
            return f"convert_{kind}(-{text})"
        if dtype is DType.BOOL:
            zero = f"({self.vector(source, lanes)})(0)"
            return self._widened(f"({text} != {zero})", kind, source)
        saturated = "_sat" if source.is_float and dtype.is_integer else ""
        return f"convert_{kind}{saturated}({text})"

    # ---- memory ----------------------------------------------------------------------------

    def _loaded(self, load: Load, kind: str) -> str:
        buffer, lanes = load.buffer, load.lanes
        start = _start(load.index)
        if self.aligned(load):
            const = (
                "const " if buffer.access is Access.READ and buffer.space is Space.GLOBAL else ""
            )
            space = self.dialect.spaces.get(buffer.space, "")
            held = self.held(buffer, lanes)
            place = f"&{self.name(buffer.name)}[{self.number(start)}]"
            text = f"*({const}{space}{held} *){place}"
        else:
            text = f"vload{lanes}(0, {self.name(buffer.name)} + {self.text(start)})"
        if buffer.dtype is DType.BOOL:
            text = f"({text} != ({self.held(buffer, lanes)})(0))"
        if isinstance(load.mask, Splat):
            return f"({self.text(load.mask.value)} ? {text} : ({kind})(0))"
        return text

    def held(self, buffer: Buffer, lanes: int) -> str:
        """The type of `lanes` elements of a buffer in memory."""
        return f"{self.dialect.types[buffer.dtype]}{lanes}"

    def aligned(self, access: Load | Store) -> bool:
        """Whether an access is known to be aligned for the language's vector."""
        raise NotImplementedError

    def stored_whole(self, stmt: Store, pad: str) -> Iterator[str]:
        """A store of a native vector to consecutive elements, at once."""
        lanes, buffer = stmt.value.lanes, stmt.buffer
        value, start = self.whole(stmt.value), _start(stmt.index)
        if buffer.dtype is DType.BOOL:
            value = (
                f"as_{self.held(buffer, lanes)}({value} & ({self.vector(DType.BOOL, lanes)})(1))"
            )
        guard = f"if ({self.bare(stmt.mask.value)}) " if isinstance(stmt.mask, Splat) else ""
        name = self.name(buffer.name)
        if self.aligned(stmt):
            space, held = self.dialect.spaces.get(buffer.space, ""), self.held(buffer, lanes)
            yield f"{pad}{guard}*({space}{held} *)&{name}[{self.number(start)}] = {value};"
        else:
            yield f"{pad}{guard}vstore{lanes}({value}, 0, {name} + {self.text(start)});"

    def at_once(self, stmt: Store) -> bool:
        """Whether a store writes a whole native vector."""
        whole = isinstance(stmt.mask, None | Splat) and _consecutive(stmt.index)
        return whole and stmt.atomic is None and self.native(stmt.value)


def _consecutive(index: Expr) -> bool:
    return index.lanes == 1 or (isinstance(index, Ramp) and index.stride == 1)


def _start(index: Expr) -> Expr:
    return index.base if isinstance(index, Ramp) and index.lanes > 1 else index
