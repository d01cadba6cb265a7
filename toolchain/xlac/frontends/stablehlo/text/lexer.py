"""Lexer of MLIR text; tokens are read as the parser asks for them."""

from __future__ import annotations

import re
from typing import NoReturn

from xlac.frontends.stablehlo.text.errors import MlirSource

SPACE = re.compile(r"(?:[ \t\r\n]+|//[^\n]*)*")
WORD = re.compile(
    r"""(?P<value>%[\w$.\-]+(?:\#\d+)?)
      | (?P<string>"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<symbol>@(?:[\w$.\-]+|"[^"\\]*(?:\\.[^"\\]*)*"))
      | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
      | (?P<word>[A-Za-z_][\w$.]*)
      | (?P<alias>[\#!][\w$.\-]*)
      | (?P<block>\^[\w$.\-]+)
      | (?P<mark>->|::|\{-\#|\#-\}|[{}()\[\]<>,:=?*+/|&;-])""",
    re.VERBOSE | re.DOTALL,
)


class Lexer:
    """One token of lookahead: `kind` and `text` describe it, `at` is its offset; at the end of the
    text the kind is "end".
    """

    def __init__(self, source: MlirSource) -> None:
        self.source, self.all = source, source.text
        self.kind, self.text, self.at, self.end = "", "", 0, 0
        self.seek(0)

    def seek(self, offset: int) -> None:
        """Reads the token at an offset, or after the white space there."""
        # the pattern matches the empty string, too
        self.at = SPACE.match(self.all, offset).end()  # type: ignore[union-attr]
        match = WORD.match(self.all, self.at)
        if match is None:
            if self.at < len(self.all):
                self.source.fail("XL7201", f"unexpected character {self.all[self.at]!r}", self.at)
            self.kind, self.text, self.end = "end", "", self.at
            return
        self.kind, self.text, self.end = str(match.lastgroup), match.group(), match.end()

    def next(self) -> str:
        """Consumes the token and returns its text."""
        text = self.text
        self.seek(self.end)
        return text

    def accept(self, text: str) -> bool:
        """Consumes the token if it has this text."""
        if self.text != text or self.kind == "string":
            return False
        self.next()
        return True

    def expect(self, text: str) -> None:
        """Consumes a token with this text; raises SourceError for any other."""
        if not self.accept(text):
            self.unexpected(f"{text!r}")

    def take(self, kind: str, what: str) -> str:
        """Consumes a token of a kind and returns its text."""
        if self.kind != kind:
            self.unexpected(what)
        return self.next()

    def unexpected(self, wanted: str) -> NoReturn:
        """Raises SourceError: the current token is not what was wanted."""
        current = "the end of the text" if self.kind == "end" else repr(self.text[:60])
        self.source.fail(
            "XL7201",
            f"expected {wanted}, found {current}",
            self.at,
            max(1, min(60, len(self.text))),
        )

    def string(self) -> str:
        """Consumes a string literal and returns its contents."""
        return unescaped(self.take("string", "a string")[1:-1])


ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
LETTERS = {"n": "\n", "t": "\t"}


def unescaped(text: str) -> str:
    r"""A string's contents with \n, \" and \hh resolved; invalid UTF-8 becomes U+FFFD."""
    if "\\" not in text:
        return text

    def resolved(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code, 16)) if len(code) == 2 else LETTERS.get(code, code)

    decoded = ESCAPE.sub(resolved, text)
    try:
        return decoded.encode("latin1").decode("utf-8", "replace")
    except UnicodeEncodeError:  # the text had characters beyond Latin 1 beside its escapes
        return decoded
