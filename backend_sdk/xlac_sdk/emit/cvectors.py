"""Vectors in C-family text: structs of lanes, loops over lanes, and aligned accesses of whole
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect, vector_align, vector_type
from xlac_sdk.emit.cexpressions import Expressions
from xlac_sdk.emit.csimplify import unwrapped
from xlac_sdk.kernel_ir import grid
from xlac_sdk.kernel_ir.bounds import multiple
from xlac_sdk.kernel_ir.kernel import (
    Access,
    Apply,
    Assign,
    Buffer,
    Const,
    Exchange,
    Expr,
    Fold,
    Let,
    Load,
    Ramp,
    Shuffle,
    Space,
    Splat,
    Stmt,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import fits
from xlac_sdk.kernel_ir.sharing import named, operands, roots, walk

COUNTER = "i_"  # the counter of loops over lanes; kernels have no names with this ending


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


def _crosses_lanes(expr: Expr) -> bool:
    """Whether a lane of the result is made of other lanes of an operand."""
    match expr:
        case Fold() | Shuffle():
            return True
        case Apply(primitive=Primitive.BITCAST, operands=(value,)):
            return value.lanes != expr.lanes
    return False


class Vectors(Expressions):
    """Writes statements that define and store vectors."""

    def asked(self, stmt: Stmt) -> Callable[[Expr], bool]:
        """The vectors that a statement needs named: those loaded at once, shuffled, folded or
        stored at once.
        """
        whole = {id(stmt.value)} if isinstance(stmt, Let) else set()
        folded = {id(v) for e in walk(roots(stmt)) if _crosses_lanes(e) for v in operands(e)}
        if isinstance(stmt, Store) and stmt.value.lanes > 1:
            again = any(isinstance(e, Load) and e.buffer is stmt.buffer for e in walk(roots(stmt)))
            if again or self.wide(stmt.buffer, stmt.index, stmt.value.lanes, stmt.mask, stmt.align):
                folded |= {id(e) for e in roots(stmt)}

        def also(expr: Expr) -> bool:
            if expr.lanes == 1 or id(expr) in whole or isinstance(expr, Const | Var):
                return False
            return (
                id(expr) in folded
                or isinstance(expr, Shuffle)
                or (isinstance(expr, Load) and self.takes(expr))
            )

        return also

    # ---- several statements in one loop over lanes --------------------------------------------

    def run(self, body: Sequence[Stmt]) -> int:
        """The number of leading statements that compute each lane of vectors from that lane of
        others, with equal lane counts.

        They may read a single lane of a vector that none of them computes.
        """
        made: set[str] = set()
        count = lanes = 0
        for stmt in body:
            if (
                not isinstance(stmt, Let | Assign)
                or stmt.value.lanes == 1
                or lanes not in (0, stmt.value.lanes)
            ):
                break
            if not all(self._by_lane(expr, made) for expr in walk(roots(stmt))):
                break
            count, lanes = count + 1, stmt.value.lanes
            made.add(stmt.var.name)
        return count

    def _by_lane(self, expr: Expr, made: set[str]) -> bool:
        match expr:
            case Fold() | Exchange():
                return False
            case Apply() if _crosses_lanes(expr):
                return False
            case Load() if expr.lanes > 1:
                return not self.takes(expr)
            case Shuffle(values=(Var(name=name),), picks=(_,)):
                return name not in made
            case Shuffle():
                return False
        return True

    def together(self, stmts: Sequence[Stmt], after: frozenset[str], pad: str) -> Iterator[str]:
        """These statements in one loop over lanes; vectors that are not read `after` it become
        scalars there.
        """
        first: list[str] = []
        lines: list[str] = []
        lanes = 1
        with self.at(COUNTER):
            for stmt in stmts:
                assert isinstance(stmt, Let | Assign)
                lanes, name = stmt.value.lanes, self.name(stmt.var.name)
                first += self._apart(stmt, lines)
                if isinstance(stmt, Let) and not stmt.mutable and stmt.var.name not in after:
                    lines.append(
                        f"const {self._lane_type(stmt.value)} {name} = {self.bare(stmt.value)};"
                    )
                    self.alone.add(name)
                    if not any(
                        stmt.var.name == e.name
                        for s in stmts
                        for e in walk(roots(s))
                        if isinstance(e, Var)
                    ):
                        lines.append(f"(void){name};")
                    continue
                if isinstance(stmt, Let):
                    first.append(f"{self.type(stmt.value)} {name};")
                lines.append(f"{name}.lane[{COUNTER}] = {self.bare(stmt.value)};")
        yield from (pad + line for line in first)
        yield from self.over_lanes(lanes, lines, pad)

    def _apart(self, stmt: Stmt, lines: list[str]) -> Iterator[str]:
        """Names for parts of a statement: scalars are defined before the loop, lanes inside it."""
        self.texts.clear()
        for expr in named(roots(stmt)):
            if expr.lanes > 1 and isinstance(expr, Ramp | Splat):
                continue
            name = self.fresh()
            if expr.lanes == 1:
                yield f"const {self.type(expr)} {name} = {unwrapped(self.write(expr))};"
            else:
                lines.append(
                    f"const {self._lane_type(expr)} {name} = {unwrapped(self.write(expr))};"
                )
                self.alone.add(name)
            self.texts[id(expr)] = name

    def _lane_type(self, expr: Expr) -> str:
        small = expr.dtype is DType.I64 and fits(self.range(expr), DType.I32)
        return self.dialect.index if small else self.dialect.types[expr.dtype]

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
        known = self.texts.get(id(expr))
        if known is not None:
            yield f"{pad}{name} = {known};"
            return
        with self.at(COUNTER):
            yield from self.over_lanes(
                expr.lanes, [f"{name}.lane[{COUNTER}] = {self.bare(expr)};"], pad
            )

    def store_vector(self, stmt: Store, pad: str) -> Iterator[str]:
        """A store of all lanes at once if possible, else one by one."""
        lanes = stmt.value.lanes
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
        with self.at(COUNTER):
            yield from self.over_lanes(lanes, [self.stored(stmt)], pad)

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

    def over_lanes(self, lanes: int, lines: Sequence[str], pad: str) -> Iterator[str]:
        """Lines inside a loop over lanes."""
        if self.dialect.unroll:
            yield f"{pad}{self.dialect.unroll}"
        head = f"{pad}for (int {COUNTER} = 0; {COUNTER} < {lanes}; ++{COUNTER})"
        if len(lines) == 1:
            yield f"{head} {lines[0]}"
            return
        yield f"{head} {{"
        yield from (f"{pad}    {line}" for line in lines)
        yield f"{pad}}}"
