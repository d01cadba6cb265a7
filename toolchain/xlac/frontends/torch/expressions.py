"""The sizes in a file of torch.export, read by a grammar of our own: PyTorch hands their text to
Python's `eval`.

    expression := NUMBER | SYMBOL | NAME of CONSTANTS | NAME of FUNCTIONS "(" expression, … ")"
                | "Symbol" "(" "'" SYMBOL "'" { "," NAME of ASSUMPTIONS "=" ("True" | "False") } ")"
                | "Float" "(" "'" NUMBER "'" [ "," "precision" "=" NUMBER ] ")"
                | expression ("+" | "-" | "*" | "/" | "//" | "%" | "**" | comparison) expression |
                "-" expression
"""

from __future__ import annotations

import ast
import math
import re

PLAIN = re.compile(r"[A-Za-z0-9_ ()+\-*/%<>=!,.']{1,8192}", re.ASCII)
SYMBOL = re.compile(r"(s|u|zf|zuf|ps|i)[0-9]{1,6}", re.ASCII)
FLOAT = re.compile(r"-?[0-9]{1,40}(\.[0-9]{0,40})?(e[+-]?[0-9]{1,4})?|-?\.[0-9]{1,40}", re.ASCII)
ASSUMPTIONS = frozenset(
    (
        "positive",
        "negative",
        "nonnegative",
        "nonpositive",
        "nonzero",
        "zero",
        "integer",
        "real",
        "rational",
        "finite",
        "infinite",
        "extended_real",
        "commutative",
        "hermitian",
        "complex",
        "even",
        "odd",
    )
)
CONSTANTS = frozenset(("true", "false", "oo", "int_oo"))
FUNCTIONS = frozenset(
    (
        "Abs",
        "Add",
        "And",
        "CeilDiv",
        "CeilToInt",
        "CleanDiv",
        "Eq",
        "Equality",
        "FloatTrueDiv",
        "FloorDiv",
        "FloorToInt",
        "Ge",
        "GreaterThan",
        "Gt",
        "Identity",
        "IntTrueDiv",
        "Integer",
        "IsNonOverlappingAndDenseIndicator",
        "Le",
        "LessThan",
        "Lt",
        "Max",
        "Min",
        "Mod",
        "ModularIndexing",
        "Mul",
        "Ne",
        "Not",
        "Or",
        "PythonMod",
        "Rational",
        "RoundDecimal",
        "RoundToInt",
        "StrictGreaterThan",
        "StrictLessThan",
        "ToFloat",
        "TruncToFloat",
        "TruncToInt",
        "Unequality",
        "Where",
        "ceiling",
        "floor",
    )
)
POWERS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift", "RShift"))
"""Functions whose second argument must be a number, so that the size of the result is bounded."""
OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
SIZE_BITS, MOST_BITS = 64, 4096
"""The most bits of a size; and of any intermediate number of an expression, so that evaluation
stays fast.
"""


def expression(text: str) -> str:
    """An expression over sizes, regenerated from its parsed form. Raises ValueError for anything
    else.
    """
    if not PLAIN.fullmatch(text):
        raise ValueError("it has characters that no size needs, or more than 8192 of them")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        return _read(tree)[0]
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("it is not written as sizes are, or too deeply nested") from None


def symbol(text: str) -> str:
    """The name of a symbolic size. Raises ValueError."""
    if not SYMBOL.fullmatch(text):
        raise ValueError("a size is called s0, u0 or the like")
    return text


def _read(tree: ast.AST) -> tuple[str, int]:
    """The regenerated text of an expression, and the most bits that its value may have."""
    text, bits = _parts(tree)
    if bits > MOST_BITS:
        raise ValueError(f"its value may have more than {MOST_BITS} bits")
    return text, bits


def _parts(tree: ast.AST) -> tuple[str, int]:
    match tree:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() as number):
            return str(number), number.bit_length()
        case ast.Constant(value=float() as real) if math.isfinite(real):
            return repr(real), 1100
        case ast.Name(id=name) if name in CONSTANTS:
            return name, 1
        case ast.Name(id=name) if SYMBOL.fullmatch(name):
            return name, SIZE_BITS
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            text, bits = _read(inner)
            return f"(-{text})", bits
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power("({} ** {})", left, right)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            return _joined(left, OPERATORS[type(operator)], right)
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if (
            type(operator) in OPERATORS
        ):
            return _joined(left, OPERATORS[type(operator)], right)
        case ast.Call(
            func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name)], keywords=given
        ):
            symbol(name)
            return f"Symbol({', '.join([repr(name), *map(_assumption, given)])})", SIZE_BITS
        case ast.Call(
            func=ast.Name(id="Float"), args=[ast.Constant(value=str() as real)], keywords=given
        ):
            if not FLOAT.fullmatch(real):
                raise ValueError(f"{real!r} is not a number")
            return f"Float({', '.join([repr(real), *map(_precision, given)])})", 1100
        case ast.Call(func=ast.Name(id=name), args=[base, exponent], keywords=[]) if name in POWERS:
            return _power(name + "({}, {})", base, exponent)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
            name in FUNCTIONS or _opaque(name)
        ):
            read = [_read(a) for a in args]
            bits = (
                sum(b for _, b in read)
                if name == "Mul"
                else max((b for _, b in read), default=0) + len(read)
            )
            return f"{name}({', '.join(t for t, _ in read)})", bits
    raise ValueError(f"'{ast.unparse(tree)[:80]}' cannot be part of a size")


def _joined(left: ast.AST, operator: str, right: ast.AST) -> tuple[str, int]:
    (first, a), (second, b) = _read(left), _read(right)
    return f"({first} {operator} {second})", a + b if operator == "*" else max(a, b) + 1


def _power(form: str, base: ast.AST, exponent: ast.AST) -> tuple[str, int]:
    match exponent:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)) if (
            not isinstance(number, bool)
        ):
            pass
        case ast.Call(func=ast.Name(id="Integer"), args=[inner], keywords=[]) if not isinstance(
            inner, ast.Call
        ):
            return _power(form, base, inner)
        case ast.Call(
            func=ast.Name(id="Rational"),
            args=[ast.Constant(value=1), ast.Constant(value=2)],
            keywords=[],
        ):
            number = 1  # an exponent of one half, a square root
        case _:
            raise ValueError(f"the exponent '{ast.unparse(exponent)[:80]}' is not a whole number")
    text, bits = _read(base)
    shift = form.startswith(("LShift", "RShift"))
    return form.format(text, _read(exponent)[0]), bits + number if shift else max(1, bits) * max(
        1, number
    )


def _opaque(name: str) -> bool:
    """Whether a name is one of PyTorch's opaque unary functions of a real number:
    OpaqueUnaryFn_sqrt and the like.
    """
    return bool(re.fullmatch(r"OpaqueUnaryFn_[a-z0-9]{1,8}", name, re.ASCII))


def _assumption(given: ast.keyword) -> str:
    match given:
        case ast.keyword(arg=str() as name, value=ast.Constant(value=bool() as held)) if (
            name in ASSUMPTIONS
        ):
            return f"{name}={held}"
    raise ValueError(f"'{ast.unparse(given)[:80]}' is not an assumption about a symbol")


def _precision(given: ast.keyword) -> str:
    match given:
        case ast.keyword(arg="precision", value=ast.Constant(value=int() as bits)) if (
            0 < bits <= 1100
        ):
            return f"precision={int(bits)}"
    raise ValueError(f"'{ast.unparse(given)[:80]}' is not a precision")
