"""Rewrites a kernel into the primitives that a target supports.

    kernel = legalize(kernel, target)

Every `Apply` of a primitive not in `target.primitives` (or listed for its type in `target.lacks`)
becomes Lets before its statement that use only primitives of the target; special cases in
`target.guards` are made safe; a 16-bit float type not in `target.dtypes` is stored as its bits in
u16, and so are buffers of it. Everything else is unchanged, as the same objects. Expansions work
for any number of lanes: see `xlac_sdk.lowering.math`.

`fast` is the `precision: fast` of a spec: exp flushes denormal results, sin and cos are limited to
|x| < 8192 (f32; 2^19 in f64). Emitters must not let a compiler reassociate, and may contract a
product into a sum only where the product has no other use: expansions recover rounding errors by
subtraction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Assign,
    Await,
    Barrier,
    Buffer,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    TensorMap,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import distinct
from xlac_sdk.lowering.inlined import inlined
from xlac_sdk.lowering.legal_expressions import LegalExpressions
from xlac_sdk.source import UnsupportedError
from xlac_sdk.support.limits import checkpoint
from xlac_sdk.target import Target

P = Primitive


def legalize(kernel: Kernel, target: Target, fast: bool = False) -> Kernel:
    """An equivalent kernel that uses only what the target supports; the same object if it does
    already.
    """
    checkpoint()
    try:
        return _Legalizer(kernel, target, fast).run()
    except UnsupportedError as error:
        raise placed(error, kernel) from None


def placed(error: UnsupportedError, kernel: Kernel) -> UnsupportedError:
    """The error for a kernel, with the names of its operations and the place of the first, where
    these are known.
    """
    origins = kernel.origins
    if not origins or error.diagnostics[0].span is not None:
        return error
    places = ", ".join(f"'{name}'" for name in dict.fromkeys(o.name for o in origins[:3]))
    more = ", …" if len(origins) > 3 else ""
    span = next((o.span for o in origins if o.span), None)
    return UnsupportedError(
        *(replace(d, message=f"{d.message}: {places}{more}", span=span) for d in error.diagnostics)
    )


class _Legalizer(LegalExpressions):
    """Rewrites the statements of one kernel."""

    def run(self) -> Kernel:
        if not self._missing and all(map(self._is_legal, distinct(self.kernel.body))):
            return self.kernel
        parameters = tuple(map(self._buffer, self.kernel.parameters))
        body = self._block(self.kernel.body)
        same = body is self.kernel.body and all(
            a is b for a, b in zip(parameters, self.kernel.parameters, strict=True)
        )
        return self.kernel if same else replace(self.kernel, parameters=parameters, body=body)

    # ---- statements ---------------------------------------------------------------------------

    def _block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        result: list[Stmt] = []
        for stmt in body:
            result += self._stmt(stmt)
        same = len(result) == len(body) and all(a is b for a, b in zip(result, body, strict=True))
        return body if same else tuple(result)

    def _stmt(self, stmt: Stmt) -> Iterator[Stmt]:
        """The rewritten statement, after the statements that must precede it."""
        match stmt:
            case For(start=start, stop=stop, body=body):
                parts = self._exprs(start, stop)
                before = self._writer.take()
                # it must stay the only statement of its kernel
                if stmt.kind in (LoopKind.PARALLEL, LoopKind.BLOCK) and before:
                    parts, before = inlined(parts, before), []
                inner = self._block(body)
                if parts[0] is not start or parts[1] is not stop or inner is not body:
                    stmt = replace(stmt, start=parts[0], stop=parts[1], body=inner)
            case If(condition=condition, then=then, otherwise=otherwise):
                (new,) = self._exprs(condition)
                before = self._writer.take()
                blocks = self._block(then), self._block(otherwise)
                if new is not condition or blocks[0] is not then or blocks[1] is not otherwise:
                    stmt = If(new, *blocks)
            case Instruction():
                stmt, before = self._instruction(stmt)
            case Let(var=var, value=value) | Assign(var=var, value=value):
                (new,) = self._exprs(value)
                before = self._writer.take()
                name_ = self._var(var)
                if new is not value or name_ is not var:
                    stmt = replace(stmt, var=name_, value=new)
            case Store():
                stmt, before = self._store(stmt)
            case Prefetch(buffer=buffer, index=index):
                (new,) = self._exprs(index)
                before = self._writer.take()
                if new is not index or self._buffer(buffer) is not buffer:
                    stmt = replace(stmt, buffer=self._buffer(buffer), index=new)
            case Allocate(buffer=buffer):
                before = []
                stmt = stmt if self._buffer(buffer) is buffer else Allocate(self._buffer(buffer))
            case Await(condition=condition):
                (new,) = self._exprs(condition)
                before = self._writer.take()
                assert not before, (
                    "an awaited condition is evaluated repeatedly, so it must use primitives that "
                    "every "
                    "target has"
                )
                stmt = stmt if new is condition else Await(new)
            case Barrier():
                before = []
        yield from before
        yield stmt

    def _instruction(self, stmt: Instruction) -> tuple[Stmt, list[Stmt]]:
        """An instruction, and the statements that must precede it. For one that the target lacks,
        only the meaning is rewritten.
        """
        given = stmt.operands
        if stmt.code is not None or stmt.name in self.target.instructions:
            exprs = iter(self._exprs(*(o for o in given if not isinstance(o, Buffer | TensorMap))))
            given = tuple(
                self._named(o) if isinstance(o, Buffer | TensorMap) else next(exprs) for o in given
            )
        before = self._writer.take()
        return replace(stmt, operands=given, meaning=self._block(stmt.meaning)), before

    def _store(self, stmt: Store) -> tuple[Stmt, list[Stmt]]:
        """A store, and the statements that must precede it."""
        old = (stmt.index, stmt.value, *(() if stmt.mask is None else (stmt.mask,)))
        new = self._exprs(*old)
        before = self._writer.take()
        held = self._buffer(stmt.buffer)
        if held is stmt.buffer and all(a is b for a, b in zip(new, old, strict=True)):
            return stmt, before
        mask = None if stmt.mask is None else new[2]
        return replace(stmt, buffer=held, index=new[0], value=new[1], mask=mask), before

    def _exprs(self, *exprs: Expr) -> tuple[Expr, ...]:
        if not self._missing and all(map(self._stays, exprs)):
            return exprs
        self._memo = {}
        return tuple(map(self._expr, exprs))
