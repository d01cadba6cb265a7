"""Simplifies the code of a region of a loop by what is known there: removes decided comparisons,
clamps without effect, and the unused operands of selects.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from xlac.codegen.core.addressing import address, alignment
from xlac.codegen.core.seams.conditions import Knowledge
from xlac.codegen.core.seams.lane_forms import Facts, FormsOf, LaneForm
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Buffer,
    Const,
    Exchange,
    Expr,
    Fold,
    Let,
    Load,
    Ramp,
    Shuffle,
    Splat,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.support.limits import count_work

P = Primitive


@dataclass(slots=True)
class Identifiers:
    """The identifiers of a kernel, and statistics of its rewriting."""

    used: set[str]
    decided: int = 0  # comparisons and clamps that were decided

    def fresh(self, name: str) -> str:
        """A new identifier, derived from this one."""
        stem, number = name, 1
        while name in self.used:
            name, number = f"{stem}_{number}", number + 1
        self.used.add(name)
        return name


@dataclass(slots=True)
class LoopRegion:
    """A block being rewritten: the replacements of names, and what is known. With `renames`, names
    that it defines are renamed, as the block is written several times.
    """

    names: Identifiers
    values: dict[str, Expr] = field(default_factory=dict)
    buffers: dict[Buffer, Buffer] = field(default_factory=dict)
    forms: dict[str, LaneForm] = field(default_factory=dict)
    conditions: dict[str, Expr] = field(default_factory=dict)
    mutable: set[str] = field(default_factory=set)
    facts: Facts = field(default_factory=Facts)
    renames: bool = False
    _done: dict[int, tuple[Expr, Expr]] = field(default_factory=dict)
    _met: FormsOf = field(default_factory=dict)

    def inner(self, *facts: Expr, renames: bool = False) -> LoopRegion:
        """The region of a nested block, in which further indices are known to be nonnegative."""
        return LoopRegion(
            self.names,
            dict(self.values),
            dict(self.buffers),
            dict(self.forms),
            dict(self.conditions),
            set(self.mutable),
            self.facts.with_(*facts) if facts else self.facts,
            self.renames or renames,
        )

    def scratch(self) -> LoopRegion:
        """A copy of this region for analysing code without emitting it."""
        copied = self.inner()
        copied.names, copied.renames = Identifiers(self.names.used), False
        return copied

    @property
    def knowledge(self) -> Knowledge:
        """What is known here."""
        return Knowledge(self.forms, self.conditions, self.facts, self._met)

    # ---- names -------------------------------------------------------------------------------

    def bind(self, var: Var, new: Expr) -> Expr:
        """Replaces a name by an expression; a variable is renamed where necessary."""
        if isinstance(new, Var) and new.name == var.name and self.renames:
            new = replace(new, name=self.names.fresh(var.name))
        self.values[var.name] = new
        return new

    def let(self, stmt: Let) -> Let | None:
        """The rewritten statement; None if the name is replaced by another name or a number."""
        value, var = self.expr(stmt.value), stmt.var
        if stmt.mutable:
            new = self.bind(var, var)
            assert isinstance(new, Var)
            self.mutable.add(new.name)
            return Let(new, value, mutable=True)
        settled = isinstance(value, Var) and value.name not in self.mutable
        if settled or isinstance(value, Const):
            self.values[var.name] = value
            return None
        new = self.bind(var, _bounded(var, value))
        assert isinstance(new, Var)
        if var.dtype.is_integer:
            form = self.knowledge.form(value)
            if form is not None:
                self.forms[new.name] = form
        elif var.dtype is DType.BOOL and not self._changes(value):
            self.conditions[new.name] = value
        return Let(new, value)

    def _changes(self, value: Expr) -> bool:
        """Whether an expression reads a variable that may be assigned later."""
        match value:
            case Var(name=name):
                return name in self.mutable
            case Splat(value=inner) | Ramp(base=inner):
                return self._changes(inner)
            case Apply(operands=operands):
                return any(map(self._changes, operands))
        return False

    def buffer(self, buffer: Buffer) -> Buffer:
        """The replacement of a buffer."""
        return self.buffers.get(buffer, buffer)

    def allocated(self, buffer: Buffer) -> Buffer:
        """The buffer that is allocated in place of this one."""
        if self.renames:
            self.buffers[buffer] = replace(buffer, name=self.names.fresh(buffer.name))
        return self.buffer(buffer)

    def store(self, stmt: Store) -> Store:
        """The rewritten statement."""
        index, buffer = self.expr(stmt.index), self.buffer(stmt.buffer)
        value = self.expr(stmt.value)
        mask = None if stmt.mask is None else self._mask(self.expr(stmt.mask))
        if index is stmt.index:
            return replace(stmt, buffer=buffer, value=value, mask=mask)
        index, align = address(buffer, index, value.lanes, stmt.align)
        return replace(stmt, buffer=buffer, index=index, value=value, mask=mask, align=align)

    # ---- expressions -------------------------------------------------------------------------

    def expr(self, node: Expr) -> Expr:
        """A rewritten expression, with as many lanes; shared ones are rewritten once."""
        done = self._done.get(id(node))
        if done is None:
            count_work()
            # the key is kept alive, so that its id is not reused
            done = self._done[id(node)] = (node, self._rewritten(node))
        return done[1]

    def _rewritten(self, node: Expr) -> Expr:
        match node:
            case Const():
                return node
            case Var(name=name):
                return self.values.get(name, node)
            case Ramp(base=base, stride=stride, lanes=lanes):
                new = self.expr(base)
                return node if new is base else build.ramp(new, stride, lanes)
            case Splat(value=value, lanes=lanes):
                new = self.expr(value)
                return node if new is value else build.splat(new, lanes)
            case Fold(value=value) | Exchange(value=value):
                new = self.expr(value)
                return node if new is value else replace(node, value=new)
            case Shuffle(values=values):
                wide = tuple(map(self.expr, values))
                return node if _same(wide, values) else replace(node, values=wide)
            case Load():
                return self._load(node)
            case Apply():
                return self._applied(node)

    def _load(self, node: Load) -> Expr:
        index, buffer = self.expr(node.index), self.buffer(node.buffer)
        mask = None if node.mask is None else self._mask(self.expr(node.mask))
        if index is node.index and buffer is node.buffer and mask is node.mask:
            return node
        if node.index.lanes > 1:
            align = alignment(buffer, index)
            loaded = build.load(buffer, index, mask=mask, align=align)
            return build.splat(loaded, node.lanes)
        index, align = address(buffer, index, node.lanes, node.align)
        return replace(node, buffer=buffer, index=index, mask=mask, align=align)

    def _mask(self, mask: Expr) -> Expr | None:
        """A rewritten mask; None if it is true in every lane."""
        return None if isinstance(mask, Const) and mask.value else mask

    def _applied(self, node: Apply) -> Expr:
        operands = tuple(map(self.expr, node.operands))
        new = node if _same(operands, node.operands) else replace(node, operands=operands)
        primitive = node.primitive
        if node.dtype is DType.BOOL or primitive is P.SELECT:
            return self._decided(new)
        if primitive in (P.MIN, P.MAX) and node.dtype.is_integer:
            return self._clamped(new)
        return new if new is node else self._indexing(new)

    def _decided(self, new: Apply) -> Expr:
        """A comparison or a select, simplified by what is known of its condition."""
        if new.primitive is P.SELECT:
            condition, then, otherwise = new.operands
            truths = self.knowledge.truths(condition)
            if truths is None or len(set(truths)) > 1:
                return new
            self.names.decided += 1
            return then if truths[0] else otherwise
        truths = self.knowledge.truths(new)
        if truths is not None and len(set(truths)) == 1:
            self.names.decided += 1
            return Const(truths[0], DType.BOOL, new.lanes)
        if new.primitive in (P.AND, P.OR):
            for one, other in (new.operands, new.operands[::-1]):
                # it does not decide alone, otherwise the truth would be known
                if isinstance(one, Const):
                    return other
        return new

    def _clamped(self, new: Apply) -> Expr:
        """A minimum or maximum; the operand that it always equals, if known."""
        x, y = map(self.knowledge.form, new.operands)
        if x is None or y is None:
            return new
        less, more = self.facts.below(x, y), self.facts.below(y, x)
        first = new.primitive is P.MIN  # whether the first operand is the result where it is less
        for truths, side in ((less, first), (more, not first)):
            if truths is not None and len(set(truths)) == 1:
                self.names.decided += 1
                return new.operands[0 if truths[0] == side else 1]
        return new

    def _indexing(self, new: Apply) -> Expr:
        """Index arithmetic in canonical form, where that is known to be valid."""
        if new.dtype is not DType.I64:
            return new
        match new:
            case Apply(P.ADD, (Splat(a, _), Ramp(b, by, _)) | (Ramp(a, by, _), Splat(b, _))):
                return build.ramp(build.apply(P.ADD, a, b), by, new.lanes)  # wraps alike
            case _ if self.knowledge.form(new) is None and not _small(new):
                return new
            case Apply(Primitive.ADD, (a, b)):
                return build.splat(build.add(a, b), new.lanes)
            case Apply(Primitive.MUL, (a, b)):
                return build.splat(build.mul(a, b), new.lanes)
            case Apply(Primitive.DIV | Primitive.REM as primitive, (a, Const(value=k))):
                low = build.bounds(a)[0]
                if low is not None and low >= 0 and int(k) > 0:
                    whole = build.div if primitive is P.DIV else build.mod
                    return build.splat(whole(a, int(k)), new.lanes)
        return new


def _small(new: Apply) -> bool:
    """Whether all operands of index arithmetic are known to be small, so that it cannot
    overflow.
    """
    ends = [end for operand in new.operands for end in build.bounds(operand)]
    return all(end is not None and abs(end) < 1 << 31 for end in ends)


def _same(new: tuple[Expr, ...], old: tuple[Expr, ...]) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def _bounded(var: Var, value: Expr) -> Var:
    """A name with the bounds of its new value, where they are tighter."""
    if var.dtype is not DType.I64:
        return var
    low, high = build.bounds(value)
    lows = [end for end in (low, var.low) if end is not None]
    highs = [end for end in (high, var.high) if end is not None]
    known = build.multiple(value) if var.lanes == 1 else 1
    return replace(
        var,
        low=max(lows, default=None),
        high=min(highs, default=None),
        multiple=known if known % max(1, var.multiple) == 0 and known else var.multiple,
    )
