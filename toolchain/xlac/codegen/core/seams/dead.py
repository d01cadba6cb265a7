"""Dead code elimination: removes unused names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac_sdk.kernel_ir.kernel import Assign, For, If, Instruction, Let, Stmt, Var
from xlac_sdk.kernel_ir.sharing import roots, walk


def without_unused(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A block without unused names, and without empty loops and conditions."""
    return _block(body, set())


def _block(body: Sequence[Stmt], used: set[str]) -> tuple[Stmt, ...]:
    kept = list[Stmt]()
    for stmt in reversed(body):
        match stmt:
            case Let(var=var) if not stmt.mutable and var.name not in used:
                continue
            case For(body=inner):
                stmt = replace(stmt, body=_block(inner, used))
                if not stmt.body:
                    continue
            case If(then=then, otherwise=otherwise):
                stmt = replace(stmt, then=_block(then, used), otherwise=_block(otherwise, used))
                if not stmt.then and not stmt.otherwise:
                    continue
            case Assign(var=var):
                used.add(var.name)
            case Instruction(meaning=meaning):
                _block(meaning, used)
        used.update(one.name for one in walk(roots(stmt)) if isinstance(one, Var))
        kept.append(stmt)
    return tuple(reversed(kept))
