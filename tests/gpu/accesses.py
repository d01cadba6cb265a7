"""What a kernel touches, found by running the index arithmetic of its threads: how much, and how
neighbours' accesses lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from xlac_sdk.kernel_ir.grid import grid
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Assign,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Ramp,
    Space,
    Splat,
    Stmt,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk

P = Primitive
Names = dict[str, int]


@dataclass(frozen=True, slots=True)
class Touch:
    """One load or store as one thread makes it: which elements, in the order of its statements."""

    buffer: Buffer
    written: bool
    first: int
    lanes: int
    stride: int = 1


class Unknown(Exception):
    """An address or condition that depends on data."""


def elements_read(kernel: Kernel) -> dict[str, int]:
    """Elements that all threads of a kernel without open sizes load, by parameter.

    Every block does as much as the first: use shapes that blocks divide.
    """
    found = grid(kernel)
    assert found is not None
    blocks = found.count({})
    total: dict[str, int] = {}
    for thread in range(found.threads):
        for touch in touches(kernel, 0, thread):
            if not touch.written:
                total[touch.buffer.name] = total.get(touch.buffer.name, 0) + touch.lanes * blocks
    return total


def touches(kernel: Kernel, block: int, thread: int, space: Space = Space.GLOBAL) -> list[Touch]:
    """The accesses of one thread to parameters, or to memory of another kind."""
    found = grid(kernel)
    assert found is not None
    names = {found.block.counter.name: block, found.thread.counter.name: thread}
    return list(_block(found.thread.body, names, space))


def _block(body: tuple[Stmt, ...], names: Names, space: Space) -> Iterator[Touch]:
    for stmt in body:
        for expr in walk(roots(stmt)):
            if isinstance(expr, Load) and expr.buffer.space is space and _active(expr.mask, names):
                yield _touch(expr.buffer, expr.index, expr.lanes, names, written=False)
        match stmt:
            case Let(var=var, value=value) | Assign(var=var, value=value):
                # what is no integer, or read from memory, has no value here
                try:
                    names[var.name] = _number(value, names)
                except Unknown:
                    names.pop(var.name, None)
            case For(counter=counter, start=start, stop=stop, step=step, body=inner):
                for turn in range(_number(start, names), _number(stop, names), step):
                    names[counter.name] = turn
                    yield from _block(inner, names, space)
            case If(condition=condition, then=then, otherwise=otherwise):
                with suppress(Unknown):
                    yield from _block(
                        then if _number(condition, names) else otherwise, names, space
                    )
            case Store(buffer=buffer, index=index, value=value, mask=mask):
                if buffer.space is space and _active(mask, names):
                    yield _touch(buffer, index, value.lanes, names, written=True)


def _active(mask: Expr | None, names: Mapping[str, int]) -> bool:
    return mask is None or bool(_number(mask, names))


def _touch(
    buffer: Buffer, index: Expr, lanes: int, names: Mapping[str, int], *, written: bool
) -> Touch:
    try:
        if isinstance(index, Ramp):
            return Touch(buffer, written, _number(index.base, names), lanes, index.stride)
        return Touch(buffer, written, _number(index, names), lanes)
    except Unknown:
        return Touch(buffer, written, -1, lanes)


def _number(expr: Expr, names: Mapping[str, int]) -> int:
    match expr:
        case Const(value=value, dtype=dtype) if not dtype.is_float:
            return int(value)
        case Var(name=name) if name in names:
            return names[name]
        case Splat(value=value):
            return _number(value, names)
        case Apply(primitive=primitive, operands=operands) if (
            expr.dtype.is_integer or primitive.is_comparison
        ):
            return _applied(primitive, [_number(o, names) for o in operands])
        case Apply(primitive=Primitive.AND, operands=(a, b)):
            return _number(a, names) & _number(b, names)
    raise Unknown


def _applied(primitive: Primitive, given: list[int]) -> int:
    match primitive, given:
        case P.ADD, [a, b]:
            return a + b
        case P.MUL, [a, b]:
            return a * b
        case P.DIV, [a, b]:
            return a // b
        case P.REM, [a, b]:
            return a % b
        case P.MIN, [a, b]:
            return min(a, b)
        case P.MAX, [a, b]:
            return max(a, b)
        case P.LT, [a, b]:
            return a < b
        case P.LE, [a, b]:
            return a <= b
        case P.EQ, [a, b]:
            return a == b
        case P.AND, [a, b]:
            return a & b
    raise Unknown


SECTOR = 32  # bytes that a GPU moves at once


def sectors(kernel: Kernel, block: int, warp: int = 0) -> dict[str, float]:
    """How many times the sectors that hold its elements the threads of a warp move, for each
    parameter they touch.

    1.0 is best: neighbours touch neighbouring elements. Accesses at places that data decides are
    left out.
    """
    found: dict[str, tuple[int, int]] = {}
    threads = [touches(kernel, block, 32 * warp + lane) for lane in range(32)]
    for together in zip(*threads, strict=False):
        first = together[0]
        if any(t.first < 0 or t.buffer is not first.buffer for t in together):
            continue
        nbytes = first.buffer.dtype.nbytes
        elements = {t.first + t.stride * lane for t in together for lane in range(t.lanes)}
        moved = len({e * nbytes // SECTOR for e in elements})
        least = -(-len(elements) * nbytes // SECTOR)
        before = found.get(first.buffer.name, (0, 0))
        found[first.buffer.name] = before[0] + moved, before[1] + least
    return {name: moved / least for name, (moved, least) in found.items()}


BANKS, WORD = 32, 4  # of SHARED memory, and bytes of a bank's word


def conflicts(kernel: Kernel, block: int, warp: int = 0) -> int:
    """The most words of one bank of SHARED memory that the threads of a warp ask for at once, in
    words of an element.
    """
    worst = 1
    threads = [touches(kernel, block, 32 * warp + lane, Space.SHARED) for lane in range(32)]
    for together in zip(*threads, strict=False):
        nbytes = together[0].buffer.dtype.nbytes
        for lane in range(together[0].lanes):  # the lanes of a strided access go one after another
            words = {(t.first + t.stride * lane) * nbytes // max(WORD, nbytes) for t in together}
            banks = [w % BANKS for w in words]
            worst = max(worst, max(map(banks.count, banks)))
    return worst
