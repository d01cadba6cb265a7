"""The caller's settings: symbolic sizes, fixed or narrowed, and parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xlac.ir import ranges
from xlac.ir.dims import UNBOUNDED, Dim, Sym, Symbol
from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.report import Fault, Place, Poisoned, Report, nearest
from xlac.spec.schema import interface
from xlac.spec.schema.document import Merged, SpecEntry

DimValue = int | str | tuple[int, int] | Symbol


def read_dims(
    merged: Merged, given: Mapping[str, DimValue], report: Report
) -> tuple[dict[str, Dim], dict[str, Symbol]]:
    """Sizes by name, and the symbols still open."""
    sizes: dict[str, Dim] = {}
    symbols: dict[str, Symbol] = {}
    for name in given:
        if name not in merged.dims:
            report.add(
                "XL2014", f"there is no size {name!r} to set", None, nearest(name, merged.dims)
            )
    for name, entry in merged.dims.items():
        try:
            size = declared_dim(name, entry)
            open_or_known: int | Symbol = size
            if name in given:
                open_or_known = narrowed(name, size, given[name], entry.place)
            if isinstance(open_or_known, int):
                sizes[name] = open_or_known
            else:
                symbols[name] = open_or_known
                sizes[name] = Sym((((open_or_known,), 1),))
        except Fault as fault:
            report.fault(fault)
            sizes[name] = 1
    return sizes, symbols


def declared_dim(name: str, entry: SpecEntry[Any]) -> int | Symbol:
    """A size as declared in the spec. Raises Fault."""
    place, spec = entry.place, entry.spec
    if spec is None:
        spec = interface.DimSpec()
    if not isinstance(spec, interface.DimSpec):
        return _count(spec, place, 0)
    low = _count(spec.min, place.at("min"), 0)
    most = UNBOUNDED if spec.max is None else _count(spec.max, place.at("max"), 0)
    by = _count(spec.multiple_of, place.at("multiple_of"), 1)
    if most < low:
        raise Fault(
            "XL2014", f"max {most} of {name!r} is less than min {low}", place.at("max").span
        )
    first = -(-low // by) * by
    if first > most:
        raise Fault(
            "XL2014",
            f"no multiple of {by} lies between {low} and {most}",
            place.at("multiple_of").span,
        )
    if spec.opt is None:
        opt = most // by * by if most < UNBOUNDED else max(first, by)
    else:
        opt = _count(spec.opt, place.at("opt"), 0)
        if not low <= opt <= most or opt % by:
            raise Fault(
                "XL2014",
                f"opt {opt} of {name!r} is not {_range(low, most, by)}",
                place.at("opt").span,
            )
    return Symbol(name, low, most, opt, by)


def _count(value: Any, place: Place, least: int) -> int:
    if isinstance(value, str):
        raise Fault("XL2014", "bounds of sizes are plain numbers", place.span)
    if not least <= value <= UNBOUNDED:
        raise Fault(
            "XL2014", f"a bound is {least} to {UNBOUNDED:,}, and this is {value:,}", place.span
        )
    return int(value)


def _range(low: int, most: int, by: int) -> str:
    text = f"{low} to {most:,}" if most < UNBOUNDED else f"at least {low}"
    return text + (f" and a multiple of {by}" if by > 1 else "")


def _ends(declared: int | Symbol) -> tuple[int, int]:
    return (declared, declared) if isinstance(declared, int) else (declared.min, declared.max)


def narrowed(name: str, declared: int | Symbol, given: DimValue, place: Place) -> int | Symbol:
    """A size as fixed or narrowed by the caller. Raises Fault."""
    if isinstance(given, Symbol):
        low, high = given.min, given.max
    elif isinstance(given, tuple):
        low, high = given
    elif isinstance(given, int):
        low = high = given
    elif ends := ranges.read(str(given), *_ends(declared)):
        low, high = ends
    else:
        raise Fault(
            "XL2014", f"{given!r} is not a size for {name!r}", place.key, "write 8, or 1..8"
        )
    if isinstance(declared, int):
        if low == high:
            return low
        raise Fault(
            "XL2014",
            f"{name!r} is the number {declared}, and cannot be a range",
            place.key,
            "declare it as {min: …, max: …}",
        )
    if high < low:
        raise Fault("XL2014", f"the range {low}..{high} of {name!r} is empty", place.key)
    by = declared.multiple_of
    wrong = next(
        (v for v in dict.fromkeys((low, high)) if not declared.min <= v <= declared.max), None
    )
    if wrong is None and low == high and low % by:
        wrong = low
    if wrong is not None:
        raise Fault(
            "XL2014", f"{name} = {wrong} is not {_range(declared.min, declared.max, by)}", place.key
        )
    if low == high:
        return low
    if -(-low // by) * by > high:
        raise Fault("XL2014", f"no multiple of {by} lies between {low} and {high}", place.key)
    opt = min(max(declared.opt, low), high) // by * by
    return replace(declared, min=low, max=high, opt=opt if opt >= low else high // by * by)


def read_params(
    merged: Merged, given: Mapping[str, Any], sizes: Mapping[str, Dim], report: Report
) -> dict[str, Any]:
    """The values of the spec's parameters, each of which may be computed from earlier ones."""
    for name in given:
        if name not in merged.params:
            report.add(
                "XL2015",
                f"there is no parameter {name!r} to set",
                None,
                nearest(name, merged.params),
            )
    values: dict[str, Any] = {}
    for name, entry in merged.params.items():
        default = entry.spec
        if name in merged.dims:
            report.add("XL1021", f"{name!r} is a size and a parameter", entry.place.key)
        if name in given and (default is None or _alike(default, given[name])):
            values[name] = given[name]
            continue
        if name in given:
            report.add(
                "XL2015",
                f"{name} is set to {given[name]!r}, and the spec's value is {default!r}",
                entry.place.span,
                "give it a value of the same kind",
            )
        if default is None:
            report.add(
                "XL2016",
                f"parameter {name!r} has no value",
                entry.place.key,
                f"give it with --set {name}=…",
            )
            values[name] = 1
        else:
            try:
                values[name] = arithmetic.value(
                    default, Constants(values, sizes, {*merged.params}), entry.place
                )
            except Fault as fault:
                report.fault(fault)
                values[name] = 1
            except Poisoned:
                report.add(
                    "XL2003",
                    f"parameter {name!r} reads one that is declared later",
                    entry.place.span,
                )
                values[name] = 1
    return values


def _alike(default: Any, value: Any) -> bool:
    if isinstance(default, str) and "$" in default:
        return True
    number = (int, float)
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, number) and isinstance(value, number):
        return isinstance(default, float) or isinstance(value, int)
    return isinstance(value, type(default))
