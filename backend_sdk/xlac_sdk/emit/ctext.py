"""Kernels as C-family text, shared by the C, CUDA and OpenCL backends.

A `Dialect` defines the spelling of types, primitives and names; `C99` is the plain one and others
replace entries of its tables. The text has no undefined behaviour: signed arithmetic uses unsigned
types, and what C leaves undefined (division by zero, wide shifts, casts out of range) uses the
functions of `cfunctions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import C99, CFunction, Dialect, comment, literal, unsupported
from xlac_sdk.emit.cfunctions import integer
from xlac_sdk.emit.cmemory import KernelMemory
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Assign,
    Await,
    Barrier,
    Buffer,
    Const,
    Expr,
    For,
    HandWritten,
    If,
    Instruction,
    Kernel,
    Let,
    LoopKind,
    Prefetch,
    Ramp,
    Splat,
    Stmt,
    Store,
    TensorMap,
    Var,
    children,
)
from xlac_sdk.kernel_ir.ranges import fits
from xlac_sdk.kernel_ir.sharing import named, roots, walk
from xlac_sdk.programs.tensor_maps import tensor_maps
from xlac_sdk.support.limits import checkpoint

STOP = "stop_"  # the parameter of a kernel with stop checks
NEVER: Mapping[int, int] = {}

__all__ = ["C99", "CFunction", "Dialect", "comment", "kernel_text", "literal"]


def kernel_text(
    kernel: Kernel, dialect: Dialect = C99, stop_checks: Mapping[int, int] = NEVER
) -> CFunction:
    """A kernel as one function; raises UnsupportedError for what the dialect cannot express.

    `stop_checks` maps loops, by identity, to the number of iterations after which they check for a
    stop request (`xlac_sdk.lowering.stop_checks`); a kernel with such loops takes, after its other
    parameters, the address of a word that is then not 0.
    """
    checkpoint()
    writer = _StatementWriter(kernel, dialect)
    writer.stop_checks = stop_checks
    lines = tuple(writer.block(kernel.body, 1))
    used = frozenset(writer.touched)
    name = dialect.identifier
    given = [*(b.name for b in kernel.parameters), *(v.name for v in kernel.sizes)]
    lines = (*(f"    (void){name(n)};" for n in given if n not in used), *lines)
    lines = (*writer.declared(), *lines)
    parameters = [
        dialect.tensor_map.format(name=name(m.name))
        for m in tensor_maps(kernel, dialect.instructions)
    ]
    parameters += [text for b in kernel.parameters for text in writer.parameter(b)]
    parameters += [f"{dialect.size or writer.type(v)} {name(v.name)}" for v in kernel.sizes]
    parameters += [f"const volatile uint32_t *{STOP}"] * bool(stop_checks)
    return CFunction(
        dialect.function(kernel.name),
        tuple(parameters),
        lines,
        comment(kernel.note),
        tuple(writer.vectors),
    )


class _StatementWriter(KernelMemory):
    """Writes the statements of one kernel, line by line."""

    def __init__(self, kernel: Kernel, dialect: Dialect) -> None:
        super().__init__(kernel, dialect)
        self.stop_checks = NEVER
        self._reads: dict[int, frozenset[str]] = {}

    # ---- statements --------------------------------------------------------------------------

    def reads(self, stmt: Stmt) -> frozenset[str]:
        """Names that a statement and its nested blocks read."""
        known = self._reads.get(id(stmt))
        if known is None:
            names = {e.name for e in walk(roots(stmt)) if isinstance(e, Var)}
            for inner in children(stmt):
                for one in inner:
                    names |= self.reads(one)
            known = self._reads[id(stmt)] = frozenset(names)
        return known

    def block(self, body: tuple[Stmt, ...], depth: int) -> Iterator[str]:
        pad = "    " * depth
        later: list[frozenset[str]] = [frozenset()]
        for stmt in reversed(body):
            later.append(later[-1] | self.reads(stmt))
        later.reverse()
        at = 0
        while at < len(body):
            end = at + self.run(body[at:])
            if end > at:
                yield from self.together(body[at:end], later[end], pad)
            else:
                end = at + 1
                yield from self.hoisted(body[at], pad)
                yield from self.statement(body[at], depth, pad, later[end])
            at = end

    def hoisted(self, stmt: Stmt, pad: str) -> Iterator[str]:
        """Names the parts of a statement that need one."""
        self.texts.clear()
        if isinstance(stmt, Prefetch) or (
            isinstance(stmt, Instruction)
            and stmt.code is None
            and stmt.name not in self.dialect.instructions
        ):
            return
        for expr in named(roots(stmt), self.asked(stmt)):
            if expr.lanes > 1 and isinstance(expr, Ramp | Splat):
                continue  # its lanes are computed where they are used
            name = self.fresh()
            yield from self.define(name, expr, pad)
            self.texts[id(expr)] = name

    def statement(self, stmt: Stmt, depth: int, pad: str, after: frozenset[str]) -> Iterator[str]:
        match stmt:
            case For():
                yield from self.loop(stmt, depth, pad)
            case Let(var=var, value=value, mutable=mutable):
                name = self.name(var.name)
                if value.lanes > 1:
                    yield from self.define(name, value, pad, mutable)
                else:
                    const = "" if mutable else "const "
                    yield f"{pad}{const}{self.type(var)} {name} = {self.bare(value)};"
                if var.name not in after:
                    yield f"{pad}(void){name};"
            case Assign(var=var, value=value):
                yield from self.assign(self.name(var.name), value, pad)
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
            case Instruction(code=HandWritten() as code, operands=given):
                if self.dialect.language != code.language:
                    raise unsupported(self.dialect, f"function in the language of {code.file}")
                yield f"{pad}{code.symbol}({', '.join(map(self.argument, given))});"
            case Instruction(name=name, operands=given, meaning=meaning):
                spelling = self.dialect.instructions.get(name)
                if spelling is None and meaning:
                    yield f"{pad}{{"
                    yield from self.block(meaning, depth + 1)
                    yield f"{pad}}}"
                elif spelling is not None:
                    yield f"{pad}{spelling.format(*map(self.argument, given))};"
            case Barrier():
                if not self.dialect.barrier:
                    raise unsupported(self.dialect, "barrier")
                yield f"{pad}{self.dialect.barrier};"
            case Await():
                raise unsupported(self.dialect, "thread that awaits others")
            case Prefetch():
                return

    def argument(self, given: Expr | Buffer | TensorMap) -> str:
        """An operand of an instruction."""
        if isinstance(given, Buffer | TensorMap):
            return self.name(given.name)
        return self.text(given)

    def member(self, stmt: For, depth: int, pad: str) -> Iterator[str]:
        """The body of a loop over blocks or threads, for the current one."""
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
        if (
            stmt.kind is LoopKind.UNROLLED
            and isinstance(stmt.start, Const)
            and isinstance(stmt.stop, Const)
        ):
            turns = range(int(stmt.start.value), int(stmt.stop.value), stmt.step)
            if self.dialect.unroll:
                yield f"{pad}{self.dialect.unroll}"
            elif len(turns) <= self.dialect.written_out:
                for turn in turns:
                    yield f"{pad}{{"
                    if read:
                        value = integer(turn, stmt.counter.dtype)
                        yield f"{pad}    const {kind} {name} = {value};"
                    yield from self.block(stmt.body, depth + 1)
                    yield f"{pad}}}"
                return
        start = self.number(stmt.start)
        # stands alone in a comparison
        stop = self.number(stmt.stop) if isinstance(stmt.stop, Const) else self.text(stmt.stop)
        step = f"++{name}" if stmt.step == 1 else f"{name} += {stmt.step}"
        between = self.stop_checks.get(id(stmt), 0)
        if between > 1 and stmt.counter.dtype.bits == 64:
            kind = self.dialect.types[stmt.counter.dtype]
            begin, end, length = f"{name}_begin_", f"{name}_end_", between * stmt.step
            yield f"{pad}for ({kind} {begin} = {start}; {begin} < {stop}; {begin} += {length}) {{"
            least = f"{stop} - {begin} < {length} ? {stop} : {begin} + {length}"
            yield f"{pad}    const {kind} {end} = {least};"
            yield f"{pad}    for ({kind} {name} = {begin}; {name} < {end}; {step}) {{"
            yield from self.block(stmt.body, depth + 2)
            yield f"{pad}    }}"
            yield f"{pad}    if (*{STOP} != 0) return;"
            yield f"{pad}}}"
            return
        yield f"{pad}for ({kind} {name} = {start}; {name} < {stop}; {step}) {{"
        yield from self.block(stmt.body, depth + 1)
        if between:
            yield f"{pad}    if (*{STOP} != 0) return;"
        yield f"{pad}}}"

    def store(self, stmt: Store, pad: str) -> Iterator[str]:
        if stmt.value.lanes > 1:
            yield from self.store_vector(stmt, pad)
            return
        yield pad + self.stored(stmt)

    def counter(self, stmt: For) -> str:
        """The type of a loop's counter, which must hold the last value plus the step."""
        known = self.range(stmt.counter)
        past = (known[0], known[1] + stmt.step) if known is not None else None
        return (
            self.type(stmt.counter)
            if fits(past, DType.I32)
            else self.dialect.types[stmt.counter.dtype]
        )
