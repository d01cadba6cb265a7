"""Replaces strided stores that together fill a contiguous range (pairs, pixels, complex numbers) by
stores of interleaved vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Const, Expr, For, If, Ramp, Shuffle, Stmt, Store

WIDTH = 8  # vectors up to which they are interleaved


def woven(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block with interleaved stores; the same statements where there are none of these
    stores.
    """
    rewritten = tuple(_block(body))
    same = len(rewritten) == len(body) and all(a is b for a, b in zip(rewritten, body, strict=True))
    return body if same else rewritten


def _block(body: Sequence[Stmt]) -> Iterator[Stmt]:
    place = 0
    while place < len(body):
        stmt = body[place]
        match stmt:
            case Store(index=Ramp(stride=stride)) if 1 < stride <= WIDTH:
                stores = _together(body[place : place + stride], stride)
                if stores is not None:
                    yield from _interleaved(stores)
                    place += stride
                    continue
            case For(body=inner):
                new = woven(inner)
                stmt = stmt if new is inner else replace(stmt, body=new)
            case If(then=then, otherwise=otherwise):
                both = woven(then), woven(otherwise)
                if both[0] is not then or both[1] is not otherwise:
                    stmt = replace(stmt, then=both[0], otherwise=both[1])
        yield stmt
        place += 1


def _together(stmts: Sequence[Stmt], stride: int) -> list[Store] | None:
    """Stores of one stride in the order of their first elements, if these are adjacent."""
    first, *_ = stmts
    assert isinstance(first, Store) and isinstance(first.index, Ramp)
    by_place: dict[int, Store] = {}
    for stmt in stmts:
        match stmt:
            case Store(buffer=buffer, index=Ramp(base=base, stride=step, lanes=lanes), atomic=None):
                ahead = build.sub(base, first.index.base)
                alike = buffer is first.buffer and step == stride and lanes == first.index.lanes
                if not (alike and isinstance(ahead, Const) and stmt.mask == first.mask):
                    return None
                by_place[int(ahead.value)] = stmt
            case _:
                return None
    order = sorted(by_place)
    return (
        [by_place[n] for n in order] if order == list(range(order[0], order[0] + stride)) else None
    )


def _interleaved(stores: Sequence[Store]) -> Iterator[Stmt]:
    first, count = stores[0], len(stores)
    assert isinstance(first.index, Ramp)
    lanes, values = first.index.lanes, [store.value for store in stores]
    joined: Expr = values[0]
    for number, value in enumerate(values[1:-1], 1):
        joined = Shuffle((joined, value), tuple(range((number + 1) * lanes)))
    for part in range(count):
        places = [divmod(part * lanes + lane, count) for lane in range(lanes)]
        value = Shuffle((joined, values[-1]), tuple(n * lanes + lane for lane, n in places))
        mask = first.mask
        if mask is not None:
            mask = Shuffle((mask,), tuple(lane for lane, _ in places))
        index = build.add(first.index.base, part * lanes)
        yield replace(first, index=index, value=value, mask=mask, align=0)
