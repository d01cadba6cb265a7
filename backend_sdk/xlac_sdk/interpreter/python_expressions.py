"""Kernel expressions as Python source."""

from __future__ import annotations

import numpy as np

from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.kernel import (
    Access,
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
    Space,
    Splat,
    Store,
    Var,
)
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.ranges import Range, combined, fits, type_range

P = Primitive
INFIX = {
    P.ADD: "+",
    P.SUB: "-",
    P.MUL: "*",
    P.LT: "<",
    P.LE: "<=",
    P.EQ: "==",
    P.NE: "!=",
    P.AND: "&",
    P.OR: "|",
    P.XOR: "^",
}


class PythonExpressions:
    """Writes the expressions of one kernel, and tracks the range of integer values."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.names: dict[str, object] = {}  # constants, by their name in the source
        # named expressions of the statement being written
        self.texts: dict[int, tuple[str, Range]] = {}
        self.count = 0

    def fresh(self, hint: str) -> str:
        """A fresh name."""
        self.count += 1
        return f"{hint}{self.count}"

    def constant(self, hint: str, value: object) -> str:
        """A name for an object that the source refers to."""
        name = self.fresh(hint)
        self.names[name] = value
        return name

    def text(self, expr: Expr) -> str:
        """An expression in one line, or its name if it has one."""
        return self.expr(expr)[0]

    def value(self, expr: Expr) -> str:
        """The text of a value that remains valid after its statement: never a view of a buffer that
        may change.
        """
        text = self.text(expr)
        match expr:
            case Load(buffer=Buffer(access=Access.READ, space=Space.GLOBAL)):
                return text
            case (
                Load()
                | Splat()
                | Shuffle()
                | Exchange()
                | Apply(primitive=Primitive.BITCAST | Primitive.CAST)
            ):
                return text if expr.lanes == 1 else f"{text}.copy()"
        return text

    def expr(self, expr: Expr) -> tuple[str, Range]:
        """The text of an expression, and the range of an integer value."""
        known = self.texts.get(id(expr))
        return known if known is not None else self.write(expr)

    def dtype(self, dtype: DType) -> str:
        """A NumPy dtype, by its name in the source."""
        name = f"d_{dtype.value}"
        self.names[name] = dtype.numpy
        return name

    def write(self, expr: Expr) -> tuple[str, Range]:
        """The text of an expression without using its name, and its range."""
        match expr:
            case Const():
                return self.const(expr)
            case Var(name=name, low=low, high=high):
                return f"v_{name}", None if low is None or high is None else (low, high)
            case Ramp(base=base, stride=stride, lanes=lanes):
                steps = self.constant(
                    "k", np.arange(lanes).astype(base.dtype.numpy) * base.dtype.numpy.type(stride)
                )
                return f"({self.wide(base)} + {steps})", None
            case Splat(value=value):
                return self.wide(value), None
            case Load():
                return self.load(expr), None
            case Apply(lanes=1):
                return self.scalar(expr)
            case Apply():
                return self.vector(expr), None
            case Fold(primitive=primitive, value=value):
                full = f"full({self.text(value)}, {value.lanes})"
                return self.narrow(
                    f"fold({self.constant('p', primitive)}, {full})", expr.dtype
                ), None
            case Shuffle(values=values, picks=picks):
                return self.shuffle(values, picks, expr.dtype), None
            case Exchange(value=value, distance=distance):
                return f"(yield ({distance}, {self.text(value)}))", None

    def const(self, expr: Const) -> tuple[str, Range]:
        """A constant, as a Python number if that is equivalent."""
        if expr.lanes > 1 or expr.dtype.is_float:
            with np.errstate(all="ignore"):
                return self.constant("c", expr.dtype.numpy.type(expr.value)), None
        if expr.dtype is DType.BOOL:
            return str(bool(expr.value)), None
        number = int(expr.value)
        return (f"({number})" if number < 0 else str(number)), (number, number)

    def wide(self, value: Expr) -> str:
        """A scalar as a NumPy scalar, which represents equal lanes."""
        text = self.text(value)
        return text if value.dtype.is_float else f"{self.dtype(value.dtype)}.type({text})"

    def narrow(self, text: str, dtype: DType) -> str:
        """A 0-d result as a scalar in the representation of other texts."""
        return f"{text}[()]" if dtype.is_float else f"{text}.item()"

    def load(self, expr: Load) -> str:
        """A load, checked."""
        name, lanes = expr.buffer.name, expr.lanes
        watched = is_watched(expr.buffer)
        written = f"w_{name}" if watched else "None"
        if expr.mask is not None or expr.index.lanes > 1:
            mask = "None" if expr.mask is None else self.text(expr.mask)
            text = f"gather({name!r}, b_{name}, {written}, {self.index(expr)}, {mask}, {lanes})"
            return text if lanes > 1 else self.narrow(f"{text}[0]", expr.dtype)
        at = self.fresh("i")
        index = self.index(expr)
        if lanes == 1:
            item = f"b_{name}[{at}]" if expr.dtype.is_float else f"b_{name}.item({at})"
            test = f" and w_{name}[{at}]" if watched else ""
            return (
                f"({item} if 0 <= ({at} := {index}) < n_{name}{test} else outside({name!r}, {at}, "
                f"1, n_{name}))"
            )
        test = f" and 0 not in w_{name}[{at}:{at} + {lanes}]" if watched else ""
        part = f"b_{name}[{at}:{at} + {lanes}]"
        return (
            f"({part} if 0 <= ({at} := {index}) <= n_{name} - {lanes}{test} else outside({name!r}, "
            f"{at}, {lanes}, n_{name}))"
        )

    def index(self, access: Load | Store) -> str:
        """The start index of an access, with a check of its stated alignment."""
        text, buffer = self.text(access.index), access.buffer
        lanes = access.lanes if isinstance(access, Load) else access.value.lanes
        step = access.align // buffer.dtype.nbytes
        if access.index.lanes > 1:  # a number alone would be the first of consecutive elements
            return text if isinstance(access.index, Ramp | Splat) else f"full({text}, {lanes})"
        if lanes == 1 or step <= 1:
            return text
        mask = "True" if access.mask is None else self.text(access.mask)
        return f"aligned({buffer.name!r}, {text}, {step}, {mask})"

    def shuffle(self, values: tuple[Expr, ...], picks: tuple[int, ...], dtype: DType) -> str:
        """Selected lanes of two vectors."""
        parts = [
            f"full({self.wide(v) if v.lanes == 1 else self.text(v)}, {v.lanes})" for v in values
        ]
        whole = parts[0] if len(parts) == 1 else f"concatenate(({', '.join(parts)}))"
        if len(picks) == 1:
            return self.narrow(f"{whole}[{picks[0]}]", dtype)
        return f"{whole}[{self.constant('k', np.array(picks))}]"

    def vector(self, expr: Apply) -> str:
        """A primitive applied to vectors."""
        if expr.primitive is P.BITCAST and expr.operands[0].lanes != expr.lanes:
            return self.regrouped(expr)
        given = [self.text(o) for o in expr.operands]
        infix = INFIX.get(expr.primitive)
        if infix is not None:
            return f"({given[0]} {infix} {given[1]})"
        if expr.primitive is P.CAST and _is_plain(expr.operands[0].dtype, expr.dtype):
            return f"{given[0]}.astype({self.dtype(expr.dtype)})"
        if expr.primitive is P.FMA:  # the commonest, without a look into the table
            return f"multiply_add({', '.join(given)})"
        name = self.constant("p", expr.primitive)
        return f"evaluate({name}, ({', '.join(given)},), {self.constant('dt', expr.dtype)})"

    def scalar(self, expr: Apply) -> tuple[str, Range]:
        """A primitive applied to scalars, by Python's operators if they are equivalent."""
        primitive, dtype = expr.primitive, expr.operands[0].dtype
        if primitive is P.BITCAST and expr.operands[0].lanes > 1:
            return self.narrow(f"{self.regrouped(expr)}[0]", expr.dtype), None
        parts = [self.expr(o) for o in expr.operands]
        given = [text for text, _ in parts]
        infix = INFIX.get(primitive)
        if primitive.is_comparison or (infix in ("&", "|", "^") and infix is not None):
            return f"({given[0]} {infix} {given[1]})", None
        if primitive is P.SELECT:
            return f"choose({', '.join(given)})", None
        if dtype.is_float and infix is not None:
            return f"({given[0]} {infix} {given[1]})", None
        if dtype.is_integer and infix is not None:
            known = combined(primitive, parts[0][1], parts[1][1])
            return self.wrapped(f"({given[0]} {infix} {given[1]})", known, dtype)
        if primitive is P.CAST and not dtype.is_float and expr.dtype.is_integer:
            return self.wrapped(f"int({given[0]})", parts[0][1], expr.dtype)
        if primitive is P.CAST and expr.dtype.is_float and _is_plain(dtype, expr.dtype):
            return f"{self.dtype(expr.dtype)}.type({given[0]})", None
        if primitive in (P.MIN, P.MAX) and dtype.is_integer:
            known = combined(primitive, parts[0][1], parts[1][1])
            return f"{'min' if primitive is P.MIN else 'max'}({given[0]}, {given[1]})", known
        if primitive in (P.DIV, P.REM) and dtype.is_integer:
            known = combined(primitive, parts[0][1], parts[1][1])
            if known is not None:
                return f"({given[0]} {'//' if primitive is P.DIV else '%'} {given[1]})", known
            name = "quotient" if primitive is P.DIV else "rest"
            return self.wrapped(f"{name}({given[0]}, {given[1]})", None, dtype)
        wide = [
            text if o.dtype.is_float else f"{self.dtype(o.dtype)}.type({text})"
            for text, o in zip(given, expr.operands, strict=True)
        ]
        call = (
            f"evaluate({self.constant('p', primitive)}, ({', '.join(wide)},), "
            f"{self.constant('dt', expr.dtype)})"
        )
        return self.narrow(call, expr.dtype), None

    def regrouped(self, expr: Apply) -> str:
        """The bits of all lanes as lanes of another width."""
        (value,) = expr.operands
        text = self.wide(value) if value.lanes == 1 else self.text(value)
        return f"bits(full({text}, {value.lanes}), {self.constant('dt', expr.dtype)})"

    def wrapped(self, text: str, known: Range, dtype: DType) -> tuple[str, Range]:
        """An integer result wrapped to its type's range, unless it is known to be inside."""
        if fits(known, dtype):
            return text, known
        high = type_range(dtype)[1]
        if dtype.is_signed:
            return f"((({text} + {high + 1}) & {2 * high + 1}) - {high + 1})", None
        return f"({text} & {high})", None


def _is_plain(source: DType, wanted: DType) -> bool:
    """Whether NumPy's conversion rounds or wraps as a cast in kernel IR does."""
    if source.is_float:
        return wanted.is_float and (source, wanted) != (DType.F64, DType.BF16)
    exact = source.bits <= 32 and wanted in (DType.F32, DType.F64)
    return source.is_integer and (wanted.is_integer or exact)


def is_watched(buffer: Buffer) -> bool:
    """Whether elements may be read only after the kernel has written them."""
    return buffer.space is not Space.GLOBAL or buffer.access is Access.REREAD
