"""Vectors in C-family text: structs of lanes, loops over lanes, and aligned accesses of whole
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import gcd

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect, vector_align, vector_type
from xlac_sdk.emit.clanes import LaneLoops, crosses_lanes
from xlac_sdk.emit.csimplify import unwrapped
from xlac_sdk.kernel_ir import grid
from xlac_sdk.kernel_ir.bounds import multiple
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Buffer,
    Const,
    Expr,
    Let,
    Load,
    Shuffle,
    Space,
    Splat,
    Stmt,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.sharing import operands, roots, walk


def declarations(types: Iterable[tuple[DType, int]], dialect: Dialect) -> list[str]:
    """The structs of vector types, each once."""
    return [
        dialect.vector.format(
            name=vector_type(dtype, lanes),
            type=dialect.types[dtype],
            lanes=lanes,
            align=vector_align(dtype, lanes, dialect.widest),
        )
        for dtype, lanes in dict.fromkeys(types)
    ]


class Vectors(LaneLoops):
    """Writes statements that define and store vectors."""

    def asked(self, stmt: Stmt) -> Callable[[Expr], bool]:
        """The vectors that a statement needs named: those loaded at once, shuffled, folded or
        stored at once.
        """
        whole = {id(stmt.value)} if isinstance(stmt, Let) else set()
        folded = {id(v) for e in walk(roots(stmt)) if crosses_lanes(e) for v in operands(e)}
        if self.dialect.native:
            lists = [e for e in walk(roots(stmt)) if self.native(e) and self.by_lanes(e)]
            folded |= {id(v) for e in lists for v in operands(e)}
        if isinstance(stmt, Store) and stmt.value.lanes > 1 and not self.at_once(stmt):
            again = any(isinstance(e, Load) and e.buffer is stmt.buffer for e in walk(roots(stmt)))
            again |= self.native(stmt.value)
            if again or self.wide(stmt.buffer, stmt.index, stmt.value.lanes, stmt.mask, stmt.align):
                folded |= {id(e) for e in roots(stmt)}

        def also(expr: Expr) -> bool:
            if expr.lanes == 1 or id(expr) in whole or isinstance(expr, Const | Var):
                return False
            return (
                id(expr) in folded
                or isinstance(expr, Shuffle)
                or (isinstance(expr, Load) and self.takes(expr) and not self.native(expr))
            )

        return also

    # ---- accesses of whole vectors -------------------------------------------------------------

    def takes(self, load: Load) -> bool:
        """Whether a load is written as an access of the whole vector."""
        return self.wide(load.buffer, load.index, load.lanes, load.mask, load.align)

    def wide(self, buffer: Buffer, index: Expr, lanes: int, mask: Expr | None, align: int) -> bool:
        """Whether an access of consecutive elements, with a mask that is uniform, is aligned for
        its struct.
        """
        if not self.dialect.widest or index.lanes > 1 or buffer.space is Space.LOCAL:
            return False
        if mask is not None and not isinstance(mask, Splat):
            return False
        start = max(grid.ALIGN, buffer.align) if buffer.space is Space.SHARED else buffer.align
        known = max(gcd(multiple(index) * buffer.dtype.nbytes, start), min(align, start))
        return known % vector_align(buffer.dtype, lanes, self.dialect.widest) == 0

    def all_at(self, buffer: Buffer, index: Expr, lanes: int) -> str:
        """The struct in memory at an index."""
        self.vectors[buffer.dtype, lanes] = None
        const = "const " if buffer.access is Access.READ and buffer.space is Space.GLOBAL else ""
        kind = f"{const}{self.dialect.spaces.get(buffer.space, '')}"
        return (
            f"*({kind}{vector_type(buffer.dtype, lanes)} "
            f"*)&{self.name(buffer.name)}[{self.number(index)}]"
        )

    # ---- statements ----------------------------------------------------------------------------

    def define(self, name: str, expr: Expr, pad: str, mutable: bool = False) -> Iterator[str]:
        """Declares a name with a value."""
        kind, const = self.type(expr), "" if mutable else "const "
        if expr.lanes == 1:
            yield f"{pad}{const}{kind} {name} = {unwrapped(self.write(expr))};"
            return
        if self.native(expr):
            yield f"{pad}{const}{kind} {name} = {unwrapped(self.whole(expr))};"
            return
        known = self.texts.get(id(expr)) or (
            self.name(expr.name) if isinstance(expr, Var) else None
        )
        if known is not None:
            yield f"{pad}{const}{kind} {name} = {known};"
            return
        match expr:
            case Load(buffer=buffer, index=index, mask=mask) if self.takes(expr):
                place = self.all_at(buffer, index, expr.lanes)
                if isinstance(mask, Splat):
                    yield f"{pad}{kind} {name} = {self.dialect.zero};"
                    yield f"{pad}if ({self.bare(mask.value)}) {name} = {place};"
                else:
                    yield f"{pad}{const}{kind} {name} = {place};"
            case Shuffle(values=values, picks=picks):
                yield (
                    f"{pad}{const}{kind} {name} = "
                    f"{{{{{', '.join(self.picked(values, pick) for pick in picks)}}}}};"
                )
            case _:
                yield f"{pad}{kind} {name};"
                yield from self.assign(name, expr, pad)

    def assign(self, name: str, expr: Expr, pad: str) -> Iterator[str]:
        """Gives a name a new value."""
        if expr.lanes == 1:
            yield f"{pad}{name} = {self.bare(expr)};"
            return
        if self.native(expr):
            yield f"{pad}{name} = {unwrapped(self.whole(expr))};"
            return
        known = self.texts.get(id(expr))
        if known is not None:
            yield f"{pad}{name} = {known};"
            return
        yield from self.each_lane(
            expr.lanes, lambda: f"{name}.lane[{self.lane}] = {self.bare(expr)};", pad
        )

    def store_vector(self, stmt: Store, pad: str) -> Iterator[str]:
        """A store of all lanes at once if possible, else one by one."""
        lanes = stmt.value.lanes
        if self.at_once(stmt):
            yield from self.stored_whole(stmt, pad)
            return
        name = self.texts.get(id(stmt.value)) or (
            self.name(stmt.value.name) if isinstance(stmt.value, Var) else None
        )
        if (
            name
            and stmt.atomic is None
            and self.wide(stmt.buffer, stmt.index, lanes, stmt.mask, stmt.align)
        ):
            guard = f"if ({self.bare(stmt.mask.value)}) " if isinstance(stmt.mask, Splat) else ""
            yield f"{pad}{guard}{self.all_at(stmt.buffer, stmt.index, lanes)} = {name};"
            return
        yield from self.each_lane(lanes, lambda: self.stored(stmt), pad)

    def stored(self, stmt: Store) -> str:
        """The store of a scalar, or of the current lane."""
        place = f"{self.name(stmt.buffer.name)}[{self.place(stmt.index, stmt.value.lanes)}]"
        value = self.bare(stmt.value) if stmt.atomic is None else self.text(stmt.value)
        guard = "" if stmt.mask is None else f"if ({self.bare(stmt.mask)}) "
        if stmt.atomic is not None and self.dialect.atomic and stmt.buffer.space is not Space.LOCAL:
            text = self.dialect.atomic.format(
                place=place,
                value=value,
                p=stmt.atomic.value,
                d=stmt.value.dtype.value,
                space=stmt.buffer.space.value,
            )
            return f"{guard}{text};"
        if stmt.atomic is not None:
            value = self.spell(stmt.atomic, [place, value], stmt.value.dtype)
        return f"{guard}{place} = {value};"

    def aligned(self, access: Load | Store) -> bool:
        """Whether an access is known to be aligned for the language's vector of its lanes."""
        lanes = access.lanes if isinstance(access, Load) else access.value.lanes
        if lanes * access.buffer.dtype.nbytes > self.dialect.widest:
            return False
        return self.wide(access.buffer, access.index, lanes, access.mask, access.align)
