"""Kernels as Python source over NumPy, which the interpreter runs.

Scalar integers are Python ints kept within their type's range, scalar floats NumPy scalars, vectors
1-d arrays (or a NumPy scalar for equal lanes). Every access is checked; names get a prefix, so that
they cannot collide with Python's.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from xlac_sdk.interpreter.python_expressions import PythonExpressions, is_watched
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Assign,
    Await,
    Barrier,
    Buffer,
    Exchange,
    Expr,
    For,
    HandWritten,
    If,
    Instruction,
    Kernel,
    Let,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    children,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import named, roots, walk

P = Primitive


class PythonText(PythonExpressions):
    """The Python source of one kernel, and the objects that it refers to. `stop_checks`: loops, by
    identity, whose iterations pass through a function `checking`, which may end the call.
    """

    def __init__(self, kernel: Kernel, stop_checks: Container[int] = ()) -> None:
        super().__init__(kernel)
        self.stop_checks = stop_checks
        self.pinned: list[Expr] = []  # keeps objects alive, so that ids are not reused
        parameters = [f"b_{b.name}" for b in kernel.parameters] + [
            f"v_{v.name}" for v in kernel.sizes
        ]
        self.lockstep = _has(kernel.body, (Barrier, Await, Exchange))
        lines = [f"def kernel({', '.join(parameters)}):"]
        lines += [f"    n_{b.name} = len(b_{b.name})" for b in kernel.parameters]
        lines += [
            f"    w_{b.name} = unwritten(n_{b.name})" for b in kernel.parameters if is_watched(b)
        ]
        lines += self.block(kernel.body, 1)
        self.source = "\n".join([*lines, "    return", ""])

    # ---- statements --------------------------------------------------------------------------

    def block(self, body: tuple[Stmt, ...], depth: int) -> Iterator[str]:
        """Statements, indented."""
        pad = "    " * depth
        if not body:
            yield f"{pad}pass"
        for stmt in body:
            self.texts.clear()
            # an awaited condition is re-evaluated each time, so nothing is hoisted
            self.pinned = [] if isinstance(stmt, Await) else named(roots(stmt))
            for expr in self.pinned:
                text, bounds = self.write(expr)
                name = self.fresh("t")
                yield f"{pad}{name} = {text}"
                self.texts[id(expr)] = name, bounds
            yield from self.statement(stmt, depth, pad)

    def statement(self, stmt: Stmt, depth: int, pad: str) -> Iterator[str]:
        """One statement, after definitions of what it uses more than once."""
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
            case Instruction(code=HandWritten(file=file)):
                yield f"{pad}hand_written({file!r})"
            case Instruction(meaning=meaning):
                yield from self.block(meaning, depth)
            case Barrier():
                yield f"{pad}yield None"
            case Await(condition=condition):
                yield f"{pad}yield lambda: {self.text(condition)}"
            case Prefetch():
                yield f"{pad}pass"

    def loop(self, stmt: For, depth: int, pad: str) -> Iterator[str]:
        """A loop; for a loop over threads, a generator for each."""
        bounds = f"{self.text(stmt.start)}, {self.text(stmt.stop)}, {stmt.step}"
        if not (stmt.kind is LoopKind.THREAD and self.lockstep):
            turns = (
                f"checking(range({bounds}))" if id(stmt) in self.stop_checks else f"range({bounds})"
            )
            yield f"{pad}for v_{stmt.counter.name} in {turns}:"
            yield from self.block(stmt.body, depth + 1)
            return
        # lockstep: each thread is a generator that yields at barriers and exchanges
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
        """A local or shared buffer, filled with a poison pattern."""
        name = buffer.name
        yield f"{pad}n_{name} = {buffer.size}"
        yield f"{pad}b_{name} = poisoned({self.dtype(buffer.dtype)}, n_{name})"
        yield f"{pad}w_{name} = unwritten(n_{name})"

    def store(self, stmt: Store, pad: str) -> Iterator[str]:
        """A store, checked."""
        buffer, name = stmt.buffer, stmt.buffer.name
        lanes, at = stmt.value.lanes, self.fresh("i")
        value = self.text(stmt.value)
        yield f"{pad}{at} = {self.index(stmt)}"
        watched = is_watched(buffer)
        written = f"w_{name}" if watched else "None"
        if stmt.atomic is not None or stmt.mask is not None or stmt.index.lanes > 1:
            mask = "None" if stmt.mask is None else self.text(stmt.mask)
            how = (
                f"{self.constant('p', stmt.atomic)}, {self.dtype(buffer.dtype)}"
                if stmt.atomic is not None
                else "None, None"
            )
            yield (
                f"{pad}scatter({name!r}, b_{name}, {written}, {at}, {value}, {mask}, {lanes}, "
                f"{how})"
            )
            return
        if lanes == 1:
            yield f"{pad}if not 0 <= {at} < n_{name}: outside({name!r}, {at}, 1, n_{name})"
            yield f"{pad}b_{name}[{at}] = {value}"
            if watched:
                yield f"{pad}w_{name}[{at}] = 1"
            return
        yield (
            f"{pad}if not 0 <= {at} <= n_{name} - {lanes}: outside({name!r}, {at}, {lanes}, "
            f"n_{name})"
        )
        yield f"{pad}b_{name}[{at}:{at} + {lanes}] = {value}"
        if watched:
            yield f"{pad}w_{name}[{at}:{at} + {lanes}] = {bytes([1]) * lanes!r}"

    # ---- expressions -------------------------------------------------------------------------


def _has(body: tuple[Stmt, ...], kinds: tuple[type, ...]) -> bool:
    for stmt in body:
        if isinstance(stmt, kinds) or any(isinstance(e, kinds) for e in walk(roots(stmt))):
            return True
        if any(_has(inner, kinds) for inner in children(stmt)):
            return True
    return False
