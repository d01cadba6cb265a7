"""Scalar constants that a kernel reads from memory, because they differ among the groups that share
the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xlac.codegen.core.lowered_group import PackedConstant
from xlac.ir.op import Array
from xlac.ops.tensor.leaf import Const
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Buffer, Expr, For, Let, LoopKind, Stmt, Var
from xlac_sdk.target import Target


@dataclass(frozen=True, eq=False)
class ScalarArgument(Const):
    """Element `place` of `array`, an argument of the kernel.

    `value` is that of one of the groups. So decisions that ask whether a value is immediate, or
    count what an element costs, are those for this group by itself; the code does not depend on it.
    """

    array: PackedConstant = field(kw_only=True)
    place: int = field(kw_only=True)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def evaluate(self, *arrays: Array) -> Array:
        raise AssertionError("a number that differs among groups is not known at compile time")


class ScalarReads:
    """The numbers that a kernel reads. A CPU reads each once, where the kernel begins, as code
    generators of backends need not move loads out of loops.
    """

    def __init__(self, target: Target) -> None:
        self.first = target.device == "cpu"
        self._lets: dict[tuple[Buffer, int], Let] = {}

    def read(self, number: ScalarArgument, buffer: Buffer, builder: Builder) -> Expr:
        """The value of a number, whose array is in a buffer."""
        value, key = build.load(buffer, number.place), (buffer, number.place)
        if not self.first:
            return value
        if key not in self._lets:
            self._lets[key] = Let(Var(builder.fresh("number"), buffer.dtype), value)
        return self._lets[key].var

    def before(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """A kernel's body that begins with the reads, inside its parallel loop if it has one."""
        match body:
            case (For(kind=LoopKind.PARALLEL, body=inner) as loop,) if self._lets:
                return (replace(loop, body=(*self._lets.values(), *inner)),)
        return (*self._lets.values(), *body)
