"""Legalization of expressions: missing primitives are expanded, 16-bit floats widened, guards
inserted.
"""

from __future__ import annotations

from dataclasses import replace

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import (
    Apply,
    Buffer,
    Const,
    Exchange,
    Expr,
    Fold,
    Kernel,
    Load,
    Ramp,
    Shuffle,
    Splat,
    TensorMap,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.sharing import operands
from xlac_sdk.lowering.math import EXPANSIONS, FORMS, halves, integers
from xlac_sdk.lowering.math.writer import Writer
from xlac_sdk.lowering.unused_prefix import UnusedNames
from xlac_sdk.lowering.weak_forms import check_repairable, folded, folds_weakly, without_flushing
from xlac_sdk.source import Diagnostic, UnsupportedError
from xlac_sdk.target import Target

P = Primitive
_GUARDED = {P.DIV: integers.divide, P.REM: integers.remainder}


class LegalExpressions:
    """Rewrites the expressions of one kernel. Statements that must precede an expression are
    collected in the writer.
    """

    def __init__(self, kernel: Kernel, target: Target, fast: bool) -> None:
        target = without_flushing(target) if fast else target
        self.kernel, self.target = kernel, target
        self._writer = Writer(target, FORMS, UnusedNames(kernel), fast)
        self._memo: dict[int, tuple[Expr, Expr]] = {}
        self._buffers: dict[Buffer, Buffer] = {}
        self._missing = frozenset(DType) - target.dtypes
        # expressions of the kernel that are legal already, by identity
        self._plain: set[int] = set()
        self._kinds: dict[tuple[Primitive, DType], bool] = {}

    def _stays(self, root: Expr) -> bool:
        """Whether everything inside an expression is legal, on a target that has every type.

        Most expressions are, and each is checked once for a kernel.
        """
        plain, stack = self._plain, [root]
        met: set[int] = set()
        while stack:
            expr = stack.pop()
            if id(expr) in plain or id(expr) in met:
                continue
            if not self._is_legal(expr):
                return False
            met.add(id(expr))
            stack += operands(expr)
        plain |= met
        return True

    def _is_legal(self, expr: Expr) -> bool:
        """Whether the target has an expression, without its operands."""
        if type(expr) is Apply:
            return self._spelled(expr)
        return type(expr) is not Fold or not folds_weakly(self.target, expr)

    def _spelled(self, expr: Apply) -> bool:
        primitive, given = expr.primitive, expr.operands
        key = primitive, given[primitive is P.SELECT].dtype
        known = self._kinds.get(key)
        if known is None:
            known = self._kinds[key] = primitive not in self.target.guards and self.target.spells(
                *key
            )
        return known

    def _expr(self, root: Expr) -> Expr:
        """Bottom-up without recursion; memoised by identity within a statement."""
        memo, stack = self._memo, [root]
        while stack:
            expr = stack[-1]
            if id(expr) in memo:
                stack.pop()
                continue
            inner = operands(expr)
            waiting = [o for o in inner if id(o) not in memo]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            memo[id(expr)] = (expr, self._rebuilt(expr, tuple(memo[id(o)][1] for o in inner)))
        return memo[id(root)][1]

    def _rebuilt(self, expr: Expr, new: tuple[Expr, ...]) -> Expr:
        same = all(a is b for a, b in zip(new, operands(expr), strict=True))
        match expr:
            case Apply():
                return self._apply(expr, new, same)
            case Var():
                return self._var(expr)
            case Const(value=value, dtype=dtype):
                if dtype not in self._missing:
                    return expr
                return Const(halves.bits_of(value, dtype), self._held(dtype), expr.lanes)
            case Load(buffer=buffer):
                held = self._buffer(buffer)
                if same and held is buffer:
                    return expr
                return replace(
                    expr, buffer=held, index=new[0], mask=new[1] if len(new) > 1 else None
                )
        if isinstance(expr, Fold) and folds_weakly(self.target, expr):
            return folded(self._writer, expr.primitive, new[0])
        if same:
            return expr
        match expr:
            case Ramp():
                return replace(expr, base=new[0])
            case Splat(lanes=lanes):
                return Splat(new[0], lanes)
            case Fold(primitive=primitive):
                return Fold(primitive, new[0])
            case Exchange(distance=distance):
                return Exchange(new[0], distance)
            case Shuffle(picks=picks):
                return Shuffle(new, picks)

    def _apply(self, expr: Apply, new: tuple[Expr, ...], same: bool) -> Expr:
        primitive, _w = expr.primitive, self._writer
        kinds = tuple(o.dtype for o in expr.operands)
        kind = kinds[1] if primitive is P.SELECT else kinds[0]
        if self._missing and (kind in self._missing or expr.dtype in self._missing):
            return self._half(expr, new)
        if not self.target.spells(primitive, kind):
            if self.target.weakness(primitive, kind):
                check_repairable(self.target, primitive, kind)
            elif primitive not in EXPANSIONS or (primitive is P.REM and not kind.is_float):
                raise _unsupported(self.target, f"'{primitive.value}' of {kind}")
            return self._expanded(primitive, expr, new)
        if primitive in self.target.guards:
            guarded = self._guarded(expr, new, kind)
            if guarded is not None:
                return guarded
        return expr if same else replace(expr, operands=new)

    def _expanded(self, primitive: Primitive, expr: Apply, new: tuple[Expr, ...]) -> Expr:
        """The expansion of a primitive; that of a splat is computed once, as a scalar."""
        w = self._writer
        if expr.lanes > 1 and all(isinstance(o, Splat | Const) for o in new):
            scalars = (
                o.value if isinstance(o, Splat) else Const(o.value, o.dtype)
                for o in new
                if isinstance(o, Splat | Const)
            )
            return Splat(w.expand(primitive, *map(w.value, scalars)).expr, expr.lanes)
        return w.expand(primitive, *map(w.value, new)).expr

    def _guarded(self, expr: Apply, new: tuple[Expr, ...], kind: DType) -> Expr | None:
        """A guarded form if the operands may hit a case that the target leaves undefined; None
        otherwise.
        """
        primitive, w = expr.primitive, self._writer
        if primitive is P.CAST:
            if not (kind.is_float and expr.dtype.is_integer):
                return None
            given = w.value(new[0])
            wide = given.cast(DType.F32) if kind.is_half else given
            return integers.from_float(w, wide, expr.dtype).expr
        if not kind.is_integer or _harmless(primitive, new[1], kind):
            return None
        x, y = map(w.value, new)
        if primitive in _GUARDED:
            return _GUARDED[primitive](w, x, y).expr
        return integers.shift(w, x, y, primitive).expr

    def _half(self, expr: Apply, new: tuple[Expr, ...]) -> Expr:
        """16-bit floats as their bits: moved unchanged, widened to f32 for arithmetic."""
        w, primitive, held = self._writer, expr.primitive, self._held(expr.dtype)
        if primitive is P.SELECT:
            return replace(expr, operands=new, dtype=held)
        if primitive is P.BITCAST:
            return new[0] if held is new[0].dtype else replace(expr, operands=new, dtype=held)
        wide = []
        for value, operand in zip(new, expr.operands, strict=True):
            self._held(operand.dtype)  # raises for types that cannot be stored
            given = w.value(value)
            if operand.dtype in self._missing:
                given = halves.widen(w, given, operand.dtype)
            elif operand.dtype.is_half:  # the one of the two that the target has
                given = given.cast(DType.F32)
            wide.append(given)
        result = wide[0] if primitive is P.CAST else w.apply(primitive, *wide)
        if expr.dtype in self._missing:
            return halves.narrow(
                w, result if result.dtype.is_float else result.cast(DType.F32), expr.dtype
            ).expr
        if primitive is not P.CAST:
            return result.expr
        if expr.dtype is DType.BOOL:
            return result.ne(0.0).expr
        if P.CAST in self.target.guards and expr.dtype.is_integer:
            return integers.from_float(w, result, expr.dtype).expr
        return result.cast(expr.dtype).expr

    def _held(self, dtype: DType) -> DType:
        """The storage type of an element type."""
        if dtype not in self._missing:
            return dtype
        if not dtype.is_half:
            raise _unsupported(self.target, f"type {dtype}")
        return DType.U16

    def _var(self, var: Var) -> Var:
        return replace(var, dtype=self._held(var.dtype)) if var.dtype in self._missing else var

    def _named(self, operand: Buffer | TensorMap) -> Buffer | TensorMap:
        if isinstance(operand, Buffer):
            return self._buffer(operand)
        return replace(operand, buffer=self._buffer(operand.buffer))

    def _buffer(self, buffer: Buffer) -> Buffer:
        if buffer.dtype not in self._missing:
            return buffer
        known = self._buffers.get(buffer)
        if known is None:
            known = self._buffers[buffer] = replace(buffer, dtype=self._held(buffer.dtype))
        return known


def _harmless(primitive: Primitive, by: Expr, kind: DType) -> bool:
    """Whether a constant divisor or shift distance excludes every undefined case, as in most index
    arithmetic.
    """
    if not isinstance(by, Const):
        return False
    if primitive is P.DIV or primitive is P.REM:
        return by.value not in (0, -1)
    return 0 <= by.value < kind.bits


def _unsupported(target: Target, what: str) -> UnsupportedError:
    hint = "another target, or a cast to another type"
    return UnsupportedError(
        Diagnostic(
            "XL5010", f"target '{target.name}' has no {what}, and it cannot be expanded", hint=hint
        )
    )
