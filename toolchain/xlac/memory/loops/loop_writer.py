"""Writes a loop of steps as one kernel."""

from __future__ import annotations

from collections.abc import Iterator

from xlac.ir.dims import Dim, Sym
from xlac.memory.loops.inlining import BufferPlace, KernelInliner, copied
from xlac.memory.loops.slot_uses import LoopUses
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Allocate,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Space,
    Stmt,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Argument, Branch, Copy, Launch, Repeat, Slot, Step, While
from xlac_sdk.programs.steps import work
from xlac_sdk.target import Target

TURNS = 64  # iterations of a while per launch
CARRIED = 64  # the most elements of a carried value that is kept in a local buffer


class LoopWriter:
    """Writes the kernel of a loop, and the steps that launch it."""

    def __init__(
        self,
        loop: Repeat | While,
        target: Target,
        local: set[Slot],
        written: set[Slot],
        fresh: Iterator[int],
    ) -> None:
        """`local` are the temporaries that only this loop uses, `written` the slots that have a
        value before it; `fresh` makes unique names.
        """
        self.loop, self.target, self.fresh = loop, target, fresh
        self.local, self.before = local, written
        self.uses = LoopUses.of(loop)
        self.counters: dict[str, Var] = {}
        self.parameters: dict[Slot, Buffer] = {}
        self.inside: dict[Slot, Buffer] = {}  # local buffers, of temporaries and carried values

    def steps(self) -> tuple[Step, ...]:
        """The steps that run the loop as a kernel; none where arguments advance with enclosing
        loops in several ways.
        """
        loop = self.loop
        if not self.uses.possible:
            return ()
        for slot in self.uses.slots:
            self.declare(slot)
        body = self.body()
        kernels = list(self.uses.kernels)
        sizes = sorted(self.uses.sizes)
        origins = tuple(self.uses.origins)
        kernel = Kernel(
            f"{kernels[0].name}_loop_{next(self.fresh)}",
            tuple(self.parameters.values()),
            body,
            tuple(build.size_var(symbol) for symbol in sizes),
            work((loop,)),
            origins,
            f"a loop of {', '.join(k.name for k in kernels)}",
        )
        arguments = tuple(
            Argument(slot, self.uses.slots[slot].first, self.uses.slots[slot].outer)
            for slot in self.parameters
        )
        launch = Launch(kernel, arguments, tuple(Sym((((s,), 1),)) for s in sizes), origins)
        if isinstance(loop, While):
            return (While((launch,), loop.flag, ()),)
        return (launch,)

    def declare(self, slot: Slot) -> None:
        """Declares a slot in the kernel: as a parameter, a local buffer, or both."""
        use = self.uses.slots[slot]
        fixed = use.written and not use.moves and not use.outer and isinstance(slot.elements, int)
        carried = fixed and slot.size <= CARRIED
        if slot in self.local or carried:
            self.inside[slot] = Buffer(f"own_{slot.symbol}", slot.dtype, slot.size, Space.LOCAL)
        if slot in self.local:
            return
        access = Access.READ
        if use.written and slot in self.before:
            access = Access.UPDATE if use.read or carried else Access.WRITE
        elif use.written:
            access = Access.REREAD if use.read and not carried else Access.WRITE
        size = use.last - use.first if use.outer else slot.elements
        extent = size if isinstance(size, int) else build.lift(size)
        align = slot.dtype.nbytes if use.outer else 64
        self.parameters[slot] = Buffer(
            f"slot_{slot.symbol}", slot.dtype, extent, access=access, align=align
        )

    def body(self) -> tuple[Stmt, ...]:
        """The loop, between the copies in and out of carried values."""
        loop = self.loop
        before: list[Stmt] = [Allocate(buffer) for buffer in self.inside.values()]
        after: list[Stmt] = []
        for slot, own in self.inside.items():
            if slot in self.parameters:
                mine = BufferPlace(own, build.index(0))
                given = BufferPlace(self.parameters[slot], build.index(0))
                if slot in self.before:
                    before += self.copy(mine, given, slot.size)
                after += self.copy(given, mine, slot.size)
        if isinstance(loop, Repeat):
            return (*before, *self.block((loop,)), *after)
        turn = Var(f"turn_{next(self.fresh)}", build.INDEX, low=0, high=TURNS - 1)
        flag = self.place(loop.flag)
        begun = Store(flag.buffer, flag.base, Const(True, DType.BOOL))
        goes_on = Load(flag.buffer, flag.base)
        once = If(goes_on, (*self.block(loop.condition), If(goes_on, self.block(loop.body))))
        return (*before, begun, For(turn, build.index(0), build.index(TURNS), (once,)), *after)

    def block(self, steps: tuple[Step, ...]) -> tuple[Stmt, ...]:
        """Steps as statements."""
        statements: list[Stmt] = []
        for step in steps:
            match step:
                case Launch():
                    statements += self.launch(step)
                case Copy(target=target, source=source, count=count):
                    statements += self.copy(self.place(target), self.place(source), count)
                case Repeat(counter=counter, count=count, body=body):
                    high = count - 1 if isinstance(count, int) else None
                    var = Var(f"{counter}_{next(self.fresh)}", build.INDEX, low=0, high=high)
                    self.counters[counter] = var
                    statements.append(For(var, build.index(0), build.lift(count), self.block(body)))
                case Branch(index=index, branches=branches):
                    statements += self.branch(index, branches)
        return tuple(statements)

    def launch(self, step: Launch) -> tuple[Stmt, ...]:
        """The inlined statements of a launch."""
        kernel = step.kernel
        places = {
            buffer: self.place(argument)
            for buffer, argument in zip(kernel.parameters, step.arguments, strict=True)
        }
        sizes = {
            var.name: build.lift(size) for var, size in zip(kernel.sizes, step.sizes, strict=True)
        }
        return KernelInliner(f"_s{next(self.fresh)}", places, sizes).block(kernel.body)

    def branch(self, index: Argument, branches: tuple[tuple[Step, ...], ...]) -> tuple[Stmt, ...]:
        """The branch with the number `index`, or else the last one."""
        place = self.place(index)
        chosen = Var(f"branch_{next(self.fresh)}", index.slot.dtype)
        chosen_block = self.block(branches[-1])
        for number in reversed(range(len(branches) - 1)):
            same = build.apply(
                Primitive.EQ, chosen, build.cast(build.index(number), index.slot.dtype)
            )
            chosen_block = (If(same, self.block(branches[number]), chosen_block),)
        return (Let(chosen, Load(place.buffer, place.base)), *chosen_block)

    def copy(self, target: BufferPlace, source: BufferPlace, count: Dim) -> tuple[Stmt, ...]:
        """Copies elements."""
        lanes = self.target.lanes(target.buffer.dtype) if target.buffer.dtype.bits >= 32 else 1
        return copied(target, source, build.lift(count), lanes, self.fresh)

    def place(self, argument: Argument) -> BufferPlace:
        """The place of an argument."""
        slot = argument.slot
        base: Expr = build.index(0)
        for name, by in argument.strides:
            if name in self.counters:
                base = build.add(base, build.mul(self.counters[name], build.lift(by)))
        base = build.add(base, build.lift(argument.offset - self.uses.slots[slot].first))
        return BufferPlace(self.inside.get(slot) or self.parameters[slot], base)
