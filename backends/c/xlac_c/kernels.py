"""The kernels of a program as C functions; kernels that differ only in names and the order of
parameters share one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xlac_sdk.emit.ctext import CFunction, Dialect, kernel_text
from xlac_sdk.kernel_ir.kernel import Allocate, For, Kernel, Let, Stmt, children

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Callee:
    """The function that a launch calls, and the launch's argument or size for each parameter."""

    name: str
    arguments: tuple[int, ...]
    sizes: tuple[int, ...]
    stoppable: bool = False  # whether it takes the address of the stop flag


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions, in the order of first use, and the callee of each kernel."""

    texts: tuple[CFunction, ...]
    callees: dict[Kernel, Callee]


def functions(
    kernels: Iterable[Kernel], dialect: Dialect, inside: Mapping[Kernel, Mapping[int, int]]
) -> Functions:
    """Every kernel as text, with equal ones merged. `inside` are the stop checks of each: the
    iterations between them, by loop.
    """
    texts: list[CFunction] = []
    callees: dict[Kernel, Callee] = {}
    known: dict[tuple[str, ...], tuple[CFunction, Kernel, list[str]]] = {}
    for kernel in kernels:
        text = kernel_text(kernel, dialect, inside[kernel])
        key, order = _canonical(kernel, text, dialect)
        if key not in known:
            known[key] = text, kernel, order
            texts.append(text)
        first, like, its_order = known[key]
        place = {name: n for n, name in enumerate(its_order)}
        mine = [order[place[dialect.identifier(b.name)]] for b in like.parameters]
        sizes = [order[place[dialect.identifier(v.name)]] for v in like.sizes]
        buffers = [dialect.identifier(b.name) for b in kernel.parameters]
        given = [dialect.identifier(v.name) for v in kernel.sizes]
        callees[kernel] = Callee(
            first.name,
            tuple(map(buffers.index, mine)),
            tuple(map(given.index, sizes)),
            bool(inside[kernel]),
        )
    return Functions(tuple(texts), callees)


def _canonical(
    kernel: Kernel, text: CFunction, dialect: Dialect
) -> tuple[tuple[str, ...], list[str]]:
    """The text with names numbered in order of appearance, and the parameters in that order."""
    given = [*(b.name for b in kernel.parameters), *(v.name for v in kernel.sizes)]
    names = {dialect.identifier(n) for n in (*given, *_names(kernel.body))}
    numbers: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        word = match[0]
        return numbers.setdefault(word, f"n{len(numbers)}") if word in names else word

    lines = tuple(_WORD.sub(numbered, line) for line in text.lines)
    declared = {dialect.identifier(n): p for n, p in zip(given, text.parameters, strict=False)}
    order = [name for name in numbers if name in declared]
    order += sorted(set(declared) - set(order))
    return (
        *lines,
        *(_WORD.sub(lambda m: "" if m[0] in names else m[0], declared[n]) for n in order),
    ), order


def _names(body: tuple[Stmt, ...]) -> Iterable[str]:
    for stmt in body:
        match stmt:
            case For(counter=var) | Let(var=var):
                yield var.name
            case Allocate(buffer=buffer):
                yield buffer.name
        for block in children(stmt):
            yield from _names(block)
