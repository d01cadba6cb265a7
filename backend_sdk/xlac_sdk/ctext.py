"""Kernels as C-family text: what the C, CUDA and OpenCL backends share.

A `Dialect` says how types, primitives and names are spelled; `C99` is the plain one and others replace
entries of its tables. The text has defined behaviour throughout: signed arithmetic goes through unsigned
types, and what C leaves open (division by zero, wide shifts, casts out of range) goes through the
functions of `cfunctions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xlac_sdk import grid
from xlac_sdk.cdialect import C99, Dialect, comment, literal, unsupported
from xlac_sdk.cfunctions import arithmetic, integer
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import (
    Access,
    Allocate,
    Apply,
    Assign,
    Barrier,
    Buffer,
    Const,
    Exchange,
    Expr,
    Fold,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prefetch,
    Ramp,
    Shuffle,
    Space,
    Splat,
    Stmt,
    Store,
    Var,
    children,
)  # fmt: skip
from xlac_sdk.primitives import Primitive
from xlac_sdk.ranges import Ranges, combined, fits, type_range
from xlac_sdk.sharing import named, roots, walk

__all__ = ["C99", "Dialect", "Function", "comment", "kernel_text", "literal"]

P = Primitive
_INFIX = {P.ADD: "+", P.SUB: "-", P.MUL: "*", P.DIV: "/", P.REM: "%"}
_PLAIN = (DType.I32, DType.I64)  # where a sum that fits its type needs no cast


@dataclass(frozen=True)
class Function:
    """A kernel as text: its name, its parameters and the lines of its body."""

    name: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    note: str


def kernel_text(kernel: Kernel, dialect: Dialect = C99) -> Function:
    """A kernel as one function; raises UnsupportedError for what the dialect cannot say."""
    writer = _Writer(kernel, dialect)
    lines = tuple(writer.block(kernel.body, 1))
    used = frozenset(writer.touched)
    name = dialect.identifier
    unused = [n for n in [*(b.name for b in kernel.parameters), *(v.name for v in kernel.sizes)] if n not in used]
    lines = (*(f"    (void){name(n)};" for n in unused), *lines)
    parameters = [writer.parameter(b) for b in kernel.parameters]
    parameters += [f"{dialect.size or writer.type(v)} {name(v.name)}" for v in kernel.sizes]
    return Function(dialect.kernel.format(name(kernel.name)), tuple(parameters), lines, comment(kernel.note))


class _Writer:
    """The statements of one kernel, line by line."""

    def __init__(self, kernel: Kernel, dialect: Dialect) -> None:
        self.kernel, self.dialect = kernel, dialect
        self.grid = grid.grid(kernel)
        self.texts: dict[int, str] = {}
        self.range = Ranges()
        self.touched: set[str] = set()  # names that the text mentions
        self.count = 0
        self._reads: dict[int, frozenset[str]] = {}

    def parameter(self, buffer: Buffer) -> str:
        const = "const " if buffer.access is Access.READ else ""
        return f"{const}{self.dialect.types[buffer.dtype]} *{self.dialect.restrict} {self.dialect.identifier(buffer.name)}"

    def name(self, name: str) -> str:
        self.touched.add(name)
        return self.dialect.identifier(name)

    # ---- statements --------------------------------------------------------------------------

    def reads(self, stmt: Stmt) -> frozenset[str]:
        """Names that a statement or its blocks read."""
        known = self._reads.get(id(stmt))
        if known is None:
            found = {e.name for e in walk(roots(stmt)) if isinstance(e, Var)}
            for inner in children(stmt):
                for one in inner:
                    found |= self.reads(one)
            known = self._reads[id(stmt)] = frozenset(found)
        return known

    def block(self, body: tuple[Stmt, ...], depth: int) -> Iterator[str]:
        pad = "    " * depth
        later: list[frozenset[str]] = [frozenset()]
        for stmt in reversed(body):
            later.append(later[-1] | self.reads(stmt))
        for stmt, after in zip(body, reversed(later[:-1]), strict=True):
            self.texts.clear()
            hoisted = named(roots(stmt))
            for expr in hoisted:
                if isinstance(stmt, Prefetch):
                    break
                text = self.write(expr)
                self.count += 1
                self.texts[id(expr)] = f"e{self.count}_"
                yield f"{pad}const {self.type(expr)} e{self.count}_ = {text};"
            yield from self.statement(stmt, depth, pad, after)

    def statement(self, stmt: Stmt, depth: int, pad: str, after: frozenset[str]) -> Iterator[str]:
        match stmt:
            case For():
                yield from self.loop(stmt, depth, pad)
            case Let(var=var, value=value, mutable=mutable):
                name = self.name(var.name)
                yield f"{pad}{'' if mutable else 'const '}{self.type(var)} {name} = {self.text(value)};"
                if var.name not in after:
                    yield f"{pad}(void){name};"
            case Assign(var=var, value=value):
                yield f"{pad}{self.name(var.name)} = {self.text(value)};"
            case Store():
                yield from self.store(stmt, pad)
            case If(condition=condition, then=then, otherwise=otherwise):
                yield f"{pad}if ({self.bare(condition)}) {{"
                yield from self.block(then, depth + 1)
                if otherwise:
                    yield f"{pad}}} else {{"
                    yield from self.block(otherwise, depth + 1)
                yield f"{pad}}}"
            case Allocate(buffer=buffer):
                yield from self.allocate(buffer, pad)
            case Instruction(name=name, operands=given, meaning=meaning):
                spelling = self.dialect.instructions.get(name)
                if spelling is None:
                    yield from self.block(meaning, depth)
                else:
                    texts = [self.name(o.name) if isinstance(o, Buffer) else self.text(o) for o in given]
                    yield f"{pad}{spelling.format(*texts)};"
            case Barrier():
                if not self.dialect.barrier:
                    raise unsupported(self.dialect, "barrier")
                yield f"{pad}{self.dialect.barrier};"
            case Prefetch():
                return

    def allocate(self, buffer: Buffer, pad: str) -> Iterator[str]:
        """Memory of a thread, or of a block: then an array, or a part of the pool that is declared before the first."""
        kind, name = self.dialect.types[buffer.dtype], self.name(buffer.name)
        if buffer.space is not Space.SHARED:
            yield f"{pad}{kind} {name}[{buffer.size}];"
            return
        if not self.dialect.shared or self.grid is None:
            raise unsupported(self.dialect, "shared memory")
        if self.grid.shared_bytes <= self.dialect.most_shared:
            yield pad + self.dialect.shared.format(type=kind, name=name, size=buffer.size, align=max(grid.ALIGN, buffer.align))
            return
        if buffer is self.grid.shared[0]:
            yield pad + self.dialect.pool.format(name="pool_", align=max(grid.ALIGN, *(b.align for b in self.grid.shared)))
        at = grid.places(self.grid.shared)[buffer]
        yield f"{pad}{kind} *const {name} = ({kind} *){f'(pool_ + {at})' if at else 'pool_'};"

    def member(self, stmt: For, depth: int, pad: str) -> Iterator[str]:
        """The body of a loop over blocks or threads, for the one that runs it."""
        number = self.dialect.block if stmt.kind is LoopKind.BLOCK else self.dialect.thread
        if not number:
            raise unsupported(self.dialect, f"loop over {stmt.kind.value}s")
        if any(stmt.counter.name in self.reads(s) for s in stmt.body):
            kind = self.type(stmt.counter)
            yield f"{pad}const {kind} {self.name(stmt.counter.name)} = ({kind}){number};"
        yield from self.block(stmt.body, depth)

    def loop(self, stmt: For, depth: int, pad: str) -> Iterator[str]:
        if stmt.kind in (LoopKind.BLOCK, LoopKind.THREAD):
            yield from self.member(stmt, depth, pad)
            return
        kind, name = self.counter(stmt), self.name(stmt.counter.name)
        read = any(stmt.counter.name in self.reads(s) for s in stmt.body)
        if stmt.kind is LoopKind.UNROLLED and isinstance(stmt.start, Const) and isinstance(stmt.stop, Const):
            turns = range(int(stmt.start.value), int(stmt.stop.value), stmt.step)
            if len(turns) <= self.dialect.written_out:
                for value in turns:
                    yield f"{pad}{{"
                    if read:
                        yield f"{pad}    const {kind} {name} = {integer(value, stmt.counter.dtype)};"
                    yield from self.block(stmt.body, depth + 1)
                    yield f"{pad}}}"
                return
        start = self.number(stmt.start)
        stop = self.number(stmt.stop) if isinstance(stmt.stop, Const) else self.text(stmt.stop)  # stands in a comparison
        step = f"++{name}" if stmt.step == 1 else f"{name} += {stmt.step}"
        yield f"{pad}for ({kind} {name} = {start}; {name} < {stop}; {step}) {{"
        yield from self.block(stmt.body, depth + 1)
        yield f"{pad}}}"

    def store(self, stmt: Store, pad: str) -> Iterator[str]:
        if stmt.value.lanes > 1:
            raise unsupported(self.dialect, "vectors")
        place = f"{self.name(stmt.buffer.name)}[{self.number(stmt.index)}]"
        value = self.text(stmt.value)
        guard = "" if stmt.mask is None else f"if ({self.bare(stmt.mask)}) "
        if stmt.atomic is not None and self.dialect.atomic and stmt.buffer.space is not Space.LOCAL:
            text = self.dialect.atomic.format(place=place, value=value, p=stmt.atomic.value, d=stmt.value.dtype.value)
            yield f"{pad}{guard}{text};"
            return
        if stmt.atomic is not None:
            value = self.spell(stmt.atomic, [place, value], stmt.value.dtype)
        yield f"{pad}{guard}{place} = {value};"

    # ---- expressions -------------------------------------------------------------------------

    def type(self, expr: Expr) -> str:
        if expr.lanes > 1:
            raise unsupported(self.dialect, "vectors")
        if expr.dtype is DType.I64 and fits(self.range(expr), DType.I32):
            return self.dialect.index
        return self.dialect.types[expr.dtype]

    def counter(self, stmt: For) -> str:
        """The type of a loop's counter, which goes as far as the step takes it past the end."""
        known = self.range(stmt.counter)
        past = (known[0], known[1] + stmt.step) if known is not None else None
        return self.type(stmt.counter) if fits(past, DType.I32) else self.dialect.types[stmt.counter.dtype]

    def text(self, expr: Expr) -> str:
        found = self.texts.get(id(expr))
        return found if found is not None else self.write(expr)

    def write(self, expr: Expr) -> str:
        if expr.lanes > 1:
            raise unsupported(self.dialect, "vectors")
        match expr:
            case Const(value=value, dtype=dtype):
                return literal(value, dtype)
            case Var(name=name):
                return self.name(name)
            case Ramp(base=value) | Splat(value=value) | Fold(value=value):
                return self.text(value)
            case Load(buffer=buffer, index=index, mask=mask):
                place = f"{self.name(buffer.name)}[{self.number(index)}]"
                return place if mask is None else f"({self.text(mask)} ? {place} : 0)"
            case Apply(primitive=Primitive.CAST, operands=(value,), dtype=dtype):
                return self.cast(self.text(value), value.dtype, dtype)
            case Apply(primitive=Primitive.BITCAST, operands=(value,), dtype=dtype):
                return self.bitcast(self.text(value), value.dtype, dtype)
            case Apply():
                return self.apply(expr)
            case Shuffle(values=values, picks=picks):
                return self.text(values[picks[0]])
            case Exchange(value=value, distance=distance):
                if not self.dialect.exchange:
                    raise unsupported(self.dialect, "exchange between threads")
                return self.dialect.exchange.format(self.bare(value), distance, d=value.dtype.value)

    def number(self, expr: Expr) -> str:
        """An expression; a small constant without its suffix, for where it meets nothing narrower."""
        if isinstance(expr, Const) and expr.lanes == 1 and abs(int(expr.value)) < 1 << 31:
            return str(expr.value) if int(expr.value) >= 0 else f"({expr.value})"
        return self.bare(expr)

    def bare(self, expr: Expr) -> str:
        """An expression without parentheses around all of it, of which compilers warn in a condition."""
        text = self.text(expr)
        return text[1:-1] if text.startswith("(") and _paired(text) else text

    def apply(self, expr: Apply) -> str:
        primitive, operands = expr.primitive, expr.operands
        dtype = operands[1].dtype if primitive is P.SELECT else operands[0].dtype
        given = [self.text(o) for o in operands]
        if primitive.is_comparison and not dtype.is_float:
            known = settled(primitive, operands, dtype)
            if known is not None:
                return f"((void){given[0]}, (void){given[1]}, {int(known)})"
        if primitive in (P.DIV, P.REM) and isinstance(by := operands[1], Const) and dtype.is_integer and by.value not in (0, -1):
            text = f"({given[0]} {'/' if primitive is P.DIV else '%'} {given[1]})"
            return text if dtype.bits >= 32 else f"({self.dialect.types[dtype]}){text}"
        if dtype in _PLAIN and primitive in _INFIX and fits(found := combined(primitive, *map(self.range, operands)), dtype):
            both = all(isinstance(o, Const) for o in operands)
            a, b = given if both else self.operands(operands)
            wide = "" if fits(found, DType.I32) else f"({self.dialect.types[dtype]})"
            return f"({wide}{a} {_INFIX[primitive]} {b})"
        if primitive.is_comparison and dtype in _PLAIN and not all(isinstance(o, Const) for o in operands):
            given = list(self.operands(operands))
        if dtype.is_half and primitive is not P.SELECT:
            raise unsupported(self.dialect, f"'{primitive.value}' of {dtype}")
        return self.spell(primitive, given, dtype)

    def operands(self, exprs: tuple[Expr, ...]) -> Iterator[str]:
        """Operands of one signed type, of which constants need not say it."""
        return (self.number(e) if isinstance(e, Const) else self.text(e) for e in exprs)

    def spell(self, primitive: Primitive, given: list[str], dtype: DType) -> str:
        float_suffix = "f" if dtype is DType.F32 else ""
        if primitive is P.ABS and dtype.is_integer and not dtype.is_signed:
            return given[0]
        return self.dialect.spelling(primitive, dtype).format(
            *given, t=self.dialect.types[dtype], w=arithmetic(dtype), d=dtype.value, f=float_suffix, one=f"1.0{float_suffix}"
        )

    def cast(self, value: str, source: DType, dtype: DType) -> str:
        if source is dtype:
            return value
        if source.is_half:
            return self.cast(f"f32_of_{source.value}({value})", DType.F32, dtype)
        if dtype is DType.BOOL:
            return f"({value} != 0)"
        if dtype.is_half:
            narrow = f"odd_of_f64({value})" if source is DType.F64 else self.cast(value, source, DType.F32)
            return f"{dtype.value}_of_f32({narrow})"
        if source.is_float and dtype.is_integer:
            return f"cast_{source.value}_{dtype.value}({value})"
        return f"({self.dialect.types[dtype]})({value})" if not value.startswith("(") else f"({self.dialect.types[dtype]}){value}"

    def bitcast(self, value: str, source: DType, dtype: DType) -> str:
        held = {DType.F16: DType.U16, DType.BF16: DType.U16}
        source, dtype = held.get(source, source), held.get(dtype, dtype)
        if source is dtype:
            return value
        if source.is_integer and dtype.is_integer:
            return f"({self.dialect.types[dtype]})({value})"
        return f"bitcast_{source.value}_{dtype.value}({value})"


def _paired(text: str) -> bool:
    """Whether the first parenthesis closes at the end."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def settled(primitive: Primitive, operands: tuple[Expr, ...], dtype: DType) -> bool | None:
    """A comparison with the end of a type's range whose answer does not depend on the value: compilers warn of them."""
    low, high = type_range(dtype)
    a, b = operands
    if isinstance(b, Const):
        if primitive is P.LT and b.value == low:
            return False
        if primitive is P.LE and b.value == high:
            return True
    if isinstance(a, Const):
        if primitive is P.LT and a.value == high:
            return False
        if primitive is P.LE and a.value == low:
            return True
    return None
