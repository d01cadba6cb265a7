"""A program's kernels as one file in a C-family language: the parts that a port's template
needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xlac_sdk.dtypes import DType
from xlac_sdk.emit import hand_written
from xlac_sdk.emit.catomics import WordSwaps, atomics
from xlac_sdk.emit.cdialect import C99, Dialect, comment
from xlac_sdk.emit.cexchange import exchanges
from xlac_sdk.emit.cfunctions import TYPES, needed
from xlac_sdk.emit.chalves import halves
from xlac_sdk.emit.cnative import extremes
from xlac_sdk.emit.coutlined import function_texts, with_calls
from xlac_sdk.emit.ctext import CFunction, kernel_text
from xlac_sdk.emit.cvectors import declarations
from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.verify import verify
from xlac_sdk.programs.program import Program

NONE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ModuleText:
    """The parts of a file.

    A title that is safe in a comment; typedefs for the integer names of the SDK's functions, where
    the language has others; declarations of vectors; functions that the kernels call, in order of
    dependency, and declarations of hand-written ones; each kernel, with the threads of its blocks
    (0 where it is not a grid); the hand-written functions, which come last.
    """

    title: str
    typedefs: tuple[str, ...]
    vectors: tuple[str, ...]
    functions: tuple[str, ...]
    kernels: tuple[tuple[CFunction, int], ...]
    definitions: tuple[str, ...] = ()


def module_text(
    program: Program,
    dialect: Dialect,
    swaps: WordSwaps | None = None,
    functions: Mapping[str, str] = NONE,
    before: str = "static inline",
) -> ModuleText:
    """The kernels of a program, which must have been legalized for the target.

    With `swaps` the file has atomic operations by compare-and-swap (`catomics.py`). `functions` are
    the port's own, by name, which replace or supplement the SDK's; `before` are the specifiers of
    the SDK's. Raises VerifyError for an invalid kernel.
    """
    for kernel in program.kernels:
        verify(kernel)
    called = {f.code.name: f for kernel in program.kernels for f in kernel.functions}.values()
    dialect = with_calls(dialect, called)
    texts = {kernel: kernel_text(kernel, dialect) for kernel in program.kernels}
    body = "\n".join(line for text in texts.values() for line in text.lines)
    known = {**dict(_bitcasts(dialect, before)), **exchanges(dialect, before)}
    known |= {**extremes(dialect, before), **halves(dialect, before)}
    known |= {**(atomics(dialect, swaps, before) if swaps else {}), **functions}
    known |= function_texts(called, dialect, before)
    forms = {kernel: grid(kernel) for kernel in texts}
    by_hand = hand_written.functions(program.kernels)
    declared = (f"{one.declaration(dialect)};" for one in by_hand)
    return ModuleText(
        comment(program.name),
        tuple(_typedefs(dialect)),
        tuple(declarations((v for text in texts.values() for v in text.vectors), dialect)),
        (*needed(body, known, before), *declared),
        tuple((text, form.threads if (form := forms[k]) else 0) for k, text in texts.items()),
        tuple(one.definition(dialect) for one in by_hand),
    )


def _typedefs(dialect: Dialect) -> Iterator[str]:
    for dtype in DType:
        word = dialect.types.get(dtype, TYPES[dtype])  # types that the language lacks have none
        if dtype.is_integer and word != TYPES[dtype]:
            yield f"typedef {word} {TYPES[dtype]};"


def _bitcasts(dialect: Dialect, before: str) -> Iterator[tuple[str, str]]:
    """The functions that the SDK uses to reinterpret bits, for languages without memcpy."""
    if dialect.bitcast == C99.bitcast:
        return
    for a in DType:
        for b in DType:
            if a.bits == b.bits and a is not b:
                kind = dialect.types[b]
                value = dialect.bitcast.format("value", s=a.value, d=b.value, t=kind)
                head = f"{before} {kind} bitcast_{a}_{b}({dialect.types[a]} value)"
                yield f"bitcast_{a}_{b}", f"{head}\n{{\n    return {value};\n}}"
