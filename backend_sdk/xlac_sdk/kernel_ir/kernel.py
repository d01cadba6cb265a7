"""Kernel IR: loops, scalars, vectors and buffers; the input language of every backend.

An expression has an element type and a number of lanes; one with `lanes > 1` is a vector. Buffers
are flat: an index counts elements from the buffer's start, and schedules linearise shapes. All
optimisation decisions are explicit in a scheduled kernel, so a backend only translates it.

    Expr = Const | Var | Ramp | Splat | Load | Apply | Fold | Shuffle | Exchange
    Stmt = For | Let | Assign | Store | If | Allocate | Barrier | Await | Prefetch | Instruction
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.expressions import (
    Access,
    Apply,
    Buffer,
    Const,
    Exchange,
    Expr,
    Fold,
    Load,
    Ramp,
    Shuffle,
    Space,
    Splat,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.source import Origin

__all__ = [
    "Access", "Allocate", "Apply", "Assign", "Await", "Barrier", "Buffer", "Const", "Exchange",
    "Expr", "Fold", "For", "HandWritten", "If", "Instruction", "Kernel", "Let", "Load", "LoopKind",
    "Prefetch", "Ramp", "Shuffle", "Space", "Splat", "Stmt", "Store", "TensorMap", "Var", "Work",
    "children", "names", "statements",
]  # fmt: skip


class LoopKind(Enum):
    """How the iterations of a loop relate to each other and to the machine."""

    SERIAL = "serial"
    PARALLEL = "parallel"  # independent iterations; the backend may split the range over threads
    UNROLLED = "unrolled"  # constant trip count; the backend unrolls it
    BLOCK = "block"  # one iteration per GPU block: see grid.py for the form of such a kernel
    THREAD = "thread"  # one iteration per GPU thread of a block


@dataclass(frozen=True, slots=True)
class For:
    """`for (counter = start; counter < stop; counter += step) body`. The counter is an integer
    scalar.

    A PARALLEL loop is the only statement of its kernel. `grain` is the least number of iterations
    worth a task of their own.
    """

    counter: Var
    start: Expr
    stop: Expr
    body: tuple[Stmt, ...]
    step: int = 1
    kind: LoopKind = LoopKind.SERIAL
    grain: int = 1


@dataclass(frozen=True, slots=True)
class Let:
    """Binds a name for the rest of its block. Only one bound with `mutable` may be assigned."""

    var: Var
    value: Expr
    mutable: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """Gives a mutable name a new value."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """Stores the lanes of `value`; indices and masks as for Load.

    `atomic` combines with the stored value instead of replacing it, safely between threads;
    `streaming` hints that the data will not be read again soon.
    """

    buffer: Buffer
    index: Expr
    value: Expr
    mask: Expr | None = None
    align: int = 0
    streaming: bool = False
    atomic: Primitive | None = None


@dataclass(frozen=True, slots=True)
class If:
    """Runs one of two blocks, by a scalar bool."""

    condition: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Allocate:
    """A LOCAL or SHARED buffer for the rest of its block; its contents are undefined at first."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier: every thread of a GPU block arrives before any continues."""


@dataclass(frozen=True, slots=True)
class Await:
    """Blocks this thread until a scalar condition over memory holds, which other threads of its
    block make true.

    Earlier writes of those threads are visible after it. Unlike a Barrier it may be in divergent
    control flow.
    """

    condition: Expr


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A hint that an element's cache line will soon be used. The index may be out of bounds."""

    buffer: Buffer
    index: Expr
    write: bool = False


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A parameter with a description of an array for TMA copies, which the launch passes to the
    kernel: up to five axes, outermost first, starting `offset` elements into the parameter. Whole
    boxes are copied; elements outside the array are zero.

    `extents` and `strides` (in elements; the last axis is contiguous and has none) are expressions
    over the kernel's sizes. A box's innermost rows are 128 bytes, consecutive in SHARED memory,
    with the eight 16-byte chunks of each row swizzled by an exclusive or with the row's number.
    """

    name: str
    buffer: Buffer
    offset: Expr
    extents: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HandWritten:
    """A hand-written function, as text in one of the target's languages (`Target.languages`).

    `name` is its name in the text, `symbol` the unique identifier that the program uses for it.
    `file` is for messages. `types` are element types for which the text uses names of its own.
    `scratch` is the number of the operand that is untyped memory, -1 if there is none.
    """

    symbol: str
    name: str
    text: str
    file: str
    language: str
    types: tuple[tuple[str, DType], ...] = ()
    scratch: int = -1


@dataclass(frozen=True, slots=True)
class Instruction:
    """A named instruction of some target (a matrix multiply, an asynchronous copy) with its
    semantics.

    A backend that lists `name` in `Target.instructions` emits it from `operands`; every other one,
    and the interpreter, runs `meaning`, plain statements with the same effect. With `code` it is a
    call of a hand-written function instead, without `meaning`: operands are its arguments, and only
    programs for targets that list its language contain it.
    """

    name: str
    operands: tuple[Expr | Buffer | TensorMap, ...]
    meaning: tuple[Stmt, ...]
    code: HandWritten | None = None


Stmt = For | Let | Assign | Store | If | Allocate | Barrier | Await | Prefetch | Instruction

# ---- kernels ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """The cost of one launch: arithmetic operations, and bytes that must be transferred from or to
    memory.
    """

    flops: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """Code over its parameters. `sizes` are the symbolic extents passed at run time (I64).

    The name, like every name inside, is an identifier made by the compiler, never a user's text.
    """

    name: str
    parameters: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    sizes: tuple[Var, ...] = ()
    work: Work = Work()
    origins: tuple[Origin, ...] = ()
    note: str = ""  # one line for people: what was fused into the kernel
    functions: tuple[Expansion, ...] = ()  # that the code calls

    @property
    def parallel(self) -> For | None:
        """The parallel loop, if there is one."""
        match self.body:
            case (For(kind=LoopKind.PARALLEL) as loop,):
                return loop
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """A primitive that the target lacks as a function: the sizes of `code` are its operands, and
    its last statement stores the result (`xlac_sdk.lowering.outline`).
    """

    primitive: Primitive
    code: Kernel


def children(stmt: Stmt) -> Sequence[tuple[Stmt, ...]]:
    """The blocks directly inside a statement."""
    kind = type(stmt)  # not `match`: most statements are asked, and few have blocks
    if kind is For:
        return (stmt.body,)  # type: ignore[union-attr]
    if kind is If:
        return (stmt.then, stmt.otherwise)  # type: ignore[union-attr]
    if kind is Instruction:
        return (stmt.meaning,)  # type: ignore[union-attr]
    return ()


def statements(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement of a block, each before those of the blocks inside it."""
    stack = [iter(body)]
    while stack:
        for stmt in stack[-1]:
            yield stmt
            blocks = children(stmt)
            if blocks:
                stack += [iter(block) for block in reversed(blocks)]
                break
        else:
            stack.pop()


def names(kernel: Kernel) -> set[str]:
    """Every name that a kernel defines."""
    defined = {b.name for b in kernel.parameters} | {v.name for v in kernel.sizes}
    stack = list(kernel.body)
    while stack:
        stmt = stack.pop()
        match stmt:
            case For(counter=var) | Let(var=var):
                defined.add(var.name)
            case Allocate(buffer=buffer):
                defined.add(buffer.name)
            case Instruction(operands=operands):
                defined |= {one.name for one in operands if isinstance(one, TensorMap)}
        for block in children(stmt):
            stack += block
    return defined
