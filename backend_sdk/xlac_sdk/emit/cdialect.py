"""The spelling of types, primitives, numbers and names in a C-family language: tables with
overridable entries.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cfunctions import TYPES, integer
from xlac_sdk.kernel_ir.expressions import Space
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.semantics import cast as exact_cast
from xlac_sdk.kernel_ir.verify import applies
from xlac_sdk.source import Diagnostic, UnsupportedError

P = Primitive

# {0} {1} {2} operands · {t} their type · {w} the unsigned type arithmetic is done in · {d} the
# type's name · {f} math suffix
_WRAP = {
    P.ADD: "({t})(({w}){0} + ({w}){1})",
    P.SUB: "({t})(({w}){0} - ({w}){1})",
    P.MUL: "({t})(({w}){0} * ({w}){1})",
}
_ANY = {
    P.LT: "({0} < {1})",
    P.LE: "({0} <= {1})",
    P.EQ: "({0} == {1})",
    P.NE: "({0} != {1})",
    P.SELECT: "({0} ? {1} : {2})",
}
_MATH = {
    P.REM: "fmod", P.FLOOR: "floor", P.CEIL: "ceil", P.TRUNC: "trunc", P.ROUND: "nearbyint",
    P.ABS: "fabs", P.FMA: "fma", P.SQRT: "sqrt", P.EXP: "exp", P.LOG: "log", P.SIN: "sin",
    P.COS: "cos", P.POW: "pow", P.EXP2: "exp2", P.EXPM1: "expm1", P.LOG2: "log2", P.LOG1P: "log1p",
    P.TANH: "tanh", P.ERF: "erf", P.ATAN2: "atan2",
}  # fmt: skip
_ARGUMENTS = {1: "({0})", 2: "({0}, {1})", 3: "({0}, {1}, {2})"}

FLOATS: Mapping[Primitive, str] = {
    **_ANY,
    **{p: f"{name}{{f}}{_ARGUMENTS[p.arity]}" for p, name in _MATH.items()},
    P.ADD: "({0} + {1})", P.SUB: "({0} - {1})", P.MUL: "({0} * {1})", P.DIV: "({0} / {1})",
    P.NEG: "(-{0})", P.MAX: "max_{d}({0}, {1})", P.MIN: "min_{d}({0}, {1})",
    P.RSQRT: "({one} / sqrt{f}({0}))",
}  # fmt: skip
INTEGERS: Mapping[Primitive, str] = {
    **_ANY,
    **_WRAP,
    P.MAX: "({0} > {1} ? {0} : {1})",
    P.MIN: "({0} < {1} ? {0} : {1})",
    P.AND: "({t})({0} & {1})",
    P.OR: "({t})({0} | {1})",
    P.XOR: "({t})({0} ^ {1})",
    P.NOT: "({t})~{0}",
    P.NEG: "({t})(0u - ({w}){0})",
    P.ABS: "({t})({0} < 0 ? 0u - ({w}){0} : ({w}){0})",
    **{
        p: f"{p.value}_{{d}}{_ARGUMENTS[p.arity]}"
        for p in (P.DIV, P.REM, P.SHL, P.SHR, P.POW, P.POPCNT, P.CLZ)
    },
}
BOOLS: Mapping[Primitive, str] = {
    **_ANY,
    P.AND: "({0} & {1})",
    P.OR: "({0} | {1})",
    P.XOR: "({0} ^ {1})",
    P.NOT: "(!{0})",
    P.MAX: "({0} | {1})",
    P.MIN: "({0} & {1})",
}

KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for
    goto if inline int long register restrict return short signed sizeof static
    struct switch typedef union unsigned void volatile while asm bool catch class
    delete explicit export false friend mutable namespace new operator private
    protected public template this throw true try typename using virtual and and_eq
    bitand bitor compl not not_eq or or_eq xor xor_eq alignas alignof char16_t
    char32_t constexpr decltype noexcept nullptr static_assert thread_local wchar_t
    main char8_t concept consteval const_cast constinit co_await co_return co_yield
    dynamic_cast reinterpret_cast requires static_cast typeid typeof typeof_unqual
    complex imaginary assert stdin stdout stderr size_t ptrdiff_t intptr_t uintptr_t
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t I NAN INFINITY
    NULL EOF near far linux unix i386 y0 y1 yn j0 j1 jn gamma index memcpy memset
    memmove errno signbit isnan isinf arena state weights""".split()
)


_MATH_NAMES = frozenset(f + end for f in _MATH.values() for end in ("", "f", "l"))
# names that the generated text uses itself
OURS = re.compile(r"\w+_(?:[iuf]\d+|bf16|bool)|(?:[iuf]\d+|bf16|bool)x\d+")

WORDS = {8: DType.U8, 16: DType.U16, 32: DType.U32, 64: DType.U64}  # by their bits


@dataclass(frozen=True)
class Dialect:
    """The spelling of kernels in one C-family language. Replace entries of the tables to change a
    spelling.
    """

    name: str = "C99"
    types: Mapping[DType, str] = field(default_factory=lambda: TYPES)
    floats: Mapping[Primitive, str] = field(default_factory=lambda: FLOATS)
    integers: Mapping[Primitive, str] = field(default_factory=lambda: INTEGERS)
    bools: Mapping[Primitive, str] = field(default_factory=lambda: BOOLS)
    # the type of an i64 whose values are known to fit 32 bits, mostly indices
    index: str = "int64_t"
    restrict: str = "RESTRICT"
    written_out: int = 16  # most iterations of an UNROLLED loop that the text unrolls itself
    reserved: frozenset[str] = KEYWORDS
    renames: bool = False  # every name is changed, for languages with more words than can be listed
    instructions: Mapping[str, str] = field(default_factory=dict)
    kernel: str = "{}"  # the function name of a kernel, by its identifier: `function`
    size: str = ""  # the type of a kernel's sizes; "": the index type
    # the word before the type of a pointer, by the memory that it points to: "__global "
    spaces: Mapping[Space, str] = field(default_factory=dict)
    # the type of a buffer's first element, counted from the start of the memory object that a
    # kernel is given, for languages whose kernels take whole objects; "": kernels take addresses
    offset: str = ""
    # a value {0} of type {s} as type {d}, spelled {t}, of as many bits
    bitcast: str = "bitcast_{s}_{d}({0})"
    # the word for a 16-bit float in memory, which `vload_half` and `vstore_half_rte` convert
    half: str = ""
    # {align}: bytes to align it to; "": no vectors
    vector: str = "typedef struct {{ {type} lane[{lanes}]; }} {name};"
    zero: str = "{0}"  # a zero-initialized vector
    # the lanes of vectors that the language has itself, spelled as in OpenCL C: `cnative.py`
    native: tuple[int, ...] = ()
    widest: int = 0  # bytes of the widest aligned access; 0: lane by lane
    # a pragma before a loop to be unrolled; "": the text unrolls it
    unroll: str = ""
    # for GPU languages; "" if not available
    block: str = ""  # the block index
    thread: str = ""  # the thread index within its block
    barrier: str = ""
    # {0}: a value, {1}: the xor distance of the other thread's lane, {d}: the value's type;
    # {scratch}: the half of the shared memory that `scratch` declares whose turn it is
    exchange: str = ""
    # declares {name}, shared memory of {threads} words of the widest integer, two for each thread,
    # in kernels that exchange values; "": an exchange needs none
    scratch: str = ""
    shared: str = ""  # declares {name}, {size} elements of {type}, aligned to {align} bytes
    # declares {name}, shared memory whose size is given at launch, aligned to {align} bytes
    pool: str = ""
    # the most bytes of `shared` declarations; a kernel with more uses a pool for all of them
    most_shared: int = 0
    # declares the parameter {name}, passed by value: the tensor map of an array for TMA copies
    tensor_map: str = ""
    # combines {place}, of type {d} in memory {space} (global or shared), with {value} by {p}
    atomic: str = ""
    # for hand-written functions (`emit/hand_written.py`); "" for a dialect without any
    language: str = ""  # of `Target.languages`
    helper: str = "static void"  # what begins the declaration of a function that kernels call

    def spelling(self, primitive: Primitive, dtype: DType) -> str:
        """The spelling of a primitive on operands of a type; raises UnsupportedError if there is
        none.
        """
        table = (
            self.floats if dtype.is_float else self.bools if dtype is DType.BOOL else self.integers
        )
        if primitive not in table:
            raise unsupported(self, f"'{primitive.value}' of {dtype}")
        return table[primitive]

    def primitives(self) -> tuple[frozenset[Primitive], frozenset[tuple[Primitive, DType]]]:
        """What the tables spell, as `Target.primitives` and `Target.lacks`."""
        tables = ((DType.F64, self.floats), (DType.I32, self.integers), (DType.BOOL, self.bools))
        native = frozenset({*self.floats, *self.integers, *self.bools, P.CAST, P.BITCAST})
        lacks = {
            (p, d)
            for kind, table in tables
            for d in DType
            if (d.is_float, d is DType.BOOL) == (kind.is_float, kind is DType.BOOL)
            for p in native - {P.CAST, P.BITCAST, *table}
            if applies(p, d)
        }
        return native, frozenset(lacks)

    def pointer(self, space: Space, dtype: DType, const: bool = False) -> str:
        """The type of a pointer to elements in a memory, up to its star."""
        return f"{'const ' if const else ''}{self.spaces.get(space, '')}{self.types[dtype]} "

    def identifier(self, name: str) -> str:
        """A name as a legal identifier; different names stay different."""
        if not (name.isascii() and name.isidentifier()):
            raise AssertionError(f"'{name}' is not an identifier")
        taken = self.renames or name in self.reserved or name.endswith("_") or name.startswith("_")
        taken = taken or name in _MATH_NAMES or OURS.fullmatch(name) is not None
        return f"v{name}_" if taken else name

    def function(self, kernel: str) -> str:
        """The name of a kernel's function in the text, by the kernel's name."""
        return self.kernel.format(self.identifier(kernel))


@dataclass(frozen=True)
class CFunction:
    """A kernel as text: its name, its parameters, the lines of its body, and the vector types that
    they use.
    """

    name: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    note: str
    vectors: tuple[tuple[DType, int], ...] = ()


C99 = Dialect()


def vector_type(dtype: DType, lanes: int) -> str:
    """The name of the struct for a vector type."""
    return f"{dtype.value}x{lanes}"


def vector_align(dtype: DType, lanes: int, widest: int) -> int:
    """The alignment in bytes of a vector's struct: that of one access, or of an element if it takes
    several.
    """
    return max(dtype.nbytes, math.gcd(lanes * dtype.nbytes, widest)) if widest else dtype.nbytes


def unsupported(dialect: Dialect, what: str) -> UnsupportedError:
    """The error for something that a dialect cannot express."""
    return UnsupportedError(Diagnostic("XL5020", f"{dialect.name} text has no {what}"))


def comment(text: str) -> str:
    """Arbitrary text made safe inside a C comment."""
    plain = "".join(c if c.isascii() and c.isprintable() else "?" for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?").replace("\\", "/")


def literal(value: float | bool, dtype: DType) -> str:
    """An exact literal, whose type C does not promote."""
    if dtype is DType.BOOL:
        return "1" if value else "0"
    if dtype.is_half:
        bits = exact_cast(np.float64(value), dtype)
        return f"{int(np.asarray(bits).view(np.uint16))}"
    if dtype.is_integer:
        text = integer(int(value), dtype)
        return f"({TYPES[dtype]}){text}" if dtype.bits < 32 else text
    number = float(value)
    if dtype is DType.F32:
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    if math.isnan(number):
        return "NAN" if dtype is DType.F32 else "(double)NAN"
    if math.isinf(number):
        sign = "-" if number < 0 else ""
        return f"({sign}INFINITY)" if dtype is DType.F32 else f"({sign}(double)INFINITY)"
    text = _shortest(number) + "f" if dtype is DType.F32 else repr(number)
    return f"({text})" if text.startswith("-") else text


def _shortest(value: float) -> str:
    """The shortest decimal that a C compiler converts to the same float."""
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("f", float(text)) == struct.pack("f", value):
            break
    return text if "." in text or "e" in text else f"{text}.0"
