"""Statements of kernels as LLVM text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from xlac_cpu.emit import access
from xlac_cpu.emit.bytes import matrix_tiles
from xlac_cpu.emit.expressions import LlvmExpressions
from xlac_cpu.emit.in_step import InStep
from xlac_cpu.emit.lanes import WHOLE, packed_bytes
from xlac_cpu.emit.spelling import is_literal, memory, register
from xlac_cpu.emit.stopping import function
from xlac_cpu.emit.style import Style
from xlac_cpu.emit.writer import LlvmWriter
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Assign,
    Await,
    Barrier,
    Buffer,
    Expr,
    For,
    HandWritten,
    If,
    Instruction,
    Kernel,
    Let,
    LoopKind,
    Prefetch,
    Space,
    Stmt,
    Store,
    TensorMap,
    children,
    statements,
)
from xlac_sdk.source import Diagnostic, LimitError, UnsupportedError

STACK = 4 << 20  # bytes of local buffers in one kernel: half of a usual thread stack
NEVER: Mapping[int, int] = {}
STRIP = "@.strip"  # the function of a strip of a kernel's loop, before the kernel has a name


def _certain(start: str, stop: str) -> bool:
    """Whether a loop is known to run at least once."""
    return is_literal(start) and is_literal(stop) and int(start) < int(stop)


def _kept_apart(body: str) -> str:
    """Removes the `contract` flag from products that are used more than once: expansions compute
    rounding errors from such a product and its sum, which must have seen the same value.
    """
    uses = Counter(re.findall(r"%t\d+", body))
    return re.sub(
        r"(%t\d+) = fmul contract", lambda m: f"{m[1]} = fmul" if uses[m[1]] > 2 else m[0], body
    )


class KernelWriter(LlvmExpressions):
    """Writes statements."""

    def __init__(
        self, style: Style, declarations: dict[str, None], kernel: Kernel, aligns: tuple[int, ...]
    ) -> None:
        writer = LlvmWriter(declarations, style.ternary, style.narrow, style.nearest)
        super().__init__(writer, style)
        self.names = {var.name: f"%n{i}" for i, var in enumerate(kernel.sizes)}
        self.buffers = {
            b: (f"%p{i}", a) for i, (b, a) in enumerate(zip(kernel.parameters, aligns, strict=True))
        }
        # the loop of which only the iterations from %begin to %end run
        self.ranged: For | None = None
        self.some = False  # whether there is at least one of them
        self.stop_checks = NEVER
        self.streamed = False
        self._changed: dict[int, dict[str, str]] = {}  # by the identity of blocks
        self.stack_bytes = 0
        self.in_step = InStep(writer, 4 * style.lanes if style.in_step else 0)

    def whole(self, kernel: Kernel) -> str:
        """The text of a kernel."""
        self.statements(kernel.body)
        if self.streamed and self.style.fence:
            self.w.do(f"call void @{self.w.declare('void', self.style.fence)}()")
        return self.left()

    def calls(self, loop: For, given: list[str]) -> str:
        """The text of a kernel that is one loop: calls of `STRIP` with the range of each strip."""
        start, stop = self.ends(loop)
        with self.strips(loop, start, stop, self.stop_checks[id(loop)], _certain(start, stop)) as (
            first,
            end,
        ):
            self.w.do(f"call void {STRIP}({', '.join([*given, f'i64 {first}', f'i64 {end}'])})")
        return self.left()

    def left(self) -> str:
        """The text so far; stop checks branch to its end."""
        if self.stop_checks:
            self.w.do("br label %leave")
            self.w.label("leave")
        return self.text()

    def text(self, result: str = "void") -> str:
        """The text so far, and a return."""
        body = self.w.text(result)
        return _kept_apart(body) if self.style.eager else body

    def statements(self, body: tuple[Stmt, ...]) -> None:
        """Writes a block; names defined in it are dropped after it."""
        names = self.names
        self.names = dict(names)
        for stmt in body:
            self.memo.clear()
            self.alive.clear()
            self.statement(stmt)
        self.names = names

    def statement(self, stmt: Stmt) -> None:
        """Writes one statement."""
        w = self.w
        match stmt:
            case Let(var=var, value=value, mutable=False):
                self.names[var.name] = self.in_step(value, self.value(value))
                w.current.pop(var.name, None)
            case Let(var=var, value=value) | Assign(var=var, value=value):
                w.current[var.name] = self.value(value)
            case Store():
                self.store(stmt)
            case For():
                self.loop(stmt)
            case If(condition=condition, then=then, otherwise=otherwise):
                self.branch(self.value(condition), then, otherwise)
            case Allocate(buffer=buffer):
                assert isinstance(buffer.size, int)
                self.stack_bytes += buffer.size * buffer.dtype.nbytes
                if self.stack_bytes > STACK:
                    problem = f"a kernel needs {self.stack_bytes} bytes of stack, more than {STACK}"
                    raise LimitError(Diagnostic("XL4101", problem))
                cell = w.stack(f"[{max(1, buffer.size)} x {memory(buffer.dtype)}]", buffer.align)
                self.buffers[buffer] = (cell, buffer.align)
            case Prefetch(buffer=buffer, index=index, write=write):
                pointer = self.pointer(buffer, index)
                name = w.declare("void", "llvm.prefetch.p0", "ptr", "i32", "i32", "i32")
                w.do(f"call void @{name}(ptr {pointer}, i32 {int(write)}, i32 2, i32 1)")
            case Instruction(code=HandWritten(symbol=symbol), operands=operands):
                given = list(map(self.argument, operands))
                w.declare("void", symbol, *(kind for kind, _ in given))
                w.do(f"call void @{symbol}({', '.join(f'{k} {v}' for k, v in given)})")
            case Instruction(name=name) if self.style.matrix and name in matrix_tiles.PRODUCTS:
                matrix_tiles.write(self, stmt)
            case Instruction(meaning=meaning):
                self.statements(meaning)
            case Barrier() | Await():
                raise UnsupportedError(
                    Diagnostic(
                        "XL5103", "a barrier between threads of a block is not supported on a CPU"
                    )
                )

    def argument(self, operand: Expr | Buffer | TensorMap) -> tuple[str, str]:
        """The type and the value of an argument of a hand-written function."""
        assert not isinstance(operand, TensorMap), "hand-written functions take arrays and numbers"
        if isinstance(operand, Buffer):
            return "ptr", self.buffers[operand][0]
        return ("double" if operand.dtype.is_float else "i64"), self.value(operand)

    def loop(self, stmt: For) -> None:
        """Writes a loop: unrolled, in strips with stop checks between them, or iteration by
        iteration.
        """
        start, stop = self.ends(stmt)
        literal = is_literal(start) and is_literal(stop)
        if stmt.kind is LoopKind.UNROLLED and literal:
            for count in range(int(start), int(stop), stmt.step):
                self.names[stmt.counter.name] = str(count)
                self.statements(stmt.body)
            return
        dtype = stmt.counter.dtype
        turns = self.stop_checks.get(id(stmt), 0)
        if literal and int(stop) - int(start) <= turns * stmt.step:
            turns = 0  # it ends before the first check
        if dtype.bits < 64:  # the counter of a strip cannot be beyond its type's range
            turns = min(turns, 1)
        certain = self.some if stmt is self.ranged else _certain(start, stop)
        if turns > 1:
            with self.strips(stmt, start, stop, turns, certain) as (first, end):
                self.turns(stmt, first, end, certain=True)
        else:
            self.turns(stmt, start, stop, certain, self.check_stop if turns else None)

    def ends(self, stmt: For) -> tuple[str, str]:
        """The start and end of a loop."""
        return (
            ("%begin", "%end")
            if stmt is self.ranged
            else (self.value(stmt.start), self.value(stmt.stop))
        )

    def turns(
        self,
        stmt: For,
        start: str,
        stop: str,
        certain: bool,
        between: Callable[[], None] | None = None,
    ) -> None:
        """Writes the iterations of a loop from `start` to `stop`."""
        kind, order = register(stmt.counter.dtype), "s" if stmt.counter.dtype.is_signed else "u"
        carried = self.changed(stmt.body)
        single = not any(isinstance(inner, For) for inner in statements(stmt.body))
        ends = (start, stop, stmt.step, kind, order, certain, between)
        with self.w.loop(*ends, carried, single) as counter:
            self.names[stmt.counter.name] = counter
            self.w.current.pop(stmt.counter.name, None)
            self.statements(stmt.body)

    @contextmanager
    def strips(
        self, stmt: For, start: str, stop: str, turns: int, certain: bool
    ) -> Iterator[tuple[str, str]]:
        """A loop over strips of `turns` iterations, between which the kernel has stop checks."""
        w, kind = self.w, register(stmt.counter.dtype)
        order = "s" if stmt.counter.dtype.is_signed else "u"
        length = turns * stmt.step
        ends = (start, stop, length, kind, order, certain, self.check_stop)
        with w.loop(*ends, self.changed(stmt.body)) as first:
            after = w.op(f"add {kind} {first}, {length}")
            end = w.op(
                f"select i1 {w.op(f'icmp {order}lt {kind} {after}, {stop}')}, {kind} {after}, "
                f"{kind} {stop}"
            )
            yield first, end

    def check_stop(self) -> None:
        """Leaves the kernel on a stop request."""
        function.check_stop(self.w, "%stop")

    def branch(self, condition: str, then: tuple[Stmt, ...], otherwise: tuple[Stmt, ...]) -> None:
        """Writes an `if`; just one block if the condition is constant."""
        if condition in ("true", "false"):
            self.statements(then if condition == "true" else otherwise)
            return
        w = self.w
        changed = {**self.changed(then), **self.changed(otherwise)}
        before, start = w.block, {name: w.current[name] for name in changed}
        yes, no, out = w.name("then"), w.name("else"), w.name("end")
        w.do(f"br i1 {condition}, label %{yes}, label %{no if otherwise else out}")
        ends = [] if otherwise else [(before, start)]
        for label, block in ((yes, then), (no, otherwise)):
            if block or label is yes:
                w.label(label)
                w.current.update(start)
                with w.scope():
                    self.statements(block)
                ends.append((w.block, {name: w.current[name] for name in changed}))
                w.do(f"br label %{out}")
        w.label(out)
        for name, kind in changed.items():
            values = ", ".join(f"[ {values[name]}, %{block} ]" for block, values in ends)
            w.current[name] = w.fresh(f"phi {kind} {values}")

    def changed(self, body: tuple[Stmt, ...]) -> dict[str, str]:
        """The mutable names to which a block gives new values, but for its own, with their
        types.
        """
        known = self._changed.get(id(body))
        if known is None:
            known, own = {}, set()
            for stmt in body:
                if isinstance(stmt, Assign):
                    known[stmt.var.name] = register(stmt.var.dtype, stmt.var.lanes)
                elif isinstance(stmt, Let) and stmt.mutable:
                    own.add(stmt.var.name)
                else:
                    for block in children(stmt):
                        known |= self.changed(block)
            known = {name: kind for name, kind in known.items() if name not in own}
            self._changed[id(body)] = known
        return known

    def store(self, stmt: Store) -> None:
        """Writes a store: plain, masked, streaming or atomic."""
        dtype, lanes = stmt.buffer.dtype, max(stmt.value.lanes, stmt.index.lanes)
        value = self.value(stmt.value)
        if lanes == WHOLE and self.w.ternary and value in self.w.rounded_bytes:
            value = packed_bytes(self.w, *self.w.rounded_bytes[value])
        mask = None if stmt.mask is None else self.value(stmt.mask)
        place = self.place(stmt.buffer, stmt.index, lanes, stmt.align)
        if stmt.atomic is not None:
            shared = self.style.threads and stmt.buffer.space is Space.GLOBAL
            access.combine(self.w, stmt.atomic, place, value, dtype, lanes, mask, self, shared)
        else:
            self.streamed |= stmt.streaming
            access.write(self.w, place, value, dtype, lanes, mask, stmt.streaming)
