"""For small code, the SDK's long expansions become functions that kernels call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xlac_cpu.emit.spelling import function_name, register
from xlac_cpu.emit.statements import KernelWriter
from xlac_cpu.emit.style import Style
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import Kernel, Store
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.lowering.outline import LONG, calling, long_primitives, outline
from xlac_sdk.target import Target

FLOATS = (DType.F32, DType.F64)
Called = tuple[Primitive, DType, int]  # with at most so many lanes


def missing(target: Target) -> frozenset[tuple[Primitive, DType]]:
    """The long primitives that a target lacks, by operand type."""
    return frozenset((p, d) for p in LONG for d in FLOATS if not target.spells(p, d))


def calls_for(target: Target) -> Target:
    """The target, with the primitives that it lacks listed as native, to be spelled as calls."""
    return calling(target, missing(target))


def functions(
    kernels: Iterable[Kernel], target: Target, style: Style, fast: bool, needed: dict[str, None]
) -> dict[str, str]:
    """The text of every function that these kernels, and the functions themselves, call, by name;
    `needed` collects further declarations.
    """
    calls, waiting = missing(target), list(kernels)
    written: dict[Called, str] = {}
    while waiting:
        for called in long_primitives(waiting.pop()):
            primitive, dtype, lanes = called
            if (primitive, dtype) in calls and called not in written:
                spelled = calls_for(target)
                itself = replace(spelled, lacks=spelled.lacks | {(primitive, dtype)})
                kernel = outline(primitive, dtype, lanes, itself, fast)
                written[called] = _text(called, kernel, style, needed)
                waiting.append(kernel)
    for declaration in [
        one for one in needed if any(f"@{function_name(*called)}(" in one for called in written)
    ]:
        del needed[declaration]
    return {function_name(*called): text for called, text in written.items()}


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
