"""The tree of a YAML document: every value with its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xlac_sdk.source import Span

Key = str | int
Path_ = tuple[Key, ...]
Scalar = str | int | float | bool | None


@dataclass(slots=True, eq=False)
class YamlValue:
    """A value of the document and where it stands; indices count characters, lines and columns from
    0.
    """

    data: Scalar | dict[str, YamlValue] | list[YamlValue]
    line: int
    column: int
    start: int
    end: int
    style: str = ""  # of a scalar: "" plain, ' " | > otherwise
    # of a mapping: line, column, width
    keys: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    size: int = 1  # number of values inside, itself included, aliases expanded

    def plain(self) -> Any:
        """The value as Python data."""
        data = self.data
        if type(data) is dict:
            return {k: v.plain() for k, v in data.items()}
        if type(data) is list:
            return [v.plain() for v in data]
        return data


@dataclass(slots=True, eq=False)
class Source:
    """A YAML file: its text and its tree. `shown` is the path in diagnostics."""

    file: Path
    text: str
    root: YamlValue
    # flow scalars with commas inside parentheses
    joined: list[tuple[int, int]] = field(default_factory=list)

    def find(self, path: Path_) -> tuple[YamlValue, Path_]:
        """The value at `path`, or the innermost one around it, and how much of the path was
        found.
        """
        at = self.root
        for depth, key in enumerate(path):
            data: Any = at.data
            known = (
                key in data
                if isinstance(data, dict)
                else isinstance(data, list) and key in range(len(data))
            )
            if not known:
                return at, path[:depth]
            at = data[key]
        return at, path

    def span(self, path: Path_, offset: int = 0, width: int = 0) -> Span:
        """The span of the value at `path`, or of the nearest enclosing value in the text.

        `offset` and `width` select characters of a scalar's text.
        """
        value, nearest = self.find(path)
        if nearest != path and nearest:
            return self.key_span(nearest)
        if isinstance(value.data, dict | list) and path:
            end = self.text.find("\n", value.start)
            first = self.text[value.start : min(value.end, end if end >= 0 else len(self.text))]
            return Span(self.file, value.line + 1, value.column + 1, max(1, len(first.rstrip())))
        if offset or width:
            return self._inside(value, offset, max(1, width))
        lines = self.text[value.start : value.end].split("\n", 1)
        return Span(self.file, value.line + 1, value.column + 1, max(1, len(lines[0].rstrip())))

    def key_span(self, path: Path_) -> Span:
        """Where the key that ends `path` is."""
        if not path:
            return Span(self.file, 1, 1)
        around, nearest = self.find(path[:-1])
        key = path[-1]
        if nearest == path[:-1] and isinstance(key, str) and key in around.keys:
            line, column, width = around.keys[key]
            return Span(self.file, line + 1, column + 1, width)
        return self.span(path)

    def _inside(self, value: YamlValue, offset: int, width: int) -> Span:
        """The span of part of a scalar: its text is aligned with the source, across quotes, escapes
        and folds.
        """
        raw, wanted = self.text[value.start : value.end], str(value.data)
        quote = int(value.style in ("'", '"'))
        if (
            value.end - value.start == len(wanted) + 2 * quote
            and "\n" not in raw
            and value.style not in ("|", ">")
        ):
            # the source equals the text, character by character
            column = value.column + quote + min(offset, len(wanted))
            return Span(
                self.file, value.line + 1, column + 1, max(1, min(width, len(wanted) - offset))
            )
        at = raw.find("\n") + 1 if value.style in ("|", ">") else int(value.style in ("'", '"'))
        places = []
        for char in wanted[: offset + width]:
            if char.isspace():
                places.append(at)
                continue
            position = raw.find(char, at)
            # a character that was written as an escape stands near here
            places.append(max(position, at))
            at = max(position + 1, at)
        if offset >= len(places):
            place, end = at, at + 1
        else:
            place, end = places[offset], places[-1] + 1
        before = raw[:place]
        line = value.line + before.count("\n")
        column = place - before.rfind("\n") - 1 if "\n" in before else value.column + place
        return Span(
            self.file,
            line + 1,
            column + 1,
            max(1, min(end - place, (raw + "\n").find("\n", place) - place)),
        )
