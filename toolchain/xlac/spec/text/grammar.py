"""The subset of Python's syntax that forms the expression language."""

from __future__ import annotations

import ast
from math import inf


def character_at(text: str, line: int, column: int) -> int:
    """Converts a position of ast (UTF-8 bytes in a line, after the bracket that we add) to an index
    into `text`.
    """
    if text.isascii():
        return column - 1
    lines = ("(" + text).split("\n")
    before = sum(len(one) + 1 for one in lines[: line - 1])
    return before + len(lines[line - 1].encode()[:column].decode(errors="ignore")) - 1


MAX_DEPTH = 60


MAX_BITS = 256  # of an integer, literal or computed


BRACE = "$"  # the function name that `${…}` is parsed as; braces become parentheses


_ALLOWED = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.keyword,
    ast.Name, ast.Attribute, ast.Constant, ast.List, ast.Tuple, ast.Subscript, ast.Slice, ast.IfExp,
    ast.Starred, ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


_NAMES = {
    ast.Lambda: "lambda", ast.ListComp: "a comprehension", ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension", ast.GeneratorExp: "a comprehension", ast.Dict: "a mapping {…}",
    ast.Set: "a set {…}", ast.JoinedStr: "a formatted string", ast.NamedExpr: "an assignment :=",
    ast.Await: "await", ast.Yield: "yield",
}  # fmt: skip


class Malformed(ValueError):
    """Text that is not an expression; `offset` and `width` are the characters at fault."""

    def __init__(
        self, message: str, offset: int = 0, width: int = 1, hint: str = "", code: str = "XL1016"
    ) -> None:
        super().__init__(message)
        self.offset, self.width, self.hint, self.code = offset, width, hint, code


def character_range(text: str, replaced: str, node: ast.AST) -> tuple[int, int]:
    """The offset of a part of the tree in the text, and its number of characters."""
    line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
    end_line, end_column = (
        getattr(node, "end_lineno", line),
        getattr(node, "end_col_offset", column + 1),
    )
    start, end = character_at(replaced, line, column), character_at(replaced, end_line, end_column)
    return max(0, min(start, len(text))), max(1, end - start)


def check_syntax(text: str, replaced: str, tree: ast.expr) -> tuple[str, ...]:
    """Rejects syntax outside the language, and collects names."""
    names: dict[str, None] = {}
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise Malformed(
                "an expression is nested too deeply",
                *character_range(text, replaced, node),
                hint="give its parts names of their own",
                code="XL4016",
            )
        if not isinstance(node, _ALLOWED):
            what = _NAMES.get(type(node), type(node).__name__.lower())
            raise Malformed(
                f"{what} is not part of the expression language",
                *character_range(text, replaced, node),
                code="XL1017",
            )
        if isinstance(node, ast.Constant):
            check_constant(node.value, *character_range(text, replaced, node))
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name):
                raise Malformed(
                    "what is called is the name of an operation",
                    *character_range(text, replaced, node.func),
                    code="XL1017",
                )
            if node.func.id == BRACE:
                continue
            if any(k.arg is None for k in node.keywords):
                raise Malformed(
                    "'**' is not part of the expression language",
                    *character_range(text, replaced, node),
                    code="XL1017",
                )
            stack += [
                (child, depth + 1) for child in (*node.args, *(k.value for k in node.keywords))
            ]
            continue
        if isinstance(node, ast.Attribute | ast.Name):
            name = dotted(node)
            if name is None:
                raise Malformed(
                    "'.' follows names only", *character_range(text, replaced, node), code="XL1017"
                )
            if not name.startswith("$"):
                names[name] = None
            continue
        stack += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return tuple(names)


def check_constant(value: object, start: int, width: int) -> None:
    """Rejects literals that are not numbers or text of the language."""
    if isinstance(value, bytes | complex):
        message = "a constant is a number, a text, True, False or None"
        raise Malformed(message, start, width, code="XL1017")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise Malformed(f"a number of more than {MAX_BITS} bits", start, width, code="XL4015")
    if value == inf:
        message = "a number beyond every type of floats"
        raise Malformed(message, start, width, "an infinity is written inf", "XL4015")


def dotted(node: ast.expr) -> str | None:
    """The name `a.b.0` or `$param` that a tree spells, or None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))
