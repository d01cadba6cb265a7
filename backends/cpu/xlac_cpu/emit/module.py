"""A program as LLVM IR files: kernels in modules of bounded size, and the driver."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from xlac_cpu import hand_written
from xlac_cpu.emit import driver, function, layout, outlined, stamp
from xlac_cpu.emit.function import UNREDUCED, FunctionText
from xlac_cpu.emit.statements import NEVER
from xlac_cpu.emit.stopping import function as stop_function
from xlac_cpu.emit.style import Style
from xlac_cpu.emit.threads import chunks
from xlac_cpu.machine import Machine
from xlac_sdk.kernel_ir.kernel import Kernel
from xlac_sdk.lowering.interleave import interleaved
from xlac_sdk.lowering.legalize import legalize
from xlac_sdk.lowering.stop_checks import StopChecks, of_entries
from xlac_sdk.lowering.wide_functions import widened
from xlac_sdk.programs.entries import parts as entry_parts
from xlac_sdk.programs.program import Program
from xlac_sdk.programs.verify import verify_program
from xlac_sdk.support.limits import checkpoint
from xlac_sdk.target import Target

KERNELS = 32  # kernels in one module
LETTERS = 400_000  # characters of kernel text in one module


FIRST = "first"  # the function that turns a zeroed state into the initial one
Places = Callable[[Program], layout.Places]


def emit(
    program: Program, target: Target, machine: Machine, places: Places | None = None
) -> dict[str, str]:
    """The program's modules by file name; `program.ll` has `run`. Equal kernels are written once.

    `places` has the slots' locations if the program is compiled ahead of time; only then are its
    entries written, as the functions that `functions` names.
    """
    verify_program(program)
    style = _style(target, machine)
    spelled = outlined.calls_for(target) if target.size else target
    fast = program.facts.get("precision") == "fast"
    legal = {
        kernel: interleaved(legalize(widened(kernel, target), spelled, fast), target)
        for kernel in program.kernels
    }
    each = of_entries(program, legal)
    apart = machine.is_x86 and not target.size
    symbols, groups = _kernels(program, legal, each[0], style, apart)
    group = groups[-1]
    parts = [replace(program, entries=None)]
    if places is not None and program.entries is not None:
        parts = [*parts, *entry_parts(program)]
        each.append(StopChecks(parts[-1]))  # of variants without stop checks
    names = functions(program)[: len(parts)]
    written: list[str] = []
    mains: list[driver.ProgramWriter] = []
    for name, part, checks in zip(names, parts, each, strict=False):
        main = driver.ProgramWriter(
            part,
            symbols,
            legal,
            target.threads,
            group.declarations,
            style,
            places(part) if places is not None else None,
            checks,
            name,
        )
        if name == FIRST:
            main.watch.never()
        written += main.write()
        mains.append(main)
    written += _helpers(program, mains, symbols, machine, group.declarations)
    called = {symbol: kinds for main in mains for symbol, kinds in main.called.items()}
    outside = [(symbol, kinds) for symbol, kinds in called.items() if symbol not in group.functions]
    sources = {f"kernels_{i}.ll": _render(machine, g, [], []) for i, g in enumerate(groups[:-1])}
    shared = _Group()
    if style.calls:
        shared.functions = outlined.functions(
            legal.values(), target, style, fast, shared.declarations
        )
    if shared.functions:
        sources["functions.ll"] = _render(machine, shared, [], [])
    sources |= hand_written.sources(program.kernels, machine)
    return {"program.ll": _render(machine, group, written, outside), **sources}


def functions(program: Program) -> list[str]:
    """The names of the functions that run a program's steps, each of its entries, and the
    initialization of its state.
    """
    entries = program.entries.entries if program.entries is not None else ()
    first = [FIRST] if program.entries is not None else []
    return ["run", *(f"enter_{entry.name}" for entry in entries), *first]


class _Group:
    """Kernels that share a module, which are mostly `products`, or not."""

    def __init__(self, products: bool = False) -> None:
        self.products = products
        self.functions: dict[str, str] = {}
        self.declarations: dict[str, None] = {}
        self.size = 0

    def add(self, symbol: str, text: FunctionText, needed: dict[str, None]) -> None:
        self.functions[symbol] = text.named(symbol)
        self.declarations.update(needed)
        self.size += text.letters


def _style(target: Target, machine: Machine) -> Style:
    return Style(
        machine.half,
        target.threads > 1,
        machine.fence,
        eager=not machine.is_x86,
        ternary=machine.masked,
        narrow=machine.pointer_bits == 32,
        dots=machine.dots,
        nearest=machine.is_x86,
        tables=machine.tables,
        matrix=machine.matrix,
        lanes=machine.vector_bytes // 4,
        in_step=machine.is_x86 and machine.registers <= 16 and not target.size,
        big_endian=machine.big_endian,
        calls=outlined.missing(target) if target.size else frozenset(),
    )


def _kernels(
    program: Program,
    legal: dict[Kernel, Kernel],
    stop_checks: StopChecks,
    style: Style,
    apart: bool,
) -> tuple[dict[Kernel, str], list[_Group]]:
    """The symbol of each kernel, and the modules with their text; equal text is written once.
    Products are `apart` from others, which the last module has.
    """
    aligns = layout.alignments(program)
    symbols: dict[Kernel, str] = {}
    written: dict[FunctionText, str] = {}
    full: list[_Group] = []
    last = {products: _Group(products) for products in (True, False)}
    for kernel in program.kernels:
        checkpoint()
        needed: dict[str, None] = {}
        text = function.write(
            legal[kernel],
            aligns[kernel],
            style,
            needed,
            stop_checks.inside(kernel) if stop_checks.long else NEVER,
        )
        symbol = written.get(text)
        if symbol is None:
            symbol = written[text] = f"k{len(written)}_{kernel.name}"
            products = apart and text.products
            group = last[products]
            if len(group.functions) >= KERNELS or group.size + text.letters > LETTERS:
                full.append(group)
                group = last[products] = _Group(products)
            group.add(symbol, text, needed)
        symbols[kernel] = symbol
    return symbols, [*full, *([last[True]] if last[True].functions else []), last[False]]


def _helpers(
    program: Program,
    mains: list[driver.ProgramWriter],
    symbols: dict[Kernel, str],
    machine: Machine,
    declarations: dict[str, None],
) -> list[str]:
    """Functions that steps and the pool call besides kernels: chunks of parallel kernels, stamps,
    and stop checks.
    """
    main = mains[0]
    counts = {symbols[k]: len(k.sizes) for k in symbols}
    checking = {
        symbols[k] for k in symbols if main.watch.watched and main.watch.stop_checks.inside(k)
    }
    functions = [
        chunks.chunk(
            symbol,
            pointers,
            counts[symbol],
            symbol in checking,
            stamp.counter(machine) if main.parts else "",
        )
        for symbol, pointers in {k: n for one in mains for k, n in one.forks.items()}.items()
    ]
    functions += [stamp.text(machine, declarations)] if stamp.stamped(program) else []
    functions += [stamp.part(machine, first.parts, declarations) for first in main.parts]
    functions += (
        [stop_function.text(machine, main.ahead, declarations)] if main.watch.watched else []
    )
    return functions


def _render(
    machine: Machine, group: _Group, functions: list[str], outside: list[tuple[str, str]]
) -> str:
    parts = [
        f"; xlac {json.dumps(machine.settings, sort_keys=True)}",
        *([UNREDUCED] if group.products else []),
        f'target triple = "{machine.triple}"',
        "",
    ]
    parts += group.declarations
    parts += [f"declare hidden void @{symbol}({parameters})" for symbol, parameters in outside]
    parts += [f"\n{function}" for function in (*group.functions.values(), *functions)]
    return "\n".join(
        [*parts, "", f"attributes #0 = {{ {machine.attributes} }}", "!0 = !{i32 1}", ""]
    )
