"""Parses expressions and types by Python's grammar; nothing is ever run by Python.

`$name`, `${…}` and `layer.0.h` are not Python: each is replaced by Python text of the same length
before parsing, so that every place in the tree is a place in the user's text. Names in the tree are
then restored from that text, so that the replacements can never be confused with a user's names. A
`$` begins the names of parameters, and of `${…}`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from xlac.spec.text.grammar import BRACE, Malformed, character_range, check_syntax

MAX_LENGTH = 4000
KEPT = 4096  # texts whose trees are cached: more than specs have, and some tens of megabytes
# upper case, as no keyword of Python consists of these letters
_DIGITS = str.maketrans("0123456789", "ABCDEFGHIJ")
_DOTTED = re.compile(r"(?<![\w.])[^\W\d]\w*(?:\.\w+)+")
_PART = re.compile(r"(?<=\.)\d+(?!\w)")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")  # some of these end a line for Python


@dataclass(frozen=True, slots=True, eq=False)
class Parsed:
    """An expression: its text, its tree, and the names of values that it reads."""

    text: str
    tree: ast.expr
    names: tuple[str, ...]

    def place(self, node: ast.AST) -> tuple[int, int]:
        """The place of a part of the tree: offset and width in characters."""
        return character_range(self.text, _replaced(self.text), node)


@lru_cache(maxsize=KEPT)
def _replaced(text: str) -> str:
    """The text with replacements, of the same length."""
    if "." in text:
        text = _outside(
            text,
            lambda part: _DOTTED.sub(
                lambda m: _PART.sub(lambda p: p[0].translate(_DIGITS), m[0]), part
            ),
        )
    if "$" not in text:
        return text.replace("\n", " ")
    result, closing, i = list(text.replace("\n", " ")), [], 0
    while i < len(text):
        char = text[i]
        if char in "'\"" and (quoted := _QUOTED.match(text, i)):
            i = quoted.end()
            continue
        if char == "$":
            result[i] = "_"
            if text[i + 1 : i + 2] == "{":
                result[i + 1] = "("
                closing.append("{")
                i += 2
                continue
            if not re.match(r"\w", text[i + 1 : i + 2]):
                raise Malformed(
                    "'$' must be followed by a parameter's name or by {…}", i, code="XL1019"
                )
        elif char == "}":
            if not closing:
                raise Malformed("unexpected '}'", i)
            closing.pop()
            result[i] = ")"
        elif char == "{":
            raise Malformed("a '{' belongs behind a '$'", i)
        i += 1
    if closing:
        raise Malformed("'${' is never closed by '}'", text.rfind("${"), 2, code="XL1019")
    return "".join(result)


def _outside(text: str, change: Callable[[str], str]) -> str:
    """A text, changed outside of quotation marks."""
    if "'" not in text and '"' not in text:
        return change(text)
    pieces, end = [], 0
    for quoted in _QUOTED.finditer(text):
        pieces += [change(text[end : quoted.start()]), quoted[0]]
        end = quoted.end()
    return "".join([*pieces, change(text[end:])])


@lru_cache(maxsize=KEPT)
def parse(text: str) -> Parsed:
    """The tree of an expression. Raises Malformed."""
    if len(text) > MAX_LENGTH:
        message = f"an expression of {len(text):,} characters; at most {MAX_LENGTH:,} are read"
        raise Malformed(message, hint="give its parts names of their own", code="XL4016")
    if not text.strip():
        raise Malformed("an expression is empty")
    if control := _CONTROL.search(text):
        raise Malformed(
            f"the character U+{ord(control[0]):04X} is not allowed in an expression",
            control.start(),
        )
    replaced = _replaced(text)
    try:
        with warnings.catch_warnings():
            # `3if x else y` is only a warning in Python
            warnings.simplefilter("error", SyntaxWarning)
            tree = ast.parse("(" + replaced + ")", mode="eval").body
    except SyntaxError as error:
        raise _syntax(text, replaced, error) from None
    except (ValueError, MemoryError, RecursionError):
        raise Malformed(
            "an expression is nested too deeply", hint="give its parts names", code="XL4016"
        ) from None
    if isinstance(tree, ast.Tuple) and tree.elts and tree.col_offset == 0:
        raise Malformed(
            "an expression is one value; this is a list of several",
            0,
            len(text),
            "name several results in the key: 'a, b: split(x, parts=2)'",
        )
    if replaced != text or not text.isascii():  # Python normalizes some letters too
        _spell(text, replaced, tree)
    names = check_syntax(text, replaced, tree)
    return Parsed(text, tree, names)


def _spell(text: str, replaced: str, tree: ast.expr) -> None:
    """Restores every name of a tree from the text, with equivalent letters (NFKC) unified as in the
    keys of a spec.
    """
    # ast counts bytes, after the bracket that we add
    characters = [n for n, c in enumerate("(" + replaced) for _ in c.encode()]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            first, last = characters[node.col_offset], characters[(node.end_col_offset or 0) - 1]
            written = normalize("NFKC", text[first - 1 : last])
            if isinstance(node, ast.Name):
                node.id = written
            else:
                node.attr = written.rpartition(".")[2].strip()


def _syntax(text: str, replaced: str, error: SyntaxError) -> Malformed:
    if (lone := _unclosed(text)) is not None:
        return Malformed(f"this {text[lone]!r} has no partner", lone)
    column = (error.offset or 1) - 2
    width = 1
    if (
        error.end_offset
        and error.end_lineno == error.lineno
        and error.end_offset > (error.offset or 0)
    ):
        width = error.end_offset - (error.offset or 0)
    message = (error.msg or "").split("(")[0].strip() or "invalid syntax"
    message = message.split(". ")[0].replace("invalid syntax", "this is not an expression")
    hint = ""
    if words := re.findall(
        r"\b(?:in|is|lambda|def|class|for|while|import|from|with|as|pass|del|try|yield)\b", text
    ):
        hint = (
            f"{words[0]!r} is a word of the expression language; give such a name by {{op: …, in: "
            f"[{words[0]}]}}"
        )
    elif "invalid character" in message or "invalid non-printable" in message:
        message = "a name in an expression is letters, digits, '_' and '.'"
        hint = "give other names by {op: …, in: […]}"
    elif "&&" in text or "||" in text:
        hint = "write 'and' for &&, 'or' for ||"
    elif re.search(r"(?<![=<>!])=(?!=)", text) and "(" not in text:
        hint = "'==' compares"
    if "exceeds the limit" in message or "too many nested" in message:
        return Malformed(
            "an expression is nested too deeply or holds a number too long", code="XL4016"
        )
    column = max(0, min(column, max(0, len(text) - 1)))
    if message == "'" or not message:
        message = "this is not an expression"
    return Malformed(message, column, min(width, len(text) - column), hint)


def _unclosed(text: str) -> int | None:
    """The place of an unmatched bracket."""
    stack: list[int] = []
    quote = ""
    for i, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([{":
            stack.append(i)
        elif char in ")]}":
            if not stack or text[stack[-1]] + char not in ("()", "[]", "{}"):
                return i
            stack.pop()
    return stack[-1] if stack else None


def braced(node: ast.Call) -> ast.expr | None:
    """The arithmetic inside `${…}`, or None for an ordinary call."""
    if (
        isinstance(node.func, ast.Name)
        and node.func.id == BRACE
        and len(node.args) == 1
        and not node.keywords
    ):
        return node.args[0]
    return None
