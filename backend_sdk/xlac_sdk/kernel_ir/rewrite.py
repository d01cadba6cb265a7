"""Rewrites kernels: maps every expression or buffer of a body, and keeps unchanged parts shared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_
from typing import Any, TypeVar

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

N = TypeVar("N", bound=Expr | Stmt | TensorMap)


class KernelRewriter:
    """Maps expressions bottom-up by `visit` and buffers by `buffers`; memoised by identity."""

    def __init__(
        self,
        visit: Callable[[Expr], Expr] | None = None,
        buffers: Mapping[Buffer, Buffer] | None = None,
    ):
        self.visit, self.buffers = visit, {} if buffers is None else buffers
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
            case Apply(operands=operands):
                wide = tuple(map(self.expr, operands))
                if all(map(is_, wide, operands)):
                    return node
                return Apply(node.primitive, wide, node.dtype, node.lanes)
            case Const() | Var():
                return node
            case Load(buffer=buffer, mask=mask):
                return changed(
                    node,
                    buffer=self.buffers.get(buffer, buffer),
                    index=self.expr(node.index),
                    mask=None if mask is None else self.expr(mask),
                )
            case Ramp():
                return changed(node, base=self.expr(node.base))
            case Splat() | Fold() | Exchange():
                return changed(node, value=self.expr(node.value))
            case Shuffle(values=values):
                wide = tuple(map(self.expr, values))
                return node if all(map(is_, wide, values)) else replace(node, values=wide)

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The rewritten statements of a block; the same tuple if none changed."""
        new = tuple(map(self.stmt, body))
        return body if all(map(is_, new, body)) else new

    def stmt(self, stmt: Stmt) -> Stmt:
        """A rewritten statement; the same object if nothing in it changed."""
        match stmt:
            case Let() | Assign():
                return changed(stmt, value=self.expr(stmt.value))
            case Store():
                return changed(
                    stmt,
                    buffer=self.buffers.get(stmt.buffer, stmt.buffer),
                    index=self.expr(stmt.index),
                    value=self.expr(stmt.value),
                    mask=None if stmt.mask is None else self.expr(stmt.mask),
                )
            case For():
                return changed(
                    stmt,
                    start=self.expr(stmt.start),
                    stop=self.expr(stmt.stop),
                    body=self.block(stmt.body),
                )
            case Await():
                return changed(stmt, condition=self.expr(stmt.condition))
            case If():
                return changed(
                    stmt,
                    condition=self.expr(stmt.condition),
                    then=self.block(stmt.then),
                    otherwise=self.block(stmt.otherwise),
                )
            case Prefetch():
                return changed(
                    stmt,
                    buffer=self.buffers.get(stmt.buffer, stmt.buffer),
                    index=self.expr(stmt.index),
                )
            case Instruction(operands=operands):
                given = tuple(map(self._operand, operands))
                return changed(
                    stmt,
                    operands=operands if all(map(is_, given, operands)) else given,
                    meaning=self.block(stmt.meaning),
                )
            case Allocate() | Barrier():
                return stmt

    def _operand(self, operand: Expr | Buffer | TensorMap) -> Expr | Buffer | TensorMap:
        match operand:
            case Buffer():
                return self.buffers.get(operand, operand)
            case TensorMap():
                return changed(operand, buffer=self.buffers.get(operand.buffer, operand.buffer))
        return self.expr(operand)


def changed(node: N, **fields: Any) -> N:
    """The node with these fields; the same object if it has them."""
    for name, value in fields.items():
        if getattr(node, name) is not value:
            return replace(node, **fields)
    return node


def merge_parameters(kernel: Kernel, keep: Buffer, drop: Buffer) -> Kernel:
    """The kernel with two parameters that share memory merged into one, which it reads
    and writes.
    """
    merged = replace(keep, access=Access.UPDATE)
    body = KernelRewriter(buffers={keep: merged, drop: merged}).block(kernel.body)
    parameters = tuple(merged if p is keep else p for p in kernel.parameters if p is not drop)
    return replace(kernel, parameters=parameters, body=body)


def aligned(kernel: Kernel, known: tuple[int, ...]) -> Kernel:
    """The kernel whose parameters begin at multiples of so many bytes
    (`xlac_sdk.lowering.alignment`).
    """
    changed = {
        b: replace(b, align=a)
        for b, a in zip(kernel.parameters, known, strict=True)
        if b.align != a
    }
    if not changed:
        return kernel
    parameters = tuple(changed.get(b, b) for b in kernel.parameters)
    return replace(
        kernel, parameters=parameters, body=KernelRewriter(buffers=changed).block(kernel.body)
    )
