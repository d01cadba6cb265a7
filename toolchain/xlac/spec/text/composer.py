"""Builds values with their places from the events of a YAML parser."""

from __future__ import annotations

import re
import unicodedata
from math import isinf
from pathlib import Path
from typing import Any

import yaml
from yaml.cyaml import CBaseLoader

from xlac.spec.text.tree import Scalar, Source, YamlValue
from xlac.spec.text.yaml_syntax import syntax_error
from xlac_sdk.source import Diagnostic, SourceError, Span

MAX_DEPTH = 64
MAX_VALUES = 1_000_000  # after aliases are expanded
MAX_DIGITS = 40  # of an integer
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAYBE_NUMBER = frozenset("+-.0123456789")


def spec_error(code: str, message: str, span: Span | None, hint: str = "") -> SourceError:
    """One mistake in a file as an error."""
    return SourceError(Diagnostic(code, message, span, hint))


def compose(file: Path, text: str) -> Source:
    """The tree of a document. Raises SourceError with all mistakes found."""
    if max(map(len, text.split("\n"))) > 2**20:
        raise spec_error("XL4012", "a line is longer than 1,048,576 characters", Span(file, 1, 1))
    composer = _Composer(file, text)
    try:
        root = composer.document()
    except yaml.MarkedYAMLError as error:
        raise SourceError(*composer.faults, syntax_error(error, file, text)) from None
    except yaml.YAMLError as error:
        raise spec_error("XL1004", str(error).splitlines()[0], Span(file, 1, 1)) from None
    if composer.faults:
        raise SourceError(*composer.faults)
    return Source(file, text, root, composer.joined)


class _Composer:
    """Reads the events of one document in order; collects mistakes in `faults`."""

    def __init__(self, file: Path, text: str) -> None:
        self.file, self.text = file, text
        self.parser: Any = CBaseLoader(text)
        self.faults: list[Diagnostic] = []
        self.anchors: dict[str, YamlValue] = {}
        self.joined: list[tuple[int, int]] = []
        self.count = 0

    def fault(self, code: str, message: str, mark: Any, hint: str = "", width: int = 1) -> None:
        self.faults.append(
            Diagnostic(code, message, Span(self.file, mark.line + 1, mark.column + 1, width), hint)
        )

    def document(self) -> YamlValue:
        next_event = self.parser.get_event
        next_event()  # stream start
        start = next_event()
        if isinstance(start, yaml.StreamEndEvent):
            raise spec_error(
                "XL1014", "the file is empty", Span(self.file, 1, 1), "a spec starts with 'xlac: 1'"
            )
        root = self.value(next_event(), 0)
        next_event()  # document end
        more = next_event()
        if not isinstance(more, yaml.StreamEndEvent):
            self.fault(
                "XL1014", "a second document starts here; a spec is one document", more.start_mark
            )
        return root

    def value(self, event: Any, depth: int) -> YamlValue:
        kind = type(event)
        mark = event.start_mark
        if kind is yaml.AliasEvent:
            return self.alias(event)
        if event.tag is not None:
            self.fault(
                "XL1006",
                f"tag {event.tag!r} is not allowed in a spec",
                mark,
                "write the plain value",
            )
        self.count += 1
        if self.count > MAX_VALUES:
            raise spec_error(
                "XL4013", f"the file holds more than {MAX_VALUES:,} values", _span(self.file, mark)
            )
        if kind is yaml.ScalarEvent:
            value = self.scalar(event)
        else:
            if depth >= MAX_DEPTH:
                raise SourceError(
                    *self.faults,
                    Diagnostic(
                        "XL4014", f"nested deeper than {MAX_DEPTH} levels", _span(self.file, mark)
                    ),
                )
            if kind is yaml.SequenceStartEvent:
                value = self.sequence(event, depth + 1)
            else:
                value = self.mapping(event, depth + 1)
        if event.anchor is not None:
            if event.anchor in self.anchors:
                self.fault("XL1005", f"anchor &{event.anchor} is defined twice", mark)
            self.anchors[event.anchor] = value
        return value

    def alias(self, event: Any) -> YamlValue:
        known = self.anchors.get(event.anchor)
        mark = event.start_mark
        if known is None:
            self.fault(
                "XL1008",
                f"alias *{event.anchor} repeats no anchor before it",
                mark,
                width=len(event.anchor) + 1,
            )
            known = YamlValue(None, mark.line, mark.column, mark.index, mark.index)
        self.count += known.size
        if self.count > MAX_VALUES:
            message = f"aliases expand the file to more than {MAX_VALUES:,} values"
            raise SourceError(*self.faults, Diagnostic("XL4013", message, _span(self.file, mark)))
        return known

    def scalar(self, event: Any) -> YamlValue:
        text, start, end = event.value, event.start_mark, event.end_mark
        style = event.style or ""
        data: Scalar = text
        if not style:
            if not text or text in _NULL:
                data = None
            elif text in _BOOL:
                data = _BOOL[text]
            elif text[0] in _MAYBE_NUMBER:
                data = self.number(text, start)
        return YamlValue(data, start.line, start.column, start.index, end.index, style)

    def number(self, text: str, mark: Any) -> Scalar:
        if _INT.fullmatch(text):
            if len(text) > MAX_DIGITS:
                self.fault(
                    "XL4015",
                    f"an integer of {len(text)} characters; at most {MAX_DIGITS} are read",
                    mark,
                    width=len(text),
                )
                return 0
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if _FLOAT.fullmatch(text):
            number = float(text)
            if isinf(number):
                self.fault(
                    "XL4015",
                    f"{text[:40]} is beyond every type of floats",
                    mark,
                    "an infinity is written inf",
                    len(text),
                )
                return 0
            return number
        if _SPECIAL.fullmatch(text):
            return float(text.lower().replace(".", ""))
        return text

    def sequence(self, event: Any, depth: int) -> YamlValue:
        start, size = event.start_mark, 1
        items: list[YamlValue] = []
        flow = event.flow_style
        while not isinstance(event := self.parser.get_event(), yaml.SequenceEndEvent):
            item = self.value(event, depth)
            if items and flow and _open(items[-1]):
                item = self.join(items.pop(), item)
            items.append(item)
            size += item.size
        end = event.end_mark.index if event.end_mark else start.index
        return YamlValue(items, start.line, start.column, start.index, end, size=size)

    def mapping(self, event: Any, depth: int) -> YamlValue:
        start, size, style = event.start_mark, 1, event.flow_style
        items: dict[str, YamlValue] = {}
        keys: dict[str, tuple[int, int, int]] = {}
        last = ""
        get = self.parser.get_event
        while (kind := type(event := get())) is not yaml.MappingEndEvent:
            mark = event.start_mark
            if kind is not yaml.ScalarEvent:
                self.fault("XL1009", "a key must be plain text", mark)
                if kind is not yaml.AliasEvent:
                    self.value(event, depth)
                self.value(get(), depth)
                continue
            name = (
                event.value if event.value.isascii() else unicodedata.normalize("NFKC", event.value)
            )
            if event.tag is not None or event.anchor is not None:
                self.fault("XL1006", "a key takes no tag and no anchor", mark, width=len(name))
            if name == "<<" and not event.style:
                self.fault(
                    "XL1007", "merge keys (<<) are not allowed", mark, "use a block, or params", 2
                )
            value = self.value(get(), depth)
            if (
                style
                and last
                and value.data is None
                and value.start == value.end
                and _open(items[last])
            ):
                items[last] = self.join(
                    items[last], YamlValue(name, 0, 0, mark.index, event.end_mark.index)
                )
                continue
            width = max(
                1,
                event.end_mark.column - mark.column
                if event.end_mark.line == mark.line
                else len(name),
            )
            if name in items:
                first = keys[name][0] + 1
                self.fault(
                    "XL1005",
                    f"key {name!r} is given twice",
                    mark,
                    f"the first is on line {first}",
                    width,
                )
                continue
            items[name], keys[name] = value, (mark.line, mark.column, width)
            last = name
            size += value.size
        return YamlValue(
            items, start.line, start.column, start.index, event.end_mark.index, keys=keys, size=size
        )

    def join(self, first: YamlValue, second: YamlValue) -> YamlValue:
        """Joins flow scalars that were split at a comma inside parentheses: `{y: softmax(x,
        axis=1)}` has one text.
        """
        text = self.text[first.start : second.end]
        self.joined = [pair for pair in self.joined if pair[0] != first.start] + [
            (first.start, second.end)
        ]
        return YamlValue(text, first.line, first.column, first.start, second.end)


def _open(value: YamlValue) -> bool:
    """Whether a plain scalar ends inside parentheses."""
    data = value.data
    return type(data) is str and not value.style and data.count("(") > data.count(")")


def _span(file: Path, mark: Any) -> Span:
    return Span(file, mark.line + 1, mark.column + 1)
