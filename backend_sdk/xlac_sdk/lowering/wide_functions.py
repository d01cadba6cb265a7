"""Computes a long function of four vectors as that of one vector of all their lanes.

The expansion of such a function (gelu: 50 instructions) is one chain of dependent instructions for
each vector. Behind the sums of a depthwise convolution stand several, one after the other, and a
processor looks a few hundred instructions ahead: side by side they keep its units busy. Loops over
elements are written with long vectors to begin with. Results stay the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Buffer,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Shuffle,
    Stmt,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.lowering.unused_prefix import UnusedNames
from xlac_sdk.target import Target

P = Primitive
TOGETHER = 4  # vectors
WAITING = 4  # groups of one function that may still grow
REGISTERS = 16  # of a target: four chains of fewer spill more than they gain
LONG = frozenset(
    {P.COS, P.ERF, P.EXP, P.EXP2, P.EXPM1, P.GELU, P.LOG, P.LOG1P, P.LOG2, P.SIGMOID, P.SIN, P.TANH}
)  # functions of one operand


def widened(kernel: Kernel, target: Target) -> Kernel:
    """A kernel in which long functions of vectors are computed four at a time; the same object
    where there are no four.
    """
    if target.size or target.most_lanes or target.vector_registers < REGISTERS:
        return kernel
    body = _Widening(target, UnusedNames(kernel)).block(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body)


@dataclass(frozen=True, slots=True)
class _Widening:
    target: Target
    fresh: Callable[[], str]

    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """A block, and those in it; the same object where nothing changes."""
        inner = [self._inside(stmt) for stmt in body]
        new: list[Stmt] = []
        for run in _runs(inner):
            new += self._run(run)
        same = len(new) == len(body) and all(a is b for a, b in zip(new, body, strict=True))
        return body if same else tuple(new)

    def _inside(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(body=body):
                inner = self.block(body)
                return stmt if inner is body else replace(stmt, body=inner)
            case If(then=then, otherwise=otherwise):
                blocks = self.block(then), self.block(otherwise)
                same = blocks[0] is then and blocks[1] is otherwise
                return stmt if same else replace(stmt, then=blocks[0], otherwise=blocks[1])
        return stmt

    def _run(self, run: Sequence[Stmt]) -> list[Stmt]:
        """Statements without branches: what the later functions of four need is computed before the
        first.
        """
        groups = list(self._groups(run))
        if not groups:
            return [*run]
        first = {group.places[0]: group for group in groups}
        new: list[Stmt] = []
        done: set[int] = set()
        for place, stmt in enumerate(run):
            if place in done:
                continue
            group = first.get(place)
            if group is None:
                new.append(stmt)
                continue
            before = [at for at in group.needed if at not in done]
            new += [run[at] for at in before]
            new += self._wide([run[at] for at in group.places])
            done.update(before, group.places)
        return new

    def _groups(self, run: Sequence[Stmt]) -> Iterator[_Together]:
        """The functions that are computed together."""
        made = {stmt.var.name: at for at, stmt in enumerate(run) if isinstance(stmt, Let)}
        waiting: dict[tuple[Primitive, DType], list[_Together]] = {}
        computed: dict[int, int] = {}  # by place: where the group of which it is a member is
        hoisted: dict[int, int] = {}  # and where the first group is that needs it before its place
        for at, stmt in enumerate(run):
            kind = self._kind(stmt)
            if kind is None:
                continue
            groups = waiting.setdefault(kind, [])
            for number, group in enumerate(groups):
                larger = _Together.of(run, made, [*group.places, at])
                if larger is not None:
                    groups[number] = larger
                    break
            else:
                groups[:] = [*groups[1 - WAITING :], _Together((at,), ())]
            for group in [one for one in groups if len(one.places) == TOGETHER]:
                groups.remove(group)
                first = group.places[0]
                early = any(hoisted.get(place, first) < first for place in group.places)
                if early or any(computed.get(place, first) > first for place in group.needed):
                    continue
                computed.update(dict.fromkeys(group.places, first))
                for place in group.needed:
                    hoisted[place] = min(first, hoisted.get(place, first))
                yield group

    def _kind(self, stmt: Stmt) -> tuple[Primitive, DType] | None:
        """The function of a statement that computes one of a whole register."""
        match stmt:
            case Let(
                value=Apply(primitive=primitive, operands=(_,), dtype=dtype, lanes=lanes),
                mutable=False,
            ) if primitive in LONG:
                whole = lanes * dtype.nbytes == self.target.vector_bytes
                return (primitive, dtype) if whole and dtype.is_float else None
        return None

    def _wide(self, four: Sequence[Stmt]) -> list[Stmt]:
        """One function of the lanes of all four."""
        new: list[Stmt] = []

        def let(value: Expr) -> Var:
            var = Var(self.fresh(), value.dtype, value.lanes)
            new.append(Let(var, value))
            return var

        lets = [stmt for stmt in four if isinstance(stmt, Let)]
        one = lets[0].value
        assert isinstance(one, Apply)
        parts = [let(stmt.value.operands[0]) for stmt in lets if isinstance(stmt.value, Apply)]
        while len(parts) > 1:
            parts = [
                let(Shuffle((a, b), tuple(range(a.lanes + b.lanes))))
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
        result = let(replace(one, operands=(parts[0],), lanes=parts[0].lanes))
        for n, stmt in enumerate(lets):
            picks = tuple(range(n * one.lanes, (n + 1) * one.lanes))
            new.append(replace(stmt, value=Shuffle((result,), picks)))
        return new


@dataclass(frozen=True, slots=True)
class _Together:
    """Functions of a run, and the statements after the first of them that they need, by place."""

    places: tuple[int, ...]
    needed: tuple[int, ...]

    @staticmethod
    def of(run: Sequence[Stmt], made: dict[str, int], places: Sequence[int]) -> _Together | None:
        """None where one needs another, or reads what is stored between them."""
        first, needed = places[0], set[int]()
        stack = [at for place in places[1:] for at in _sources(run[place], made)]
        while stack:
            at = stack.pop()
            if at >= first and at not in needed:
                needed.add(at)
                stack += _sources(run[at], made)
        if needed & set(places):
            return None
        stored: set[Buffer] = set()
        for at in range(first, places[-1] + 1):
            stmt = run[at]
            if isinstance(stmt, Store):
                stored.add(stmt.buffer)
            elif (at in needed or at in places) and stored & _loaded(stmt):
                return None
        return _Together(tuple(places), tuple(sorted(needed)))


def _sources(stmt: Stmt, made: dict[str, int]) -> list[int]:
    """The places of the names that a statement reads."""
    exprs = walk(list(roots(stmt)))
    return [made[one.name] for one in exprs if isinstance(one, Var) and one.name in made]


def _loaded(stmt: Stmt) -> set[Buffer]:
    return {one.buffer for one in walk(list(roots(stmt))) if isinstance(one, Load)}


def _runs(body: Sequence[Stmt]) -> Iterator[list[Stmt]]:
    """The statements of a block in order: lets and stores that follow each other, and every other
    one by itself.
    """
    run: list[Stmt] = []
    for stmt in body:
        plain = isinstance(stmt, Store) and stmt.atomic is None
        if plain or (isinstance(stmt, Let) and not stmt.mutable):
            run.append(stmt)
            continue
        if run:
            yield run
            run = []
        yield [stmt]
    if run:
        yield run
