"""The formatter runs over everything: `fmt: skip` stands after tables only, `fmt: off` nowhere;
no line is longer than 100 columns.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator

from test_layout_lengths import FOLDERS, ROOT, files

LEAST = 8
"""The fewest values of a table; the formatter writes what is smaller well."""
SHARE = 0.8
"""Of the rows of a table inside a function, how many have one form: a record's values have many."""

Literal = ast.Tuple | ast.List | ast.Set | ast.Dict
Statement = ast.Assign | ast.AnnAssign | ast.Return | ast.Expr


def rows(literal: Literal) -> list[ast.expr]:
    """The elements of a list, or the values of a dictionary."""
    return literal.values if isinstance(literal, ast.Dict) else literal.elts


def values(literal: Literal) -> int:
    """How many values there are in a literal and in those inside it."""
    return sum(values(r) if isinstance(r, Literal) else 1 for r in rows(literal))


def form(row: ast.expr) -> str:
    """What a row is: a constant, a tuple, a call of one function, …"""
    if isinstance(row, ast.Call):
        return ast.dump(row.func)
    if isinstance(row, ast.Attribute | ast.BinOp | ast.JoinedStr | ast.Name | ast.UnaryOp):
        return "Constant"
    return "Tuple" if isinstance(row, ast.List) else type(row).__name__


def is_table(node: ast.AST, nested: bool) -> bool:
    """Whether a statement or a decorator is a literal with many values, or a call with one.

    Inside a function (`nested`) the rows must have one form.
    """
    value = node.value if isinstance(node, Statement) else node
    found = [value]
    if isinstance(value, ast.Call):
        found += [*value.args, *(k.value for k in value.keywords)]
    if isinstance(value, ast.BinOp):
        found += [value.left, value.right]
    for one in found:
        if isinstance(one, Literal) and values(one) >= LEAST:
            forms = Counter(form(r) for r in rows(one))
            if not nested or forms.most_common(1)[0][1] >= SHARE * len(rows(one)):
                return True
    return False


def tables(text: str) -> set[tuple[int, int]]:
    """The first and the last line of every table that has its last bracket on a line of its own."""
    lines, found = text.split("\n"), set()
    for node in ast.walk(ast.parse(text)):
        whole = [*getattr(node, "decorator_list", ())]
        whole += [node] if isinstance(node, Statement) else []
        for one in whole:
            end = lines[one.end_lineno - 1].lstrip()
            if end[0] in ")]}" and is_table(one, lines[one.lineno - 1][0] == " "):
                found.add((one.lineno, one.end_lineno))
    return found


def comments(text: str) -> Iterator[tuple[int, str]]:
    """The number of its line, and every comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_only_tables_are_not_formatted() -> None:
    wrong = []
    for folder in FOLDERS:
        for file in files(folder):
            text = file.read_text("utf-8")
            if "fmt:" not in text:
                continue
            ends = {end for _, end in tables(text)}
            for line, comment in comments(text):
                kind = re.search(r"#\s*fmt:\s*(\w+)", comment)
                if kind and (kind[1] != "skip" or line not in ends):
                    wrong.append(f"{file.relative_to(ROOT).as_posix()}:{line}")
    assert not wrong, f"let `ruff format` write these: {wrong}"


def test_every_line_has_at_most_100_columns() -> None:
    """ruff sees to it, with no file and no line excused: rows of tables neither."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["ruff"]
    assert settings["line-length"] == 100 and "E501" in settings["lint"]["extend-select"]
    excused = [codes for codes in settings["lint"]["per-file-ignores"].values() if "E501" in codes]
    assert not excused and "E501" not in settings["lint"]["ignore"]
    marked = {
        f"{file.relative_to(ROOT).as_posix()}:{line}"
        for folder in FOLDERS
        for file in files(folder)
        if "noqa" in (text := file.read_text("utf-8"))
        for line, comment in comments(text)
        if re.search(r"noqa(?!: [A-Z])|noqa:.*E501", comment)
    }
    assert not marked
