"""Expressions of kernel IR as LLVM IR, and the addresses of loads."""

from __future__ import annotations

from xlac_cpu.emit import access, arithmetic, convert
from xlac_cpu.emit.access import Address
from xlac_cpu.emit.bytes import byte_tables, dot_products
from xlac_cpu.emit.loops import addresses
from xlac_cpu.emit.spelling import (
    constant,
    function_name,
    is_literal,
    memory,
    number,
    register,
    vector,
)
from xlac_cpu.emit.style import Style
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.build import bounds
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Buffer,
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
from xlac_sdk.source import Diagnostic, UnsupportedError

P = Primitive
# indices below this are computed in 32 bits, for efficient gathers and vector divisions
_NARROW = 1 << 31


class LlvmExpressions(access.Combine):
    """Writes values; maps names and buffers to their LLVM values."""

    def __init__(self, w: LlvmWriter, style: Style) -> None:
        self.w, self.style = w, style
        self.names: dict[str, str] = {}
        self.buffers: dict[Buffer, tuple[str, int]] = {}  # pointers, and their alignment
        # values of the current statement, by the expression's identity
        self.memo: dict[int, str] = {}
        self.alive: list[Expr] = []  # expressions that only the memo knows

    def value(self, node: Expr) -> str:
        """The text of an expression's value; computed once per statement."""
        known = self.memo.get(id(node))
        if known is None:
            known = self.memo[id(node)] = self.compute(node)
        return known

    def compute(self, node: Expr) -> str:
        """Computes an expression and returns the text of its value."""
        w = self.w
        match node:
            case Const(value=value, dtype=dtype, lanes=lanes):
                return constant(number(value, dtype), register(dtype), lanes)
            case Var(name=name):
                now = w.current.get(name)
                return self.names[name] if now is None else now
            case Apply():
                return self.applied(node)
            case Load(buffer=buffer, index=index, lanes=lanes, mask=mask, align=align):
                chosen = byte_tables.looked_up(node, self.style.tables)
                if chosen is not None:
                    table, by = self.buffers[buffer][0], self.value(chosen)
                    return byte_tables.spell(w, self.style.tables, table, by, lanes)
                guard = None if mask is None else self.value(mask)
                place = self.place(buffer, index, lanes, align)
                return access.read(w, place, buffer.dtype, lanes, guard)
            case Splat(value=value, lanes=lanes):
                return access.splat(w, self.value(value), register(value.dtype), lanes)
            case Ramp(base=base, stride=stride, lanes=lanes):
                scalar = register(base.dtype)
                start = access.splat(w, self.value(base), scalar, lanes)
                return w.op(
                    f"add {vector(scalar, lanes)} {start}, {access.steps(stride, lanes, scalar)}"
                )
            case Fold(primitive=primitive, value=value):
                return self.fold(primitive, self.value(value), value.dtype, value.lanes)
            case Shuffle(values=values, picks=picks):
                return self.shuffle(values, picks)
            case Exchange():
                raise UnsupportedError(
                    Diagnostic("XL5103", "lanes of a warp cannot be exchanged on a CPU")
                )

    def applied(self, node: Apply) -> str:
        """The value of a primitive application."""
        primitive, operands, dtype, lanes = node.primitive, node.operands, node.dtype, node.lanes
        first = operands[0]
        if primitive is P.SELECT:
            texts = self.value(first), self.value(operands[1]), self.value(operands[2])
            return arithmetic.select(self.w, *texts, register(dtype, lanes), lanes)
        if primitive is P.CAST:
            return convert.cast(
                self.w, self.value(first), first.dtype, dtype, lanes, self.style.half
            )
        if primitive is P.BITCAST:
            return self.bitcast(first, dtype, lanes)
        if primitive is P.DOT4 or primitive is P.DOT2:
            texts = self.value(first), self.value(operands[1]), self.value(operands[2])
            return dot_products.spell(self.w, self.style, primitive, texts, first.dtype, lanes)
        if (primitive is P.DIV or primitive is P.REM) and dtype is DType.I64:
            by = operands[1]
            if isinstance(by, Const) and by.value > 0:
                return self.index_divide(primitive, first, int(by.value))
        return self(
            primitive, tuple([self.value(operand) for operand in operands]), first.dtype, lanes
        )

    def __call__(
        self, primitive: Primitive, operands: tuple[str, ...], dtype: DType, lanes: int
    ) -> str:
        """A primitive; 16-bit floats are computed in f32, index arithmetic on constants
        is folded.
        """
        if dtype.is_half:
            wide = tuple(convert.widen(self.w, o, dtype, lanes, self.style.half) for o in operands)
            result = self.spelled(primitive, wide, DType.F32, lanes)
            if primitive.is_comparison:
                return result
            return convert.cast(self.w, result, DType.F32, dtype, lanes, self.style.half)
        if dtype is DType.I64 and lanes == 1 and len(operands) == 2:
            known = _folded(primitive, operands[0], operands[1])
            if known is not None:
                return known
        return self.spelled(primitive, operands, dtype, lanes)

    def spelled(
        self, primitive: Primitive, operands: tuple[str, ...], dtype: DType, lanes: int
    ) -> str:
        """Instructions, or a call if the module has a function for the primitive."""
        if (primitive, dtype) not in self.style.calls:
            return arithmetic.spell(self.w, primitive, operands, dtype, lanes)
        kind = register(dtype, lanes)
        return self.w.intrinsic(
            function_name(primitive, dtype, lanes), kind, *((kind, operand) for operand in operands)
        )

    def fold(self, primitive: Primitive, value: str, dtype: DType, lanes: int) -> str:
        """The lanes of a vector combined."""
        if not dtype.is_half:
            return arithmetic.fold(self.w, primitive, value, dtype, lanes)
        wide = convert.widen(self.w, value, dtype, lanes, self.style.half)
        total = arithmetic.fold(self.w, primitive, wide, DType.F32, lanes)
        return convert.cast(self.w, total, DType.F32, dtype, 1, self.style.half)

    def bitcast(self, node: Expr, target: DType, lanes: int) -> str:
        """The bits of a value as another type."""
        turned = self.style.big_endian and lanes != node.lanes
        value = self.value(node)
        return convert.bits(self.w, value, (node.dtype, node.lanes), (target, lanes), turned)

    def index_divide(self, primitive: Primitive, a: Expr, by: int) -> str:
        """Division of an I64 by a positive constant, unsigned and in 32 bits if the
        bounds allow.
        """
        w, lanes = self.w, a.lanes
        value = self.value(a)
        if lanes == 1 and is_literal(value):
            quotient = abs(int(value)) // by * (1 if int(value) >= 0 else -1)
            return str(quotient if primitive is P.DIV else int(value) - quotient * by)
        low, high = bounds(a)
        name = "div" if primitive is P.DIV else "rem"
        whole = vector("i64", lanes)
        if low is not None and low >= 0 and high is not None and high < _NARROW and by < _NARROW:
            narrow = vector("i32", lanes)
            small = w.op(f"trunc {whole} {value} to {narrow}")
            unsigned = w.op(f"u{name} {narrow} {small}, {constant(str(by), 'i32', lanes)}")
            return w.op(f"zext nneg {narrow} {unsigned} to {whole}")
        sign = "u" if low is not None and low >= 0 else "s"
        return w.op(f"{sign}{name} {whole} {value}, {constant(str(by), 'i64', lanes)}")

    def shuffle(self, values: tuple[Expr, ...], picks: tuple[int, ...]) -> str:
        """Selected lanes of two vectors."""
        w, scalar = self.w, register(values[0].dtype)
        lanes = max(v.lanes for v in values)
        texts, starts = [], []
        for k, node in enumerate(values):
            text = self.value(node)
            starts += [k * lanes + lane for lane in range(node.lanes)]
            if node.lanes == 1:
                wide = access.vector_of(scalar, lanes)
                text = w.op(f"insertelement {wide} poison, {scalar} {text}, i64 0")
            elif node.lanes < lanes:
                chosen = ", ".join(
                    f"i32 {lane}" if lane < node.lanes else "i32 poison" for lane in range(lanes)
                )
                kind = vector(scalar, node.lanes)
                text = w.op(
                    f"shufflevector {kind} {text}, {kind} poison, <{lanes} x i32> <{chosen}>"
                )
            texts.append(text)
        kind = access.vector_of(scalar, lanes)
        if len(picks) == 1:
            at = starts[picks[0]]
            return w.op(f"extractelement {kind} {texts[at // lanes]}, i64 {at % lanes}")
        second = texts[1] if len(texts) > 1 else "poison"
        chosen = ", ".join(f"i32 {starts[p]}" for p in picks)
        return w.op(
            f"shufflevector {kind} {texts[0]}, {kind} {second}, <{len(picks)} x i32> <{chosen}>"
        )

    # ---- addresses -------------------------------------------------------------------------------

    def place(self, buffer: Buffer, index: Expr, lanes: int, align: int) -> Address:
        """The address of an access of `lanes` elements at `index`."""
        base, known = self.buffers[buffer]
        size = buffer.dtype.nbytes
        element, align = memory(buffer.dtype), max(size, min(align or size, known))
        if index.lanes == 1:
            return Address(self.pointer(buffer, index), False, align)
        if isinstance(index, Ramp) and index.stride == 1:
            return Address(self.pointer(buffer, index.base), False, align)
        if isinstance(index, Ramp) and index.stride == -1:
            last = self.pointer(buffer, index.base)
            return Address(
                self.w.op(f"getelementptr {element}, ptr {last}, i64 {1 - lanes}"),
                False,
                size,
                reverse=True,
            )
        if isinstance(index, Ramp) and abs(index.stride) * lanes < _NARROW:
            first = self.pointer(buffer, index.base)
            offsets = access.steps(index.stride, lanes, "i32")
            kind = vector("i32", lanes)
            spread = self.w.op(f"getelementptr {element}, ptr {first}, {kind} {offsets}")
            return Address(spread, True, size)
        where, kind = self.index(index), vector("i64", lanes)
        low, high = bounds(index)
        if low is not None and high is not None and low >= -_NARROW and high < _NARROW:
            where, kind = (
                self.w.op(f"trunc {kind} {where} to {vector('i32', lanes)}"),
                vector("i32", lanes),
            )
        return Address(
            self.w.op(f"getelementptr {element}, ptr {base}, {kind} {where}"), True, size
        )

    def pointer(self, buffer: Buffer, index: Expr) -> str:
        """The address of one element. A constant term is added last, so that neighbours share the
        rest.
        """
        base = self.buffers[buffer][0]
        element, constant_term = memory(buffer.dtype), 0
        match index:
            case Apply(primitive=P.ADD, operands=(rest, Const(value=value)), lanes=1):
                index, constant_term = rest, int(value)
        base, index = addresses.split(self, base, element, index)
        where = self.index(index)
        if is_literal(where):
            where, constant_term = "0", constant_term + int(where)
        if where != "0":
            base = self.w.op(f"getelementptr {element}, ptr {base}, i64 {where}")
        return (
            self.w.op(f"getelementptr {element}, ptr {base}, i64 {constant_term}")
            if constant_term
            else base
        )

    def index(self, node: Expr) -> str:
        """An index in 64 bits."""
        return convert.cast(self.w, self.value(node), node.dtype, DType.I64, node.lanes, False)


def _folded(primitive: Primitive, a: str, b: str) -> str | None:
    """The result of index arithmetic on constants; None if it must be computed at run time."""
    if is_literal(b):
        k = int(b)
        if is_literal(a):
            i = int(a)
            match primitive:
                case P.ADD | P.SUB | P.MUL:
                    return number({P.ADD: i + k, P.SUB: i - k, P.MUL: i * k}[primitive], DType.I64)
                case P.MIN | P.MAX:
                    return str(min(i, k) if primitive is P.MIN else max(i, k))
                case P.LT | P.LE | P.EQ | P.NE:
                    truth = {P.LT: i < k, P.LE: i <= k, P.EQ: i == k, P.NE: i != k}[primitive]
                    return "true" if truth else "false"
        elif (k == 0 and primitive in (P.ADD, P.SUB)) or (k == 1 and primitive is P.MUL):
            return a
        elif k == 0 and primitive is P.MUL:
            return "0"
    elif a == "0" and primitive is P.ADD:
        return b
    return None
