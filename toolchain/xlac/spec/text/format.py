"""Formats specs canonically: sections and keys in one order, uniform spacing, comments kept."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from xlac.spec.schema import schema
from xlac.spec.text.composer import compose
from xlac.spec.text.tree import Source
from xlac_sdk.source import Diagnostic, SourceError, Span

# columns at which lines are broken, so large that a flow mapping that the user wrote on one line
# stays on it
NEVER = 1 << 20
MARK = "⁑"  # put before a comment after a value, to find it in the text
SECTIONS = [field.alias or name for name, field in schema.Document.model_fields.items()]
_NODE = ["op", "block", "scan", "while", "cond", "in"]
_BLOCK = ["with", "repeat", "first", "last", "chain", "index", "when", "then", "else", "branches"]
_LOOP = ["axis", "length", "reverse", "carry", "body", "next", "stack", "outputs"]
KEYS = [*_NODE, *_BLOCK, *_LOOP]


def canonical(file: Path, text: str) -> str:
    """The canonical form of a text. Raises SourceError for text that is not YAML of our kind."""
    source = compose(file, text)
    formatted = _dump(_quoted(source))
    again = compose(file, formatted)
    if again.root.plain() != source.root.plain():
        raise SourceError(
            Diagnostic(
                "XL9003", "formatting would change the meaning of this file", Span(file, 1, 1)
            )
        )
    return formatted


def _quoted(source: Source) -> str:
    """The text with flow scalars that hold commas inside parentheses quoted, as other YAML readers
    need them.
    """
    text = source.text
    for start, end in sorted(source.joined, reverse=True):
        text = text[:start] + json.dumps(text[start:end], ensure_ascii=False) + text[end:]
    return text


def _dump(text: str) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = NEVER
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.allow_duplicate_keys = True
    yaml.version = (1, 2)
    try:
        data = yaml.load(text)
    except YAMLError as error:  # our reader accepted it, so this is a limit of the formatter
        raise SourceError(
            Diagnostic("XL1004", f"cannot be formatted: {str(error).splitlines()[0]}")
        ) from None
    _sort(data, SECTIONS)
    _comments(data)
    _entries(data.get("graph") if isinstance(data, dict) else None)
    for block in (data.get("blocks") or {}).values() if isinstance(data, dict) else ():
        if isinstance(block, dict):
            _sort(block, ["doc", "params", "inputs", "graph", "outputs"])
            _entries(block.get("graph"))
    out = io.StringIO()
    yaml.dump(data, out)
    dumped = out.getvalue().removeprefix("%YAML 1.2\n---\n")
    return (
        "\n".join(_aligned(_spaced(dumped.splitlines(), _literal_lines(dumped)))).strip("\n") + "\n"
    )


def _entries(section: Any) -> None:
    if not isinstance(section, dict):
        return
    for entry in section.values():
        if isinstance(entry, dict):
            _sort(entry, KEYS)
            _entries(entry.get("body"))


def _sort(mapping: Any, order: list[str]) -> None:
    """Sorts the keys of one of ruamel's ordered mappings; an operation's attributes keep their
    order, after `in`.
    """
    if not hasattr(mapping, "move_to_end"):
        return
    keys = list(mapping)
    ahead = [k for k in order if k in keys and (order is not KEYS or k in _NODE)]
    rest = [k for k in keys if k not in ahead and k not in order] + [
        k for k in order if k in keys and k not in ahead
    ]
    wanted = [*ahead, *rest]
    if wanted != keys:
        for key in wanted:
            mapping.move_to_end(key)


def _comments(data: Any) -> None:
    """Marks comments after values; ruamel would keep their columns, but they are realigned."""
    if not isinstance(data, dict | list):
        return
    attached: Any = getattr(data, "ca", None)
    for tokens in attached.items.values() if attached is not None else ():
        for token in tokens:
            if hasattr(token, "value") and token.value.startswith("#"):
                token.start_mark.column = 0
                token.value = "#" + MARK + token.value[1:]
    for item in data.values() if isinstance(data, dict) else data:
        _comments(item)


def _literal_lines(text: str) -> set[int]:
    """The line numbers inside block scalars, which must not be changed."""
    numbers: set[int] = set()
    stack = [compose(Path("formatted"), text).root]
    while stack:
        value = stack.pop()
        if isinstance(value.data, dict):
            stack += value.data.values()
        elif isinstance(value.data, list):
            stack += value.data
        elif value.style in ("|", ">"):
            numbers |= set(
                range(value.line + 1, value.line + text[value.start : value.end].count("\n") + 1)
            )
    return numbers


def _spaced(lines: list[str], literal: set[int]) -> list[str]:
    """At most one blank line in a row, and comments indented like the line after them."""
    spaced: list[str] = []
    for number, line in enumerate(lines):
        if number in literal:
            spaced.append(line)
            continue
        line = line.rstrip()
        if not line and (not spaced or not spaced[-1]):
            continue
        if line.lstrip().startswith("#"):
            after = next(
                (
                    one
                    for one in lines[number + 1 :]
                    if one.strip() and not one.lstrip().startswith("#")
                ),
                "",
            )
            before = next(
                (one for one in reversed(spaced) if one and not one.lstrip().startswith("#")), ""
            )
            own = _indent(line)
            line = (
                " "
                * min(
                    _indent(after),
                    _indent(before),
                    key=lambda n: (abs(n - own), n != _indent(after)),
                )
                + line.lstrip()
            )
        spaced.append(line)
    return spaced


def _aligned(lines: list[str]) -> list[str]:
    """Comments after values, two spaces away; those on consecutive lines are aligned."""
    aligned: list[str] = []
    run: list[tuple[str, str]] = []
    for line in [*lines, ""]:
        value, mark, comment = line.partition("#" + MARK)
        if mark:
            run.append((value.rstrip(), "#" + comment))
            continue
        column = max((len(value) for value, _ in run), default=0) + 2
        aligned += [value.ljust(column) + comment for value, comment in run]
        run = []
        aligned.append(line)
    return aligned[:-1]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
