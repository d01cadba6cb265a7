"""Pretty forms of operations: those that differ from `name operands, key = value : types`, and the
generic names of their abbreviations (StableHLO's StablehloOps.td and AssemblyFormat.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xlac.frontends.stablehlo.text.shardy_forms import manual_computation, sharding
from xlac.frontends.stablehlo.text.syntax import (
    FunctionType,
    MlirRegion,
    MlirSymbol,
    Operation,
    Raw,
    TensorType,
    ValueType,
)

if TYPE_CHECKING:
    from xlac.frontends.stablehlo.text.operations import OperationReader


@dataclass(slots=True)
class Pretty:
    """A parsed operation before its attributes get their generic names; `words` are keywords
    without a value.
    """

    name: str
    operands: list[str] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    words: list[Any] = field(default_factory=list)
    regions: list[MlirRegion] = field(default_factory=list)
    types: FunctionType | list[ValueType] | None = None


KEYWORDS: dict[str, dict[str, str]] = {
    "broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "dynamic_broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "broadcast": {"sizes": "broadcast_sizes"}, "transpose": {"dims": "permutation"},
    "reverse": {"dims": "dimensions"}, "concatenate": {"dim": "dimension"},
    "iota": {"dim": "iota_dimension"}, "dynamic_iota": {"dim": "iota_dimension"},
    "pad": {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"},
    "dynamic_slice": {"sizes": "slice_sizes"}, "get_dimension_size": {"dim": "dimension"},
    "set_dimension_size": {"dim": "dimension"}, "rng": {"distribution": "rng_distribution"},
    "rng_bit_generator": {"algorithm": "rng_algorithm"},
    "fft": {"type": "fft_type", "length": "fft_length"}, "einsum": {"config": "einsum_config"},
    "unary_einsum": {"config": "einsum_config"}, "dot": {"precision": "precision_config"},
    "dot_general": {"precision": "precision_config"},
}  # fmt: skip
"""The generic attribute name of each key of a pretty form."""

ALONE: dict[str, tuple[str, ...]] = {
    "compare": ("comparison_direction", "compare_type"),
    "composite": ("name",),
    "call": ("callee",),
    "custom_call": ("call_target_name",),
    "get_tuple_element": ("index",),
}
"""The generic attribute names of the keywords of a pretty form, in order."""

FORMAT = re.compile(r"e(\d{1,3})m(\d{1,3})$")


def renamed(name: str, parsed: Pretty) -> dict[str, Any]:
    """The attributes under their generic names."""
    keys = KEYWORDS.get(name, {})
    attributes = {keys.get(key, key): value for key, value in parsed.named.items()}
    for key, word in zip(ALONE.get(name, ()), parsed.words, strict=False):
        attributes[key] = word
    if name == "dot_general":
        batching, contracting = (
            attributes.pop(key, ([], [])) for key in ("batching_dims", "contracting_dims")
        )
        if isinstance(batching, tuple) and isinstance(contracting, tuple):
            attributes["dot_dimension_numbers"] = {
                "lhs_batching_dimensions": batching[0],
                "rhs_batching_dimensions": batching[1],
                "lhs_contracting_dimensions": contracting[0],
                "rhs_contracting_dimensions": contracting[1],
            }
    if name == "reduce_precision" and (form := FORMAT.match(str(attributes.get("format")))):
        attributes |= {"exponent_bits": int(form[1]), "mantissa_bits": int(form[2])}
    if name == "get_tuple_element" and isinstance(attributes.get("index"), list):
        attributes["index"] = attributes["index"][0] if attributes["index"] else 0
    return attributes


def typed(
    name: str, types: FunctionType | Sequence[ValueType], count: int
) -> tuple[ValueType, ...]:
    """The types of the results: those of a function type; or of a list the last one, or all if
    there are as many as results.
    """
    if isinstance(types, FunctionType):
        return types.gives
    if name == "return":
        return ()
    return tuple(types) if count > 1 else tuple(types[-1:])


# ---- operations with their own syntax ------------------------------------------------------------


def constant(parser: OperationReader, parsed: Pretty) -> None:
    """`constant {…} dense<…> : type`"""
    if parser.text == "{":
        parsed.named |= parser.attributes()
    parsed.named["value"], type = parser.dense()
    parsed.types = [type]


def slice_(parser: OperationReader, parsed: Pretty) -> None:
    """`slice %x [0:2, 1:9:2] : …`"""
    parsed.operands.append(parser.take("value", "an operand"))
    parser.expect("[")

    def bounds() -> list[int]:
        numbers = [parser.size(parser.take("number", "a start"))]
        while parser.accept(":"):
            numbers.append(parser.size(parser.take("number", "a limit")))
        return [*numbers, 1] if len(numbers) == 2 else numbers

    cuts = parser.listed("]", bounds)
    if any(len(cut) != 3 for cut in cuts):
        parser.unexpected("start:limit or start:limit:stride for each axis")
    for position, name in enumerate(("start_indices", "limit_indices", "strides")):
        parsed.named[name] = [cut[position] for cut in cuts]
    if parser.text == "{":
        parsed.named |= parser.attributes()


def reduce_(parser: OperationReader, parsed: Pretty) -> None:
    """`reduce(%x init: %a), (%y init: %b) applies stablehlo.add across dimensions = [1] : …`, or
    with a `reducer` region.
    """
    inits = []
    while parser.accept("("):
        parsed.operands.append(parser.take("value", "an operand"))
        parser.expect("init")
        parser.expect(":")
        inits.append(parser.take("value", "an initial value"))
        parser.expect(")")
        parser.accept(",")
    parsed.operands += inits
    applied = ""
    at = parser.at
    if parser.accept("applies"):
        applied = (
            parser.string() if parser.kind == "string" else parser.take("word", "an operation")
        ).removeprefix("stablehlo.")
    parser.expect("across")
    parser.expect("dimensions")
    parser.expect("=")
    parsed.named["dimensions"] = parser.attribute()
    if parser.text == "{":
        parsed.named |= parser.attributes()
    parser.expect(":")
    parsed.types = parser.function_type()
    if not applied:
        parser.expect("reducer")
        pairs = []
        while parser.accept("("):
            pairs.append(parser.listed(")", lambda: parser.argument()[:2]))
            if len(pairs[-1]) != 2:
                parser.unexpected("two arguments for each operand")
        parsed.regions.append(parser.region([pair[side] for side in (0, 1) for pair in pairs]))
        return
    takes = parsed.types.takes
    if len(takes) != 2 or not isinstance(takes[0], TensorType):
        parser.source.fail("XL7201", f"{applied} combines one tensor", at)
    scalar = TensorType(takes[0].element)
    step = Operation(applied, ["%0", "%1"], ["%2"], {}, [], (scalar,), at)
    last = Operation("return", ["%2"], [], {}, [], (), at)
    parsed.regions.append(MlirRegion([("%0", scalar), ("%1", scalar)], [step, last], at))


def while_(parser: OperationReader, parsed: Pretty) -> None:
    """`while(%a = %x, %b = %y) : types cond {…} do {…}`"""
    parser.expect("(")

    def carried() -> str:
        name = parser.take("value", "a name")
        parser.expect("=")
        parsed.operands.append(parser.take("value", "an operand"))
        return name

    names = parser.listed(")", carried)
    types: list[ValueType] = []
    if parser.accept(":"):
        types.append(parser.type())
        while parser.accept(","):
            types.append(parser.type())
    if len(types) != len(names):
        parser.unexpected(f"{len(names)} types")
    if parser.accept("attributes"):
        parsed.named |= parser.attributes()
    parsed.types = FunctionType(tuple(types), tuple(types))
    arguments = list(zip(names, types, strict=True))
    for word in ("cond", "do"):
        parser.expect(word)
        parsed.regions.append(parser.region(arguments))


NUMBERS = re.compile(r"\s*\[[^\[\]]*\]\s*x\s*\[[^\[\]]*\]\s*->\s*\[[^\[\]]*\]")
WINDOW = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}


def convolution(parser: OperationReader, parsed: Pretty) -> None:
    """`convolution(%x, %k) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [2]}
    {…} : …`
    """
    parser.expect("(")
    parsed.operands += parser.listed(")", lambda: parser.take("value", "an operand"))
    parser.expect("dim_numbers")
    if parser.text != "=":
        parser.unexpected("'='")
    numbers = NUMBERS.match(parser.all, parser.end)
    if numbers is None:
        parser.source.fail("XL7201", "expected [..]x[..]->[..]", parser.end)
    parsed.named["dimension_numbers"] = Raw("#stablehlo.conv", numbers.group())
    parser.seek(numbers.end())
    parser.expect(",")
    parser.expect("window")
    parser.expect("=")
    parsed.named |= {WINDOW.get(key, key): value for key, value in parser.attributes().items()}
    if parser.text == "{":
        parsed.named |= parser.attributes()


def call(parser: OperationReader, parsed: Pretty) -> None:
    """`call @f(%x) {…} : …`, and so `custom_call`"""
    target = parser.symbol().name
    parsed.words.append(target if parsed.name == "custom_call" else MlirSymbol(target))
    parser.expect("(")
    parsed.operands += parser.listed(")", lambda: parser.take("value", "an operand"))
    if parser.text == "{":
        parsed.named |= parser.attributes()


def scan(parser: OperationReader, parsed: Pretty) -> None:
    """`chlo.scan(%x) inits (%a) dimension=1 attributes {…} {^bb0(…): …} : …`"""
    counts = []
    for word in ("", "inits"):
        if word:
            parser.expect(word)
        parser.expect("(")
        operands = parser.listed(")", lambda: parser.take("value", "an operand"))
        parsed.operands += operands
        counts.append(len(operands))
    parsed.named["operandSegmentSizes"] = counts
    parser.expect("dimension")
    parser.expect("=")
    parsed.named["dimension"] = parser.size(parser.take("number", "an axis"))
    if parser.accept("attributes"):
        parsed.named |= parser.attributes()
    parsed.regions.append(parser.region())


FORMS: dict[str, Callable[[OperationReader, Pretty], None]] = {
    "constant": constant, "chlo.constant": constant, "slice": slice_, "reduce": reduce_,
    "while": while_, "convolution": convolution, "call": call, "custom_call": call,
    "chlo.scan": scan, "sdy.sharding_constraint": sharding,
    "sdy.manual_computation": manual_computation,
}  # fmt: skip
