"""The tensor maps that a kernel's TMA instructions use, which its launch must pass."""

from __future__ import annotations

from collections.abc import Container, Iterator

from xlac_sdk.kernel_ir.kernel import Instruction, Kernel, Stmt, TensorMap, children


def tensor_maps(kernel: Kernel, instructions: Container[str]) -> tuple[TensorMap, ...]:
    """Each tensor map once, in textual order, of the instructions that a backend emits natively."""
    return tuple(dict.fromkeys(_named(kernel.body, instructions)))


def _named(body: tuple[Stmt, ...], instructions: Container[str]) -> Iterator[TensorMap]:
    for stmt in body:
        if isinstance(stmt, Instruction) and stmt.name in instructions:
            yield from (one for one in stmt.operands if isinstance(one, TensorMap))
            continue
        for inner in children(stmt):
            yield from _named(inner, instructions)
