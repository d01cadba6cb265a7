"""Pipelines as text: names with commas between them, options in braces.

    simplify,expand,motion{limit=3},fold{small=0 work=1048576}

White space between names, braces and options does not matter.
"""

from __future__ import annotations

import re
from dataclasses import Field, dataclass
from pathlib import Path
from typing import Any

from xlac.passes.registry import PASSES, Option, Pass, option_fields
from xlac_sdk.source import Diagnostic, SourceError, Span
from xlac_sdk.support.choices import nearest

NAME = re.compile(r"[A-Za-z][\w-]*")
VALUE = re.compile(r"[^\s,{}=]+")


@dataclass(frozen=True, slots=True)
class TextSpan(Span):
    """A range of a text that is not in a file; `file` names the text in messages."""

    text: str = ""

    def excerpt(self) -> str:
        """The text with a caret under the range."""
        shown = "".join(c if c.isprintable() else " " for c in self.text)
        return f"{1:>5} | {shown}\n{'|':>7} {' ' * (self.column - 1)}{'^' * self.width}"


def parsed(text: str) -> list[Pass]:
    """Parses a pipeline: the passes in order. Raises SourceError, with the place, for an unknown
    pass or option, and for an invalid value of an option.
    """
    return _Reader(text).pipeline()


class _Reader:
    """Parses a text from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def pipeline(self) -> list[Pass]:
        passes: list[Pass] = []
        if self.next() == "":
            return passes
        while True:
            passes.append(self.one())
            if self.next() == "":
                return passes
            self.expect(",", "a comma and the next pass")

    def one(self) -> Pass:
        """A pass with its options."""
        place, name = self.word(NAME, "the name of a pass")
        if name not in PASSES:
            raise self.error("XL4101", f"there is no pass '{name}'", place, nearest(name, PASSES))
        given: dict[str, Option] = {}
        if self.next() == "{":
            self.at += 1
            while self.next() != "}":
                self.option(PASSES[name], given)
            self.at += 1
        return PASSES[name](**given)

    def option(self, kind: type[Pass], given: dict[str, Option]) -> None:
        """One option, into those that are given."""
        place, key = self.word(NAME, "an option, or the brace that closes them")
        known = option_fields(kind)
        if key not in known:
            has = nearest(key, known) if known else f"{kind.name} has no options"
            raise self.error("XL4102", f"{kind.name} has no option '{key}'", place, has)
        option = known[key]
        if option.name in given:
            raise self.error("XL4102", f"option '{key}' is given twice", place)
        self.expect("=", f"the value of '{key}': {key}={option.default}")
        place, text = self.word(VALUE, f"the value of '{key}'")
        value = value_of(option, text)
        if value is None:
            problem = f"option '{key}' of {kind.name} is {wanted(option)}, not '{text}'"
            raise self.error("XL4102", problem, place)
        given[option.name] = value

    # ---- characters --------------------------------------------------------------------------

    def next(self) -> str:
        """The next character that is not white space; empty at the end."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def expect(self, character: str, what: str) -> None:
        if self.next() != character:
            raise self.error("XL4103", f"expected {what}", (self.at, 1))
        self.at += 1

    def word(self, pattern: re.Pattern[str], what: str) -> tuple[tuple[int, int], str]:
        """A word, and its place."""
        self.next()
        match = pattern.match(self.text, self.at)
        if match is None:
            raise self.error("XL4103", f"expected {what}", (self.at, 1))
        start, self.at = self.at, match.end()
        return (start, len(match[0])), match[0]

    def error(self, code: str, problem: str, place: tuple[int, int], hint: str = "") -> SourceError:
        start, width = place
        span = TextSpan(Path("passes"), 1, start + 1, width, self.text)
        return SourceError(Diagnostic(code, problem, span, hint))


def value_of(option: Field[Any], text: str) -> Option | None:
    """The value of an option, parsed; None where it is invalid."""
    default = option.default
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text)
    if isinstance(default, str):
        return text
    try:
        value = float(text) if isinstance(default, float) else int(text)
    except ValueError:
        return None
    return value if value >= option.metadata.get("least", value) else None


def wanted(option: Field[Any]) -> str:
    """The valid values of an option, for a message."""
    match option.default:
        case bool():
            return "true or false"
        case int():
            least = option.metadata.get("least")
            return "a whole number" + (f" of at least {least}" if least is not None else "")
        case float():
            return "a number"
    return "a word"
