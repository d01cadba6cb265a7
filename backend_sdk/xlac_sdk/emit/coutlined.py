"""Long expansions as functions of C-family text, and the calls of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from xlac_sdk.emit.cdialect import Dialect
from xlac_sdk.emit.ctext import kernel_text
from xlac_sdk.kernel_ir.kernel import Expansion, Kernel, Let, Store, Var


def with_calls(dialect: Dialect, functions: Iterable[Expansion]) -> Dialect:
    """The dialect in which the primitives of these functions are calls of them."""
    given = {1: "({0})", 2: "({0}, {1})"}
    primitives = dict.fromkeys(function.primitive for function in functions)
    calls = {p: f"{p.value}_{{d}}{given[p.arity]}" for p in primitives}
    return replace(dialect, floats={**dialect.floats, **calls}) if calls else dialect


def function_texts(
    functions: Iterable[Expansion], dialect: Dialect, before: str
) -> Iterator[tuple[str, str]]:
    """The name and text of each function on values that the language has; `before` are their
    specifiers.
    """
    for code in (function.code for function in functions):
        if code.sizes[0].lanes in (1, *dialect.native):
            yield code.name, function_text(code, dialect, before)


def function_text(code: Kernel, dialect: Dialect, before: str) -> str:
    """An expansion, as `xlac_sdk.lowering.outline` makes it, as a function that returns what its
    last statement stores.
    """
    *body, last = code.body
    assert isinstance(last, Store)
    value = Var("value", last.value.dtype, last.value.lanes)
    returning = replace(code, parameters=(), body=(*body, Let(value, last.value)))
    *lines, _ = kernel_text(returning, dialect).lines  # the last says that nothing reads it

    def typed(var: Var) -> str:
        kind = f"{dialect.types[var.dtype]}{var.lanes if var.lanes > 1 else ''}"
        return f"{kind} {dialect.identifier(var.name)}"

    head, _, name = typed(value).rpartition(" ")
    parameters = ", ".join(map(typed, code.sizes))
    text = "\n".join([*lines, f"    return {name};"])
    return f"{before} {head} {code.name}({parameters})\n{{\n{text}\n}}"
