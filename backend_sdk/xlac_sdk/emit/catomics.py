"""Atomic operations by compare-and-swap, as functions: every operation on every type, for languages
that swap words of 32 bits, and of 64 for types of that width.

A dialect that uses them says `atomic="atomic_{p}_{space}_{d}(&{place}, {value})"`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import Dialect
from xlac_sdk.emit.cfunctions import arithmetic
from xlac_sdk.kernel_ir.expressions import Space
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.kernel_ir.verify import applies

P = Primitive
OPERATIONS = (P.ADD, P.MUL, P.MAX, P.MIN, P.AND, P.OR, P.XOR)


@dataclass(frozen=True, slots=True)
class WordSwaps:
    """The compare-and-swap of a language: `swap` takes the pointer {0}, the expected word {1} and
    the new one {2}, and returns the old word; `word` is the unsigned type of words.

    `direct` are operations that the language has as atomics itself, by operation and type: `{0}` is
    the pointer, `{1}` the value.
    """

    swap: Mapping[int, str]
    word: Mapping[int, str]
    volatile: str = "volatile "
    direct: Mapping[tuple[Primitive, DType], str] = field(default_factory=dict)


def atomics(dialect: Dialect, swaps: WordSwaps, before: str) -> Mapping[str, str]:
    """The functions by name, for global and shared memory; `before` are their declaration
    specifiers. Types wider than the language's words have none.
    """
    return dict(_all(dialect, swaps, before))


def _all(dialect: Dialect, swaps: WordSwaps, before: str) -> Iterator[tuple[str, str]]:
    for space in (Space.GLOBAL, Space.SHARED):
        for primitive in OPERATIONS:
            for dtype in DType:
                if not applies(primitive, dtype) or max(32, dtype.bits) not in swaps.swap:
                    continue
                name = f"atomic_{primitive.value}_{space.value}_{dtype.value}"
                kind = dialect.types[dtype]
                head = f"{before} void {name}({dialect.pointer(space, dtype)}*place, {kind} value)"
                direct = swaps.direct.get((primitive, dtype))
                body = (
                    [f"    {direct.format('place', 'value')};"]
                    if direct
                    else _loop(dialect, swaps, primitive, dtype, space)
                )
                yield name, "\n".join([head, "{", *body, "}"])


def _loop(
    dialect: Dialect, swaps: WordSwaps, primitive: Primitive, dtype: DType, space: Space
) -> list[str]:
    """A loop on the 32 or 64 bits that contain the element, until the swap succeeds."""
    kind, bits = dialect.types[dtype], max(32, dtype.bits)
    word, short = swaps.word[bits], dialect.types[_words(min(32, dtype.bits))]
    pointer = f"{swaps.volatile}{dialect.spaces.get(space, '')}{word} *"
    if dtype.bits < 32:
        start = [
            "    const uint32_t shift = (uint32_t)((uintptr_t)place & 3u) * 8u;",
            f"    {pointer}const word = ({pointer})((uintptr_t)place & ~(uintptr_t)3u);",
        ]
        old = f"({kind})({short})(assumed >> shift)"
        mask = f"({(1 << dtype.bits) - 1:#x}u << shift)"
        new = f"(assumed & ~{mask}) | ({word})({short})combined << shift"
    else:
        start = [f"    {pointer}const word = ({pointer})place;"]
        whole = _words(bits)
        old = _bits(dialect, "assumed", whole, dtype)
        new = f"({word}){_bits(dialect, 'combined', dtype, whole)}"
    combined = dialect.spelling(primitive, dtype).format(
        "before", "value", t=kind, w=arithmetic(dtype), d=dtype.value, f="f", one="1.0f"
    )
    return [
        *start,
        f"    {word} found = *word, assumed;",
        "    do {",
        "        assumed = found;",
        f"        const {kind} before = {old};",
        f"        const {kind} combined = {combined};",
        f"        found = {swaps.swap[bits].format('word', 'assumed', new)};",
        "    } while (found != assumed);",
    ]


def _words(bits: int) -> DType:
    return DType(f"u{bits}")


def _bits(dialect: Dialect, value: str, source: DType, dtype: DType) -> str:
    """The bits of a value as another type, between a word and an element of the same width."""
    if source.is_integer and dtype.is_integer:
        return f"({dialect.types[dtype]}){value}"
    return dialect.bitcast.format(value, s=source.value, d=dtype.value, t=dialect.types[dtype])
