"""Launches of kernels, by the calling thread or the thread pool, and the addresses of their
arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlac_cpu.emit import stamp
from xlac_cpu.emit.expressions import LlvmExpressions
from xlac_cpu.emit.spelling import memory
from xlac_cpu.emit.stopping.checks import StopCheckWriter
from xlac_cpu.emit.stopping.function import NAME
from xlac_cpu.emit.threads.division import is_open, open_split, split
from xlac_cpu.emit.writer import LlvmWriter
from xlac_cpu.pool_block import WATCHED
from xlac_sdk.dims import Dim
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.expressions import Expr
from xlac_sdk.programs.program import Argument, Launch

if TYPE_CHECKING:
    from xlac_cpu.emit.driver import ProgramWriter


class Launching(StopCheckWriter):
    """A function of steps that launches kernels."""

    def __init__(
        self, driver: ProgramWriter, counters: dict[str, str], table: str, first: int
    ) -> None:
        """`table` has the sizes of the call, from its entry `first` on."""
        self.driver, self.counters = driver, counters
        super().__init__(LlvmWriter(driver.declarations, narrow=driver.style.narrow), driver.watch)
        self.frame: tuple[str, int] | None = None
        self.values = LlvmExpressions(self.w, driver.style)
        for at, symbol in enumerate(driver.program.sizes, first):
            address = self.w.op(f"getelementptr i64, ptr %{table}, i64 {at}")
            self.values.names[symbol.identifier] = self.w.op(
                f"load i64, ptr {address}, !invariant.load !0"
            )

    def number(self, size: Dim) -> str:
        """The value of a size of the program in this call."""
        return str(size) if isinstance(size, int) else self.value(build.lift(size))

    def value(self, expr: Expr) -> str:
        """An expression over sizes."""
        self.values.memo.clear()
        return self.values.value(expr)

    def launch(self, step: Launch) -> None:
        """Writes a launch: a direct call, or chunks for the pool."""
        w, kernel = self.w, step.kernel
        symbol = self.driver.symbols[kernel]
        pointers = [self.pointer(argument) for argument in step.arguments]
        sizes = [self.number(size) for size in step.sizes]
        stop_checks = self.watch.watched and bool(self.watch.stop_checks.inside(kernel))
        if stop_checks:
            pointers.append("@never" if self.watch.committed else self.stop)
        given = [f"ptr {p}" for p in pointers] + [f"i64 {size}" for size in sizes]
        kinds = ["ptr"] * len(pointers) + ["i64"] * len(sizes)
        loop = self.driver.legal[kernel].parallel if self.driver.threads > 1 else None
        if loop is not None:
            kinds += ["i64", "i64"]
        self.driver.called.setdefault(symbol, ", ".join(kinds))
        if loop is None:
            w.do(f"call void @{symbol}({', '.join(given)})")
        elif is_open(step):
            self.values.names.update(zip((v.name for v in kernel.sizes), sizes, strict=True))
            open_loop = open_split(loop, kernel, self.driver.threads, self.driver.nanoseconds)
            start, stop, most, size, chunks = map(
                self.value,
                (open_loop.start, open_loop.stop, open_loop.most, open_loop.size, open_loop.chunks),
            )
            worth = w.op(f"icmp sge i64 {most}, 2")
            self.fork(symbol, given, start, stop, size, chunks, worth, stop_checks)
        else:
            division = split(step, loop, self.driver.threads, self.driver.nanoseconds)
            if division.chunks > 1:
                start, stop, size, chunks = map(
                    str, (division.start, division.stop, division.size, division.chunks)
                )
                self.fork(symbol, given, start, stop, size, chunks, stop_checks=stop_checks)
            elif division.stop > division.start:
                passed = [*given, f"i64 {division.start}", f"i64 {division.stop}"]
                w.do(f"call void @{symbol}({', '.join(passed)})")
        if stop_checks:
            self.check_stop()  # a kernel that ended early has not written all its results

    def fork(
        self,
        symbol: str,
        given: list[str],
        start: str,
        stop: str,
        size: str,
        chunks: str,
        worth: str = "",
        stop_checks: bool = False,
    ) -> None:
        """A parallel launch: by the pool in chunks, or as one call if there is no pool (or it is
        not `worth` it).
        """
        w = self.w
        whole = ", ".join([*given, f"i64 {start}", f"i64 {stop}"])
        words = [*given, *(f"i64 {n}" for n in (start, stop, size))]
        words += [f"ptr {self.pointer(stamp.region(first))}" for first in self.driver.parts]
        self.driver.forks.setdefault(symbol, sum(word.startswith("ptr ") for word in given))
        alone, together, out = w.name("alone"), w.name("together"), w.name("end")
        if worth:
            pool = w.op("icmp ne ptr %pool, null")
            w.do(f"br i1 {w.op(f'and i1 {pool}, {worth}')}, label %{together}, label %{alone}")
        else:
            w.do(f"br i1 {w.op('icmp eq ptr %pool, null')}, label %{alone}, label %{together}")
        w.label(alone)
        w.do(f"call void @{symbol}({whole})")
        w.do(f"br label %{out}")
        w.label(together)
        with w.scope():
            frame = self.frame_of(len(words))
            for i, word in enumerate(words):
                w.do(f"store {word}, ptr {w.op(f'getelementptr i64, ptr {frame}, i64 {i}')}")
            to = f"ptr %pool, ptr @{symbol}.chunk, ptr {frame}, i64 {chunks}"
            if stop_checks and not self.watch.committed:
                fork = w.fresh(
                    f"load ptr, ptr {w.op(f'getelementptr i8, ptr %pool, i64 {WATCHED}')}"
                )
                w.do(f"call void {fork}({to}, ptr @{NAME}, ptr {self.stop})")
            else:
                fork = w.fresh("load ptr, ptr %pool")
                w.do(f"call void {fork}({to})")
        w.do(f"br label %{out}")
        w.label(out)

    def frame_of(self, words: int) -> str:
        """The stack cells for a parallel launch's arguments; one array serves a whole function."""
        name, most = self.frame or ("%frame", 0)
        self.frame = (name, max(most, words))
        self.w.entry[:] = [line for line in self.w.entry if not line.startswith("  %frame = ")]
        self.w.entry.append(f"  %frame = alloca [{self.frame[1]} x i64], align 8")
        return name

    def pointer(self, argument: Argument) -> str:
        """The address of an argument."""
        w, slot = self.w, argument.slot
        base, at = self.driver.places[slot]
        match base:
            case "arena":
                pointer = w.op(f"getelementptr i8, ptr %arena, i64 {at}") if at else "%arena"
            case "block":
                pointer = w.op(f"getelementptr i8, ptr %fixed, i64 {at}") if at else "%fixed"
            case _:
                pointer = self.entry_load(base, at)
        kind = memory(slot.dtype)
        if argument.offset:
            pointer = w.op(
                f"getelementptr {kind}, ptr {pointer}, i64 {self.number(argument.offset)}"
            )
        for counter, stride in argument.strides:
            moved = w.op(f"mul i64 {self.counters[counter]}, {self.number(stride)}")
            pointer = w.op(f"getelementptr {kind}, ptr {pointer}, i64 {moved}")
        return pointer

    def entry_load(self, table: str, at: int) -> str:
        """An address from a table that is passed to `run`."""
        address = self.w.op(f"getelementptr ptr, ptr %{table}, i64 {at}")
        return self.w.op(f"load ptr, ptr {address}, !invariant.load !0")
