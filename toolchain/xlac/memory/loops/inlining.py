"""Inlines the body of a kernel into another one, with fresh names and the other's buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd

from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Allocate,
    Assign,
    Buffer,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    Var,
    statements,
)
from xlac_sdk.kernel_ir.rewrite import KernelRewriter

LOOPS = (LoopKind.SERIAL, LoopKind.UNROLLED)
PLAIN = (Let, Assign, Store, If, Allocate, Prefetch)


@dataclass(frozen=True, slots=True)
class BufferPlace:
    """A buffer of the enclosing kernel, and the element of it where a parameter begins."""

    buffer: Buffer
    base: Expr

    @property
    def aligned(self) -> int:
        """A number of bytes that divides the parameter's distance from the buffer's start; 0 where
        it begins there.
        """
        return build.multiple(self.base) * self.buffer.dtype.nbytes


def is_serial(kernel: Kernel) -> bool:
    """Whether a single thread runs a kernel in order, by plain loops."""
    return all(
        stmt.kind in LOOPS if isinstance(stmt, For) else isinstance(stmt, PLAIN)
        for stmt in statements(kernel.body)
    )


class KernelInliner(KernelRewriter):
    """Writes a kernel's statements over the buffers of another."""

    def __init__(
        self, suffix: str, places: Mapping[Buffer, BufferPlace], sizes: Mapping[str, Expr]
    ) -> None:
        """`suffix` is appended to every name that the kernel binds; `sizes` are its sizes, by
        name.
        """
        super().__init__(self._named)
        self.suffix, self.places, self.sizes = suffix, dict(places), sizes

    def _named(self, expr: Expr) -> Expr:
        if not isinstance(expr, Var):
            return expr
        return self.sizes[expr.name] if expr.name in self.sizes else self._own(expr)

    def _own(self, var: Var) -> Var:
        return replace(var, name=var.name + self.suffix, below=None)

    def _children(self, node: Expr) -> Expr:
        new = super()._children(node)
        if not isinstance(new, Load):
            return new
        place = self._place(new.buffer)
        return replace(
            new,
            buffer=place.buffer,
            index=build.add(new.index, place.base),
            align=_shifted(new.align, place),
        )

    def _place(self, buffer: Buffer) -> BufferPlace:
        if buffer not in self.places:  # a local one, allocated inside the kernel
            own = replace(buffer, name=buffer.name + self.suffix)
            self.places[buffer] = BufferPlace(own, build.index(0))
        return self.places[buffer]

    def stmt(self, stmt: Stmt) -> Stmt:
        """A statement over the other kernel's buffers."""
        match stmt:
            case Allocate(buffer=buffer):
                return Allocate(self._place(buffer).buffer)
            case Let(var=var) | Assign(var=var):
                return replace(stmt, var=self._own(var), value=self.expr(stmt.value))
            case For(counter=counter):
                new = super().stmt(stmt)
                assert isinstance(new, For)
                return replace(new, counter=self._own(counter))
        new = super().stmt(stmt)
        if isinstance(new, Store):
            place = self._place(new.buffer)
            index = build.add(new.index, place.base)
            align = _shifted(new.align, place)
            return replace(new, buffer=place.buffer, index=index, align=align)
        if isinstance(new, Prefetch):
            place = self._place(new.buffer)
            return replace(new, buffer=place.buffer, index=build.add(new.index, place.base))
        return new


def _shifted(align: int, place: BufferPlace) -> int:
    """The alignment that remains known where a parameter begins inside a buffer."""
    common = gcd(align, place.aligned) if align else 0  # 0: that of an element
    return common if common >= place.buffer.dtype.nbytes else 0


def copied(
    target: BufferPlace, source: BufferPlace, count: Expr, lanes: int, fresh: Iterator[int]
) -> tuple[Stmt, ...]:
    """Copies `count` elements between buffers, in vectors of up to `lanes`."""
    known = getattr(count, "value", None)
    if isinstance(known, int) and known <= max(4, 4 * lanes):
        statements: list[Stmt] = []
        at = 0
        while at < known:
            wide = lanes
            while wide > known - at:
                wide //= 2
            statements.append(_moved(target, source, build.index(at), wide if known > 4 else 1))
            at += wide if known > 4 else 1
        return tuple(statements)
    counter = Var(f"copied_{next(fresh)}", build.INDEX, low=0)
    return (For(counter, build.index(0), count, (_moved(target, source, counter, 1),)),)


def _moved(target: BufferPlace, source: BufferPlace, at: Expr, lanes: int) -> Store:
    value = Load(source.buffer, build.add(source.base, at), lanes)
    return Store(target.buffer, build.add(target.base, at), value)
