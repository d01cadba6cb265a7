"""Rewrites kernels: maps every expression or buffer of a body, and keeps unchanged parts shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

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
    Prefetch,
    Ramp,
    Shuffle,
    Splat,
    Stmt,
    Store,
    TensorMap,
    Var,
)


class KernelRewriter:
    """Maps expressions bottom-up by `visit` and buffers by `buffers`; memoised by identity."""

    def __init__(
        self,
        visit: Callable[[Expr], Expr] | None = None,
        buffers: Mapping[Buffer, Buffer] | None = None,
    ):
        self.visit, self.buffers = visit, buffers or {}
        self._memo: dict[int, tuple[Expr, Expr]] = {}

    def expr(self, node: Expr) -> Expr:
        """A rewritten expression; shared ones are rewritten once."""
        known = self._memo.get(id(node))
        if known is not None:
            return known[1]
        new = self._children(node)
        new = self.visit(new) if self.visit else new
        self._memo[id(node)] = (node, new)  # the key is kept alive, so that its id is not reused
        return new

    def _children(self, node: Expr) -> Expr:
        match node:
            case Const() | Var():
                return node
            case Ramp(base=base):
                new = self.expr(base)
                return node if new is base else replace(node, base=new)
            case Splat(value=value) | Fold(value=value) | Exchange(value=value):
                new = self.expr(value)
                return node if new is value else replace(node, value=new)
            case Load(buffer=buffer, index=index, mask=mask):
                buffer2, index2 = self.buffers.get(buffer, buffer), self.expr(index)
                mask2 = None if mask is None else self.expr(mask)
                if buffer2 is buffer and index2 is index and mask2 is mask:
                    return node
                return replace(node, buffer=buffer2, index=index2, mask=mask2)
            case Apply(operands=operands):
                wide = tuple(map(self.expr, operands))
                same = all(a is b for a, b in zip(wide, operands, strict=True))
                return node if same else replace(node, operands=wide)
            case Shuffle(values=values):
                wide = tuple(map(self.expr, values))
                same = all(a is b for a, b in zip(wide, values, strict=True))
                return node if same else replace(node, values=wide)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The rewritten statements of a block; the same tuple if none changed."""
        return tuple(map(self.stmt, body))

    def stmt(self, stmt: Stmt) -> Stmt:
        """A rewritten statement; the same object if nothing in it changed."""
        match stmt:
            case For():
                return replace(
                    stmt,
                    start=self.expr(stmt.start),
                    stop=self.expr(stmt.stop),
                    body=self.block(stmt.body),
                )
            case Await():
                return replace(stmt, condition=self.expr(stmt.condition))
            case Let() | Assign():
                return replace(stmt, value=self.expr(stmt.value))
            case Store():
                mask = None if stmt.mask is None else self.expr(stmt.mask)
                buffer = self.buffers.get(stmt.buffer, stmt.buffer)
                return replace(
                    stmt,
                    buffer=buffer,
                    index=self.expr(stmt.index),
                    value=self.expr(stmt.value),
                    mask=mask,
                )
            case If():
                return replace(
                    stmt,
                    condition=self.expr(stmt.condition),
                    then=self.block(stmt.then),
                    otherwise=self.block(stmt.otherwise),
                )
            case Prefetch():
                return replace(
                    stmt,
                    buffer=self.buffers.get(stmt.buffer, stmt.buffer),
                    index=self.expr(stmt.index),
                )
            case Instruction():
                return replace(
                    stmt,
                    operands=tuple(map(self._operand, stmt.operands)),
                    meaning=self.block(stmt.meaning),
                )
            case Allocate() | Barrier():
                return stmt

    def _operand(self, operand: Expr | Buffer | TensorMap) -> Expr | Buffer | TensorMap:
        match operand:
            case Buffer():
                return self.buffers.get(operand, operand)
            case TensorMap():
                return replace(operand, buffer=self.buffers.get(operand.buffer, operand.buffer))
        return self.expr(operand)


def merge_parameters(kernel: Kernel, keep: Buffer, drop: Buffer) -> Kernel:
    """The kernel with two parameters that share memory merged into one, which it reads
    and writes.
    """
    merged = replace(keep, access=Access.UPDATE)
    body = KernelRewriter(buffers={keep: merged, drop: merged}).block(kernel.body)
    parameters = tuple(merged if p is keep else p for p in kernel.parameters if p is not drop)
    return replace(kernel, parameters=parameters, body=body)
