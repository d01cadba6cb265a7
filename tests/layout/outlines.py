"""What files define, read once for all tests of a process: most of a tree is what functions do."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


@cache
def outline(file: Path) -> ast.Module:
    """The tree of a file with its functions and classes, their docstrings, and the statements that
    they are inside of. Whole trees of all files would take a gigabyte.
    """
    tree = ast.parse(file.read_text("utf-8"))
    _keep(tree)
    return tree


def _keep(node: ast.AST) -> bool:
    """Takes out what defines nothing; whether the node is or has a function or class."""
    defines = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    for name in BLOCKS:
        block = getattr(node, name, None)
        if isinstance(block, list):
            kept = [inner for inner in block if _keep(inner)]
            if name == "body" and _is_text(block):
                kept.insert(0, block[0])
            setattr(node, name, kept)
            defines |= any(not isinstance(inner, ast.Expr) for inner in kept)
    return defines


def _is_text(block: list[ast.stmt]) -> bool:
    return (
        bool(block) and isinstance(block[0], ast.Expr) and isinstance(block[0].value, ast.Constant)
    )
