"""Hand-written functions in the text of a program, isolated so that their names and those of the
program do not collide.

A function's parameters are its arrays, numbers (int64_t, or double) and scratch memory, in the
order of the operands of the instructions that call it. The declaration precedes the kernels, and
the text follows all generated text; the compiler checks that both agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect, comment
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Buffer,
    Expr,
    HandWritten,
    Instruction,
    Kernel,
    TensorMap,
    statements,
)


@dataclass(frozen=True, slots=True)
class HandWrittenFunction:
    """A hand-written function and the operands of a call of it, which determine its parameters."""

    code: HandWritten
    operands: tuple[Expr | Buffer | TensorMap, ...]

    def declaration(self, dialect: Dialect, before: str = "") -> str:
        """Its declaration, without a semicolon; `before` replaces the dialect's specifiers."""
        kinds = [_kind(n, one, self.code, dialect) for n, one in enumerate(self.operands)]
        return f"{before or dialect.helper} {self.code.symbol}({', '.join(kinds) or 'void'})"

    def definition(self, dialect: Dialect) -> str:
        """Its text, with macros for the names that it uses; places in messages are those of its own
        file.
        """
        names = [(self.code.name, self.code.symbol)]
        names += [(name, dialect.types[dtype]) for name, dtype in self.code.types]
        return "\n".join(
            [
                f"/* {comment(self.code.file)} */",
                *(f"#define {name} {value}" for name, value in names),
                f'#line 1 "{comment(self.code.file).replace(chr(34), "?")}"',
                self.code.text.rstrip("\n"),
                *(f"#undef {name}" for name, _ in names),
            ]
        )


def functions(kernels: Iterable[Kernel]) -> tuple[HandWrittenFunction, ...]:
    """The hand-written functions that kernels call, each once, in order of first use."""
    by_symbol: dict[str, HandWrittenFunction] = {}
    for kernel in kernels:
        for stmt in statements(kernel.body):
            if isinstance(stmt, Instruction) and stmt.code is not None:
                by_symbol.setdefault(
                    stmt.code.symbol, HandWrittenFunction(stmt.code, stmt.operands)
                )
    return tuple(by_symbol.values())


def _kind(
    number: int, operand: Expr | Buffer | TensorMap, code: HandWritten, dialect: Dialect
) -> str:
    """The type of a parameter."""
    assert not isinstance(operand, TensorMap), "hand-written functions take arrays and numbers"
    if not isinstance(operand, Buffer):
        return dialect.types[DType.F64 if operand.dtype.is_float else DType.I64]
    kind = dialect.types[operand.dtype]
    text = dialect.pointer(operand.space, operand.dtype, operand.access is Access.READ)
    text = text.replace(kind, "void") if number == code.scratch else text
    return f"{text}*"
