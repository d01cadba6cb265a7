"""For small code, the SDK's long expansions become functions that kernels call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from xlac_cpu.emit.spelling import function_name, register
from xlac_cpu.emit.statements import KernelWriter
from xlac_cpu.emit.style import Style
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Apply, Kernel, Store, statements
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.lowering.outline import LONG, outline
from xlac_sdk.target import Target

FLOATS = (DType.F32, DType.F64)
Called = tuple[Primitive, DType, int]  # with at most so many lanes


def missing(target: Target) -> frozenset[tuple[Primitive, DType]]:
    """The long primitives that a target lacks, by operand type."""
    return frozenset((p, d) for p in LONG for d in FLOATS if not target.spells(p, d))


def calling(target: Target) -> Target:
    """The target, with the primitives that it lacks listed as native, to be spelled as calls."""
    calls = missing(target)
    called = {primitive for primitive, _ in calls}
    # integer powers
    others = frozenset((p, d) for p in called - target.primitives for d in DType if not d.is_float)
    return replace(
        target, primitives=target.primitives | called, lacks=(target.lacks - calls) | others
    )


def functions(
    kernels: Iterable[Kernel], target: Target, style: Style, fast: bool, needed: dict[str, None]
) -> dict[str, str]:
    """The text of every function that these kernels, and the functions themselves, call, by name;
    `needed` collects further declarations.
    """
    calls, waiting = missing(target), list(kernels)
    written: dict[Called, str] = {}
    while waiting:
        for called in _called(waiting.pop()):
            primitive, dtype, lanes = called
            if (primitive, dtype) in calls and called not in written:
                spelled = calling(target)
                itself = replace(spelled, lacks=spelled.lacks | {(primitive, dtype)})
                kernel = outline(primitive, dtype, lanes, itself, fast)
                written[called] = _text(called, kernel, style, needed)
                waiting.append(kernel)
    for declaration in [
        one for one in needed if any(f"@{function_name(*called)}(" in one for called in written)
    ]:
        del needed[declaration]
    return {function_name(*called): text for called, text in written.items()}


def _called(kernel: Kernel) -> Iterator[Called]:
    """The long primitives that a kernel uses."""
    for stmt in statements(kernel.body):
        for expr in walk(roots(stmt)):
            if isinstance(expr, Apply) and expr.primitive in LONG:
                yield expr.primitive, expr.operands[0].dtype.compute, expr.lanes


def _text(called: Called, kernel: Kernel, style: Style, needed: dict[str, None]) -> str:
    _, dtype, lanes = called
    writer = KernelWriter(style, needed, kernel, (dtype.nbytes,))
    *before, last = kernel.body
    assert isinstance(last, Store)
    for stmt in before:
        writer.memo.clear()
        writer.statement(stmt)
    writer.memo.clear()
    kind = register(dtype, lanes)
    given = ", ".join(f"{kind} %n{number}" for number in range(len(kernel.sizes)))
    body = writer.text(f"{kind} {writer.value(last.value)}")
    return f"define hidden {kind} @{function_name(*called)}({given}) #0 {{\n{body}"
