"""Statements on vectors that are structs: several of them in one loop over lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cnative import NativeVectors
from xlac_sdk.emit.csimplify import unwrapped
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Assign,
    Exchange,
    Expr,
    Fold,
    Let,
    Load,
    Ramp,
    Shuffle,
    Splat,
    Stmt,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import fits
from xlac_sdk.kernel_ir.sharing import named, roots, walk

COUNTER = "i_"  # the counter of loops over lanes; kernels have no names with this ending


def crosses_lanes(expr: Expr) -> bool:
    """Whether a lane of the result is made of other lanes of an operand."""
    match expr:
        case Fold() | Shuffle():
            return True
        case Apply(primitive=Primitive.BITCAST, operands=(value,)):
            return value.lanes != expr.lanes
    return False


class LaneLoops(NativeVectors):
    """Writes statements that compute each lane of vectors from that lane of others."""

    def takes(self, load: Load) -> bool:
        """Whether a load is written as an access of the whole vector."""
        raise NotImplementedError

    def run(self, body: Sequence[Stmt]) -> int:
        """The number of leading statements that compute each lane of vectors from that lane of
        others, with equal lane counts.

        They may read a single lane of a vector that none of them computes.
        """
        declared: set[str] = set()
        count = lanes = 0
        if self.dialect.native:
            return 0  # whole vectors need no loop
        for stmt in body:
            if (
                not isinstance(stmt, Let | Assign)
                or stmt.value.lanes == 1
                or lanes not in (0, stmt.value.lanes)
            ):
                break
            if not all(self._by_lane(expr, declared) for expr in walk(roots(stmt))):
                break
            count, lanes = count + 1, stmt.value.lanes
            declared.add(stmt.var.name)
        return count

    def _by_lane(self, expr: Expr, declared: set[str]) -> bool:
        match expr:
            case Fold() | Exchange():
                return False
            case Apply() if crosses_lanes(expr):
                return False
            case Load() if expr.lanes > 1:
                return not self.takes(expr)
            case Shuffle(values=(Var(name=name),), picks=(_,)):
                return name not in declared
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
        inside = {e.name for e in walk([r for s in stmts for r in roots(s)]) if isinstance(e, Var)}
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
                    if stmt.var.name not in inside:
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

    # ---- lines for each lane ---

    def each_lane(self, lanes: int, line: Callable[[], str], pad: str) -> Iterator[str]:
        """A line for each lane: a loop, or in languages with vectors, whose lanes have names and no
        numbers, one after another.
        """
        if self.dialect.native:
            for lane in range(lanes):
                with self.at(str(lane)):
                    yield f"{pad}{line()}"
            return
        with self.at(COUNTER):
            yield from self.over_lanes(lanes, [line()], pad)

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
