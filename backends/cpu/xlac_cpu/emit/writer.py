"""Collects the instructions of one function: names, blocks, and available values.

A pure instruction that was already written in a dominating block is reused, so shared index
arithmetic is written once, and no LLVM pass is needed for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from xlac_cpu.emit.spelling import is_literal
from xlac_sdk.dtypes import DType

NOTHING: Mapping[str, str] = {}
NARROW = 1 << 31  # the signed range of 32 bits


class Preheader:
    """What is computed before a loop begins: the parts of addresses that do not change in it."""

    def __init__(self, before: int, known: dict[str, str]) -> None:
        self.before = before  # values with smaller numbers are computed before the loop
        self.known, self.trail = known, list[str]()
        self.lines: list[str] = []
        self.held = 0  # offsets that are held in it


class LlvmWriter:
    """The body of a function being written."""

    def __init__(
        self,
        declarations: dict[str, None],
        ternary: bool = False,
        narrow: bool = False,
        nearest: bool = False,
    ) -> None:
        self.lines: list[str] = []
        # allocas and loads of what does not change, at the function's start
        self.entry: list[str] = []
        self.exit: list[str] = []  # before it returns
        self.tiles: bytes | None = None  # the configuration of the matrix unit's registers
        self._early: dict[str, str] = {}  # names of those loads
        self.block = "entry"
        self.declarations = declarations
        # whether one instruction combines the bits of three operands (AVX-512)
        self.ternary = ternary
        self.narrow = narrow  # whether addresses have 32 bits: counters that fit are 32-bit
        self.current: dict[str, str] = {}  # values of mutable names
        self.preheader: Preheader | None = None  # of the loop, if no loops are in it
        # whether one instruction converts floats to the nearest integers, and what was rounded to
        # the values that were rounded so far
        self.nearest = nearest
        self.rounded: dict[str, str] = {}
        self.rounded_bytes: dict[str, tuple[str, DType]] = {}  # of bytes: what was rounded to them
        self._count = 0
        self._known: dict[str, str] = {}
        self._called: set[str] = set()  # functions that were declared
        self._trail: list[str] = []

    def op(self, text: str) -> str:
        """The name of a pure instruction's result."""
        name = self._known.get(text)
        if name is None:
            self._count += 1
            name = f"%t{self._count}"
            self.lines.append(f"  {name} = {text}")
            self._known[text] = name
            self._trail.append(text)
        return name

    def fresh(self, text: str) -> str:
        """The name of the result of an instruction that accesses memory."""
        self._count += 1
        name = f"%t{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def name(self, hint: str) -> str:
        """A fresh label or local name."""
        self._count += 1
        return f"{hint}{self._count}"

    def label(self, name: str) -> None:
        """Starts a block."""
        self.lines.append(f"{name}:")
        self.block = name

    def stack(self, kind: str, align: int = 0) -> str:
        """A stack cell, allocated at the function's start."""
        self._count += 1
        name = f"%s{self._count}"
        self.entry.append(f"  {name} = alloca {kind}" + (f", align {align}" if align else ""))
        return name

    def early(self, text: str) -> str:
        """The name of the result of an instruction on the function's arguments, at its start."""
        name = self._early.get(text)
        if name is None:
            self._count += 1
            name = self._early[text] = f"%e{self._count}"
            self.entry.append(f"  {name} = {text}")
        return name

    def declare(self, result: str, name: str, *operands: str) -> str:
        """Declares an external function; returns its name."""
        self.declarations.setdefault(f"declare {result} @{name}({', '.join(operands)})")
        return name

    def intrinsic(self, name: str, result: str, *operands: tuple[str, str], flags: str = "") -> str:
        """A call of a pure function with (type, value) operands."""
        if name not in self._called:
            self._called.add(name)
            self.declare(result, name, *(kind for kind, _ in operands))
        given = ", ".join([f"{kind} {value}" for kind, value in operands])
        return self.op(f"call {flags}{result} @{name}({given})")

    def is_before(self, value: str) -> bool:
        """Whether a value is computed before the loop of the preheader begins."""
        assert self.preheader is not None
        if value[0] != "%" or value[1] in "nbe":  # a number, a size, the range of a strip
            return True
        return value[1] in "ti" and int(value[2:]) <= self.preheader.before

    @contextmanager
    def ahead(self) -> Iterator[Preheader]:
        """What is written in the context stands in the preheader."""
        here, lines, known, trail = self.preheader, self.lines, self._known, self._trail
        assert here is not None
        self.preheader, self.lines = None, here.lines
        self._known, self._trail = here.known, here.trail
        yield here
        self.preheader, self.lines, self._known, self._trail = here, lines, known, trail

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A scope whose values are not reused after it, since it may not dominate the code that
        follows.
        """
        mark = len(self._trail)
        yield
        for text in self._trail[mark:]:
            del self._known[text]
        del self._trail[mark:]

    @contextmanager
    def loop(
        self,
        start: str,
        stop: str,
        step: int,
        kind: str = "i64",
        order: str = "s",
        certain: bool = False,
        between: Callable[[], None] | None = None,
        carried: Mapping[str, str] = NOTHING,
        innermost: bool = False,
    ) -> Iterator[str]:
        """`for (i = start; i < stop; i += step)`, tested at the end; `certain`: known to run at
        least once.

        `between` writes code between two iterations. `carried`: the types of the mutable names to
        which the loop gives new values. Long because it is one loop, in the order of its text.
        """
        whole = kind
        if self.narrow and kind == "i64" and is_literal(start) and is_literal(stop):
            kind = "i32" if int(start) >= -NARROW and int(stop) + step < NARROW else kind
        head, latch, out = self.name("loop"), self.name("next"), self.name("done")
        back = self.name("again") if between else latch  # the block that branches back to the head
        before, outer, slot = self.block, self.preheader, len(self.lines)
        self.preheader = Preheader(self._count, dict(self._known)) if innermost else None
        self.lines.append("")
        if certain:
            self.do(f"br label %{head}")
        else:
            self.do(
                f"br i1 {self.op(f'icmp {order}lt {kind} {start}, {stop}')}, label %{head}, label "
                f"%{out}"
            )
        counter, after = f"%{self.name('i')}", f"%{self.name('n')}"
        self.label(head)
        self.do(f"{counter} = phi {kind} [ {start}, %{before} ], [ {after}, %{back} ]")
        hole, starts = len(self.lines), [self.current[name] for name in carried]
        for name in carried:
            self.current[name] = self.fresh("")
        merged = [self.current[name] for name in carried]
        with self.scope():
            yield counter if kind == whole else self.op(f"sext {kind} {counter} to {whole}")
        if self.preheader is not None:
            self.lines[slot] = "\n".join(self.preheader.lines)
        self.preheader = outer
        turned = list(zip(starts, [self.current[name] for name in carried], strict=True))
        for k, (kind_of, here, (first, last)) in enumerate(
            zip(carried.values(), merged, turned, strict=True)
        ):
            line = f"  {here} = phi {kind_of} [ {first}, %{before} ], [ {last}, %{back} ]"
            self.lines[hole + k] = line
        self.do(f"br label %{latch}")
        self.label(latch)
        self.do(f"{after} = add {'nsw ' if order == 's' else 'nuw '}{kind} {counter}, {step}")
        more = self.fresh(f"icmp {order}lt {kind} {after}, {stop}")
        if between is None:
            self.do(f"br i1 {more}, label %{head}, label %{out}")
        else:
            look = self.name("look")
            self.do(f"br i1 {more}, label %{look}, label %{out}")
            self.label(look)
            with self.scope():
                between()
            self.do(f"br label %{back}")
            self.label(back)
            self.do(f"br label %{head}")
        self.label(out)
        if not certain:
            for (name, kind_of), (first, last) in zip(carried.items(), turned, strict=True):
                text = f"phi {kind_of} [ {first}, %{before} ], [ {last}, %{latch} ]"
                self.current[name] = self.fresh(text)

    def text(self, result: str = "void") -> str:
        """The function's body, ended by a return of `result`."""
        lines = filter(None, self.lines)
        return "\n".join(["entry:", *self.entry, *lines, *self.exit, f"  ret {result}", "}"])
