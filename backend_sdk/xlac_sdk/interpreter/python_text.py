"""Kernels as Python source over NumPy: what the interpreter runs.

Scalar integers are Python ints kept within their type's range, scalar floats NumPy scalars, vectors
1-d arrays (or a NumPy scalar that stands for equal lanes). Every access is checked; names get a
prefix, so no name of a kernel meets one of Python.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Apply,
    Assign,
    Await,
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
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import Range, combined, fits, type_range
from xlac_sdk.kernel_ir.sharing import named, roots

P = Primitive
INFIX = {
    P.ADD: "+",
    P.SUB: "-",
    P.MUL: "*",
    P.LT: "<",
    P.LE: "<=",
    P.EQ: "==",
    P.NE: "!=",
    P.AND: "&",
    P.OR: "|",
    P.XOR: "^",
}


class Text:
    """The Python source of one kernel, and the objects that it names. `looks`: loops, by identity,
    whose turns go through a function `looking`, which may end the call."""

    def __init__(self, kernel: Kernel, looks: Container[int] = ()) -> None:
        self.kernel, self.looks = kernel, looks
        self.names: dict[str, object] = {}  # constants, by the name that the source uses
        # named expressions of the statement being written
        self.texts: dict[int, tuple[str, Range]] = {}
        self.pinned: list[Expr] = []  # keeps ids alive
        self.count = 0
        parameters = [f"b_{b.name}" for b in kernel.parameters] + [
            f"v_{v.name}" for v in kernel.sizes
        ]
        self.lockstep = _has(kernel.body, (Barrier, Await, Exchange))
        lines = [f"def kernel({', '.join(parameters)}):"]
        lines += [f"    n_{b.name} = len(b_{b.name})" for b in kernel.parameters]
        lines += [
            f"    w_{b.name} = unwritten(n_{b.name})" for b in kernel.parameters if _watched(b)
        ]
        lines += self.block(kernel.body, 1)
        self.source = "\n".join([*lines, "    return", ""])

    def fresh(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def constant(self, hint: str, value: object) -> str:
        name = self.fresh(hint)
        self.names[name] = value
        return name

    # ---- statements --------------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...], depth: int) -> Iterator[str]:
        pad = "    " * depth
        if not body:
            yield f"{pad}pass"
        for stmt in body:
            self.texts.clear()
            # what is awaited is computed anew each time
            self.pinned = [] if isinstance(stmt, Await) else named(roots(stmt))
            for expr in self.pinned:
                text, bounds = self.write(expr)
                name = self.fresh("t")
                yield f"{pad}{name} = {text}"
                self.texts[id(expr)] = name, bounds
            yield from self.statement(stmt, depth, pad)

    def statement(self, stmt: Stmt, depth: int, pad: str) -> Iterator[str]:
        match stmt:
            case For():
                yield from self.loop(stmt, depth, pad)
            case Let(var=var, value=value) | Assign(var=var, value=value):
                yield f"{pad}v_{var.name} = {self.value(value)}"
            case Store():
                yield from self.store(stmt, pad)
            case If(condition=condition, then=then, otherwise=otherwise):
                yield f"{pad}if {self.text(condition)}:"
                yield from self.block(then, depth + 1)
                if otherwise:
                    yield f"{pad}else:"
                    yield from self.block(otherwise, depth + 1)
            case Allocate(buffer=buffer):
                yield from self.allocate(buffer, pad)
            case Instruction(meaning=meaning):
                yield from self.block(meaning, depth)
            case Barrier():
                yield f"{pad}yield None"
            case Await(condition=condition):
                yield f"{pad}yield lambda: {self.text(condition)}"
            case Prefetch():
                yield f"{pad}pass"

    def loop(self, stmt: For, depth: int, pad: str) -> Iterator[str]:
        bounds = f"{self.text(stmt.start)}, {self.text(stmt.stop)}, {stmt.step}"
        if not (stmt.kind is LoopKind.THREAD and self.lockstep):
            turns = f"looking(range({bounds}))" if id(stmt) in self.looks else f"range({bounds})"
            yield f"{pad}for v_{stmt.counter.name} in {turns}:"
            yield from self.block(stmt.body, depth + 1)
            return
        # threads in step: each iteration is a generator that stops at barriers and exchanges
        counters: list[str] = []
        ranges: list[str] = []
        body: tuple[Stmt, ...] = (stmt,)
        while (
            len(body) == 1 and isinstance(inner := body[0], For) and inner.kind is LoopKind.THREAD
        ):
            counters.append(f"v_{inner.counter.name}")
            ranges.append(f"range({self.text(inner.start)}, {self.text(inner.stop)}, {inner.step})")
            body = inner.body
        name = self.fresh("thread")
        yield f"{pad}def {name}({', '.join(counters)}):"
        yield from self.block(body, depth + 1)
        yield f"{pad}    return"
        yield f"{pad}    yield"
        yield f"{pad}lockstep([{name}(*at) for at in product({', '.join(ranges)})])"

    def allocate(self, buffer: Buffer, pad: str) -> Iterator[str]:
        name = buffer.name
        yield f"{pad}n_{name} = {buffer.size}"
        yield f"{pad}b_{name} = poisoned({self.dtype(buffer.dtype)}, n_{name})"
        yield f"{pad}w_{name} = unwritten(n_{name})"

    def store(self, stmt: Store, pad: str) -> Iterator[str]:
        buffer, name = stmt.buffer, stmt.buffer.name
        lanes, at = stmt.value.lanes, self.fresh("i")
        value = self.text(stmt.value)
        yield f"{pad}{at} = {self.index(stmt)}"
        watched = _watched(buffer)
        written = f"w_{name}" if watched else "None"
        if stmt.atomic is not None or stmt.mask is not None or stmt.index.lanes > 1:
            mask = "None" if stmt.mask is None else self.text(stmt.mask)
            how = (
                f"{self.constant('p', stmt.atomic)}, {self.dtype(buffer.dtype)}"
                if stmt.atomic is not None
                else "None, None"
            )
            yield f"{pad}scatter({name!r}, b_{name}, {written}, {at}, {value}, {mask}, {lanes}, {how})"
            return
        if lanes == 1:
            yield f"{pad}if not 0 <= {at} < n_{name}: outside({name!r}, {at}, 1, n_{name})"
            yield f"{pad}b_{name}[{at}] = {value}"
            if watched:
                yield f"{pad}w_{name}[{at}] = True"
            return
        yield f"{pad}if not 0 <= {at} <= n_{name} - {lanes}: outside({name!r}, {at}, {lanes}, n_{name})"
        yield f"{pad}b_{name}[{at}:{at} + {lanes}] = {value}"
        if watched:
            yield f"{pad}w_{name}[{at}:{at} + {lanes}] = True"

    # ---- expressions -------------------------------------------------------------------------

    def text(self, expr: Expr) -> str:
        return self.expr(expr)[0]

    def value(self, expr: Expr) -> str:
        """Text of a value that outlives its statement: never a view of a buffer that may change."""
        text = self.text(expr)
        match expr:
            case Load(buffer=Buffer(access=Access.READ, space=Space.GLOBAL)):
                return text
            case (
                Load()
                | Splat()
                | Shuffle()
                | Exchange()
                | Apply(primitive=Primitive.BITCAST | Primitive.CAST)
            ):
                return text if expr.lanes == 1 else f"{text}.copy()"
        return text

    def expr(self, expr: Expr) -> tuple[str, Range]:
        found = self.texts.get(id(expr))
        return found if found is not None else self.write(expr)

    def dtype(self, dtype: DType) -> str:
        name = f"d_{dtype.value}"
        self.names[name] = dtype.numpy
        return name

    def write(self, expr: Expr) -> tuple[str, Range]:
        match expr:
            case Const():
                return self.const(expr)
            case Var(name=name, low=low, high=high):
                return f"v_{name}", None if low is None or high is None else (low, high)
            case Ramp(base=base, stride=stride, lanes=lanes):
                steps = self.constant(
                    "k", np.arange(lanes).astype(base.dtype.numpy) * base.dtype.numpy.type(stride)
                )
                return f"({self.wide(base)} + {steps})", None
            case Splat(value=value):
                return self.wide(value), None
            case Load():
                return self.load(expr), None
            case Apply(lanes=1):
                return self.scalar(expr)
            case Apply():
                return self.vector(expr), None
            case Fold(primitive=primitive, value=value):
                full = f"full({self.text(value)}, {value.lanes})"
                return self.narrow(
                    f"fold({self.constant('p', primitive)}, {full})", expr.dtype
                ), None
            case Shuffle(values=values, picks=picks):
                return self.shuffle(values, picks, expr.dtype), None
            case Exchange(value=value, distance=distance):
                return f"(yield ({distance}, {self.text(value)}))", None

    def const(self, expr: Const) -> tuple[str, Range]:
        if expr.lanes > 1 or expr.dtype.is_float:
            with np.errstate(all="ignore"):
                return self.constant("c", expr.dtype.numpy.type(expr.value)), None
        if expr.dtype is DType.BOOL:
            return str(bool(expr.value)), None
        number = int(expr.value)
        return (f"({number})" if number < 0 else str(number)), (number, number)

    def wide(self, value: Expr) -> str:
        """A scalar as a NumPy scalar, standing for equal lanes."""
        text = self.text(value)
        return text if value.dtype.is_float else f"{self.dtype(value.dtype)}.type({text})"

    def narrow(self, text: str, dtype: DType) -> str:
        """A 0-d result as the scalar that the other texts expect."""
        return f"{text}[()]" if dtype.is_float else f"{text}.item()"

    def load(self, expr: Load) -> str:
        name, lanes = expr.buffer.name, expr.lanes
        watched = _watched(expr.buffer)
        written = f"w_{name}" if watched else "None"
        if expr.mask is not None or expr.index.lanes > 1:
            mask = "None" if expr.mask is None else self.text(expr.mask)
            text = f"gather({name!r}, b_{name}, {written}, {self.index(expr)}, {mask}, {lanes})"
            return text if lanes > 1 else self.narrow(f"{text}[0]", expr.dtype)
        at = self.fresh("i")
        index = self.index(expr)
        if lanes == 1:
            item = f"b_{name}[{at}]" if expr.dtype.is_float else f"b_{name}.item({at})"
            test = f" and w_{name}[{at}]" if watched else ""
            return f"({item} if 0 <= ({at} := {index}) < n_{name}{test} else outside({name!r}, {at}, 1, n_{name}))"
        test = f" and w_{name}[{at}:{at} + {lanes}].all()" if watched else ""
        part = f"b_{name}[{at}:{at} + {lanes}]"
        return f"({part} if 0 <= ({at} := {index}) <= n_{name} - {lanes}{test} else outside({name!r}, {at}, {lanes}, n_{name}))"

    def index(self, access: Load | Store) -> str:
        """Where an access begins; of several elements that are said to be aligned, checked."""
        text, buffer = self.text(access.index), access.buffer
        lanes = access.lanes if isinstance(access, Load) else access.value.lanes
        step = access.align // buffer.dtype.nbytes
        if lanes == 1 or access.index.lanes > 1 or step <= 1:
            return text
        mask = "True" if access.mask is None else self.text(access.mask)
        return f"aligned({buffer.name!r}, {text}, {step}, {mask})"

    def shuffle(self, values: tuple[Expr, ...], picks: tuple[int, ...], dtype: DType) -> str:
        parts = [
            f"full({self.wide(v) if v.lanes == 1 else self.text(v)}, {v.lanes})" for v in values
        ]
        whole = parts[0] if len(parts) == 1 else f"concatenate(({', '.join(parts)}))"
        if len(picks) == 1:
            return self.narrow(f"{whole}[{picks[0]}]", dtype)
        return f"{whole}[{self.constant('k', np.array(picks))}]"

    def vector(self, expr: Apply) -> str:
        given = [self.text(o) for o in expr.operands]
        infix = INFIX.get(expr.primitive)
        if infix is not None:
            return f"({given[0]} {infix} {given[1]})"
        name = self.constant("p", expr.primitive)
        return f"evaluate({name}, ({', '.join(given)},), {self.constant('dt', expr.dtype)})"

    def scalar(self, expr: Apply) -> tuple[str, Range]:
        primitive, dtype = expr.primitive, expr.operands[0].dtype
        parts = [self.expr(o) for o in expr.operands]
        given = [text for text, _ in parts]
        infix = INFIX.get(primitive)
        if primitive.is_comparison or (infix in ("&", "|", "^") and infix is not None):
            return f"({given[0]} {infix} {given[1]})", None
        if primitive is P.SELECT:
            return f"choose({', '.join(given)})", None
        if dtype.is_float and infix is not None:
            return f"({given[0]} {infix} {given[1]})", None
        if dtype.is_integer and infix is not None:
            known = combined(primitive, parts[0][1], parts[1][1])
            return self.wrapped(f"({given[0]} {infix} {given[1]})", known, dtype)
        if primitive is P.CAST and not dtype.is_float and expr.dtype.is_integer:
            return self.wrapped(f"int({given[0]})", parts[0][1], expr.dtype)
        if primitive in (P.DIV, P.REM) and dtype.is_integer:
            known = combined(primitive, parts[0][1], parts[1][1])
            if known is not None:
                return f"({given[0]} {'//' if primitive is P.DIV else '%'} {given[1]})", known
        wide = [
            text if o.dtype.is_float else f"{self.dtype(o.dtype)}.type({text})"
            for text, o in zip(given, expr.operands, strict=True)
        ]
        call = f"evaluate({self.constant('p', primitive)}, ({', '.join(wide)},), {self.constant('dt', expr.dtype)})"
        return self.narrow(call, expr.dtype), None

    def wrapped(self, text: str, known: Range, dtype: DType) -> tuple[str, Range]:
        """An integer result brought back into its type's range, unless it cannot leave it."""
        if fits(known, dtype):
            return text, known
        high = type_range(dtype)[1]
        if dtype.is_signed:
            return f"((({text} + {high + 1}) & {2 * high + 1}) - {high + 1})", None
        return f"({text} & {high})", None


def _watched(buffer: Buffer) -> bool:
    """Whether elements may be read only after the kernel wrote them."""
    return buffer.space is not Space.GLOBAL or buffer.access is Access.REREAD


def _has(body: tuple[Stmt, ...], kinds: tuple[type, ...]) -> bool:
    from xlac_sdk.kernel_ir.sharing import walk

    for stmt in body:
        if isinstance(stmt, kinds) or any(isinstance(e, kinds) for e in walk(roots(stmt))):
            return True
        if any(_has(inner, kinds) for inner in children(stmt)):
            return True
    return False
