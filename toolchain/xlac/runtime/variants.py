"""Validates the sizes that a user wants specialized steps for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xlac_sdk.dims import Symbol
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import chosen
from xlac_sdk.support.counts import number_of

SIZES = ("specialize", "symbolic")
MOST = 64  # variants of one program, each of which is compiled


def asked(variants: Sequence[Mapping[str, Any]], sizes: str) -> None:
    """Raises SourceError for an unknown value of `sizes`, and for variants of a program that is not
    symbolic.
    """
    chosen("sizes", sizes, SIZES)
    if variants and sizes != "symbolic":
        raise _wrong("variants are parts of one program for all sizes", 'sizes="symbolic" makes it')


def checked(
    variants: Sequence[Mapping[str, Any]], dims: Mapping[str, Symbol]
) -> tuple[dict[str, int], ...]:
    """The sizes of each variant, over the open sizes `dims`. Raises SourceError for an invalid
    variant, and one that can never be selected.
    """
    if len(variants) > MOST:
        raise _wrong(
            f"{number_of(len(variants), 'variant')} are asked for, and a program has at most {MOST}"
        )
    sizes_of_variants: list[dict[str, int]] = []
    for variant in variants:
        if not isinstance(variant, Mapping) or not variant:
            raise _wrong(
                f"a variant names sizes and their values, as batch=1, and this is {variant!r:.80}"
            )
        sizes = {str(name): _value(str(name), value, dims) for name, value in variant.items()}
        earlier = next((one for one in sizes_of_variants if one.items() <= sizes.items()), None)
        if earlier == sizes:
            raise _wrong(f"the variant {_text(sizes)} is asked for twice")
        if earlier is not None:
            raise _wrong(
                f"the variant {_text(sizes)} never runs: {_text(earlier)} takes its calls",
                "give it first",
            )
        sizes_of_variants.append(sizes)
    return tuple(sizes_of_variants)


def _value(name: str, value: Any, dims: Mapping[str, Symbol]) -> int:
    if name not in dims:
        known = ", ".join(dims)
        hint = f"open sizes: {known}" if known else f"leave it open: --dim {name}"
        raise _wrong(f"'{name:.80}' is not an open size", hint)
    symbol = dims[name]
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _wrong(f"{name} = {value!r:.80} is not a size", f"write {name}={symbol.opt}")
    size = int(value.__index__())
    if not symbol.min <= size <= symbol.max or size % symbol.multiple_of:
        by = f" and a multiple of {symbol.multiple_of}" if symbol.multiple_of > 1 else ""
        raise _wrong(f"{name} = {size} is not {symbol.min} to {symbol.max}{by}: no call has it")
    return size


def _text(sizes: Mapping[str, int]) -> str:
    return ",".join(f"{name}={value}" for name, value in sizes.items())


def _wrong(problem: str, hint: str = "") -> SourceError:
    return SourceError(Diagnostic("XL4022", problem, hint=hint))
