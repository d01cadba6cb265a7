"""The code of each kernel: its parts of a backend's source and of the compiler's assembly."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

OPENS = re.compile(r"[@\s*](\w+)(?:\.\w+)*\s*\(")
LABEL = re.compile(r"(\w+)(?:\.\w+)*:(?:\s|$)")
ADDED = re.compile(r"^k\d+_|_kernel$")
ENDS = ("\t.size", ".Lfunc_end", "\t.section", "\t.globl")


def functions(text: str, names: Collection[str]) -> dict[str, str]:
    """The functions of some kernels in a text of code with braces, as C has, or
    in Python; a kernel may have several, whose names are its own with a suffix after a dot.
    """
    return _joined(_functions(text.splitlines(), names))


def labels(text: str, names: Collection[str]) -> dict[str, str]:
    """The same in assembly, by its labels."""
    return _joined(_labels(text.splitlines(), names))


def code_of(files: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """The code of some kernels in all files that a backend writes."""
    code_by_name: dict[str, str] = {}
    for text in files.values():
        for name, code in functions(text, names).items():
            code_by_name[name] = f"{code_by_name[name]}\n\n{code}" if name in code_by_name else code
    return code_by_name


def assembly_of(text: str, names: Collection[str]) -> dict[str, str]:
    """The assembly of some kernels: by labels, or by braces."""
    return labels(text, names) or functions(text, names)


def _joined(parts: Iterator[tuple[str, list[str]]]) -> dict[str, str]:
    parts_by_name: dict[str, list[str]] = {}
    for name, lines in parts:
        parts_by_name.setdefault(name, []).append("\n".join(lines))
    return {name: "\n\n".join(texts) for name, texts in parts_by_name.items()}


def _functions(lines: list[str], names: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    at = 0
    while at < len(lines):
        line = lines[at]
        name = next(filter(None, (_kernel(n, names) for n in OPENS.findall(line))), None)
        if name is None or line[:1].isspace() or line.endswith(";") or line.startswith("declare"):
            at += 1
            continue
        end = _end(lines, at)
        yield name, lines[at:end]
        at = end


def _end(lines: list[str], start: int) -> int:
    """The line after the function that begins in a line."""
    python = lines[start].startswith("def ")
    for at in range(start + 1, len(lines)):
        line = lines[at]
        if python and line and not line[0].isspace():
            return at
        if not python and line.startswith("}"):
            return at + 1
    return len(lines)


def _labels(lines: list[str], names: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    at = 0
    while at < len(lines):
        name = _labelled(lines[at], names)
        if name is None:
            at += 1
            continue
        start = at
        at += 1
        while at < len(lines) and not lines[at].startswith(ENDS):
            if _labelled(lines[at], names) is not None:
                break
            at += 1
        yield name, lines[start:at]


def _labelled(line: str, names: Collection[str]) -> str | None:
    """The kernel whose code begins with a line that is its label."""
    match = LABEL.match(line)
    return None if match is None else _kernel(match[1], names)


def _kernel(symbol: str, names: Collection[str]) -> str | None:
    """The kernel that a symbol of the code means: backends put `k0_`, its number, before its name,
    or `_kernel` behind it.
    """
    if symbol in names:
        return symbol
    plain = ADDED.sub("", symbol)
    return plain if plain in names else None
