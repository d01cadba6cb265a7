"""How the steps of a loop use each slot, which decides the parameters of the loop's kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from xlac.ir.dims import Dim, Symbol, symbols
from xlac_sdk.kernel_ir.expressions import Expr
from xlac_sdk.kernel_ir.kernel import Access, Kernel
from xlac_sdk.programs.program import Argument, Branch, Copy, Launch, Repeat, Slot, Step, While
from xlac_sdk.source import Origin

Strides = tuple[tuple[str, Dim], ...]


@dataclass
class SlotUse:
    """Every use of one slot inside a loop."""

    outer: Strides  # strides by counters of enclosing loops, which the kernel's arguments keep
    first: Dim  # the least offset
    # one past the last element reached; where enclosing loops move it, relative to them
    last: Dim = 0
    read: bool = False
    written: bool = False
    moves: bool = False  # whether an argument moves with the loop
    # False where enclosing loops move it in ways that a single pointer cannot follow
    known: bool = True


@dataclass
class LoopUses:
    """The uses of all slots in a loop's steps."""

    slots: dict[Slot, SlotUse] = field(default_factory=dict)
    kernels: dict[Kernel, None] = field(default_factory=dict)
    origins: dict[Origin, None] = field(default_factory=dict)
    sizes: set[Symbol] = field(default_factory=set)

    @staticmethod
    def of(loop: Repeat | While) -> LoopUses:
        """Collects the uses in a loop."""
        uses = LoopUses()
        if isinstance(loop, Repeat):
            uses.steps((loop,), {})
        else:
            uses.steps(loop.condition, {})
            uses.argument(loop.flag, 1, {}, reads=True, writes=False)
            uses.steps(loop.body, {})
        return uses

    @property
    def possible(self) -> bool:
        """Whether a single pointer for each slot suffices."""
        return bool(self.kernels) and all(use.known for use in self.slots.values())

    def steps(self, steps: tuple[Step, ...], counts: dict[str, Dim]) -> None:
        """Records the uses in steps nested in loops with `counts`."""
        for step in steps:
            match step:
                case Launch(kernel=kernel, arguments=arguments, sizes=sizes, origins=origins):
                    self.kernels.setdefault(kernel)
                    self.origins.update(dict.fromkeys(origins))
                    self.note(*sizes)
                    for buffer, argument in zip(kernel.parameters, arguments, strict=True):
                        reads = buffer.access is not Access.WRITE
                        writes = buffer.access is not Access.READ
                        self.argument(argument, buffer.size, counts, reads, writes)
                case Copy(target=target, source=source, count=count):
                    self.note(count)
                    self.argument(source, count, counts, reads=True, writes=False)
                    self.argument(target, count, counts, reads=False, writes=True)
                case Repeat(counter=counter, count=count, body=body):
                    self.note(count)
                    self.steps(body, {**counts, counter: count})
                case Branch(index=index, branches=branches):
                    self.argument(index, 1, counts, reads=True, writes=False)
                    for branch in branches:
                        self.steps(branch, counts)

    def note(self, *dims: Dim) -> None:
        """Records sizes of the program that the kernel needs."""
        for dim in dims:
            self.sizes |= symbols(dim)

    def argument(
        self,
        argument: Argument,
        count: Dim | Expr,
        counts: dict[str, Dim],
        reads: bool,
        writes: bool,
    ) -> None:
        """Records one use of a slot."""
        inner = [(name, by) for name, by in argument.strides if name in counts]
        outer = tuple((name, by) for name, by in argument.strides if name not in counts)
        use = self.slots.setdefault(argument.slot, SlotUse(outer, argument.offset))
        use.read |= reads
        use.written |= writes
        use.moves |= bool(inner) or argument.offset != 0
        self.note(argument.offset, *(by for _, by in inner))
        if not outer and not use.outer:
            self.note(argument.slot.elements)
            use.first = 0
            return
        reach = [(by, counts[name]) for name, by in inner]
        numbers = [argument.offset, count, use.first, *(n for pair in reach for n in pair)]
        if outer != use.outer or not all(isinstance(n, int) and n >= 0 for n in numbers):
            use.known = False
            return
        end = argument.offset + sum(by * (n - 1) for by, n in reach) + count  # type: ignore[operator]
        use.first = min(use.first, argument.offset)  # type: ignore[type-var]
        use.last = max(use.last, end)  # type: ignore[type-var]
