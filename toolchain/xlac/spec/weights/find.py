"""Finds the data of all learned tensors: in files, or by initialization from a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

from xlac.ir.dims import Sym
from xlac.ir.graph import Node
from xlac.ir.lazy_arrays import LazyArrays
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.spec.elaborate import type_text
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.report import Fault, Place, Report, nearest
from xlac.spec.schema import weights
from xlac.spec.weights.initial import draw, scheme_of
from xlac.spec.weights.stored import Stored, described, elements
from xlac.spec.weights.tensor_files import TensorFile
from xlac_sdk.dtypes import DType
from xlac_sdk.support.counts import number_of

MAX_LISTED = 20
NARROWER = {DType.F64: (DType.F32, DType.F16, DType.BF16), DType.F32: (DType.F16, DType.BF16)}
"""Float types whose values a wider type represents exactly."""


def find(wanted: Mapping[str, Node], stored: Stored, constants: Constants) -> LazyArrays:
    """The data of the tensors `wanted`. Missing, extra and unfitting ones are reported, all at
    once.
    """
    entry, report = stored.entry, stored.report
    if entry is None:
        if wanted:
            first = next(iter(wanted.values()))
            some = ", ".join(list(wanted)[:3]) + (", …" if len(wanted) > 3 else "")
            report.add(
                "XL3003",
                f"the model learns {number_of(len(wanted), 'tensor')} ({some}), "
                "and the spec gives no weights",
                first.origin.span if first.origin else None,
                "weights: model.safetensors, or weights: {init: {seed: 0}}",
            )
        return LazyArrays({})
    place = entry.place
    spec = stored.spec
    at = place.at("file") if isinstance(entry.spec, weights.WeightsSpec) else place
    if spec.file is None and spec.init is None:
        report.add("XL3003", "weights gives neither a file nor init", place.key)
        return LazyArrays({})
    check_declared(spec, wanted, constants, place, report)
    before = len(report.diagnostics)
    names = stored.names
    if spec.rename and len(report.diagnostics) > before:
        return LazyArrays({})
    makers: dict[str, Callable[[], Array]] = {}
    missing: list[str] = []
    for name, node in wanted.items():
        if name in names:
            file, old = names[name]
            if fits(file, old, name, node, at, report, spec.widen):
                makers[name] = _read(file, old, node.type)
        elif spec.init is not None:
            if not drawable(name, node, place, report):
                continue
            makers[name] = _drawn(name, node.type, spec.init)
        elif stored.readable:
            missing.append(name)
    if stored.readable:
        extra = [n for n in names if n not in wanted and n not in stored.constants]
        listed(missing, wanted, not_ignored(extra, spec.ignore, place, report), at, report)
    if spec.init is not None:
        dead_patterns(spec.init, wanted, place, report)
    return LazyArrays(makers)


def _read(file: TensorFile, name: str, type: Type) -> Callable[[], Array]:
    def make() -> Array:
        array = elements(file, name)
        if array.dtype == type.dtype.numpy:
            return array
        wider = array.astype(type.dtype.numpy)
        wider.flags.writeable = False
        return wider

    return make


def _drawn(name: str, type: Type, init: weights.InitSpec) -> Callable[[], Array]:
    def make() -> Array:
        return draw(name, type, init.seed, scheme_of(name, type, init))

    return make


def drawable(name: str, node: Node, place: Place, report: Report) -> bool:
    """Whether a tensor can be initialized, as its sizes are known; otherwise that is reported."""
    if any(isinstance(d, Sym) for d in node.shape):
        report.add(
            "XL3006",
            f"tensor {name!r} of type {node.type} has a symbolic size and cannot be drawn",
            node.origin.span if node.origin else place.key,
        )
        return False
    return True


def fits(
    file: TensorFile, old: str, name: str, node: Node, at: Place, report: Report, widen: bool
) -> bool:
    """Whether a tensor of a file has the type that the model needs or, where `widen` permits it, a
    narrower float type.
    """
    tensor, wanted = file.tensors[old], node.type
    named = name if name == old else f"{name} ({old} in the file)"
    wider = tensor.dtype in NARROWER.get(wanted.dtype, ())
    if tensor.shape != wanted.shape or (tensor.dtype is not wanted.dtype and not (widen and wider)):
        hint = (
            "weights: {file: …, widen: true} reads it as the wider type"
            if wider and tensor.shape == wanted.shape
            else ""
        )
        report.add(
            "XL3006",
            f"tensor {named} is {described(tensor)} in {file.path.name}, and the model needs "
            f"{wanted}",
            node.origin.span if node.origin else at.span,
            hint,
        )
        return False
    return True


def not_ignored(extra: list[str], patterns: list[str], place: Place, report: Report) -> list[str]:
    """The tensors that the model does not use and that no pattern permits; a pattern that matches
    none is reported.
    """
    for i, pattern in enumerate(patterns):
        if not any(fnmatchcase(name, pattern) for name in extra):
            report.add(
                "XL3011",
                f"this pattern fits no tensor that the model does not use: {pattern!r}",
                place.at("ignore", i).span,
                nearest(pattern, extra),
            )
    return [name for name in extra if not any(fnmatchcase(name, pattern) for pattern in patterns)]


def listed(
    missing: list[str], wanted: Mapping[str, Node], extra: list[str], at: Place, report: Report
) -> None:
    """Reports tensors that the files lack, and unused ones."""
    for name in missing[:MAX_LISTED]:
        node = wanted[name]
        report.add(
            "XL3005",
            f"missing tensor {name}: {node.type}",
            node.origin.span if node.origin else at.span,
            nearest(name, extra) if len(extra) > 8 or not extra else _similar(name, extra),
        )
    if len(missing) > MAX_LISTED:
        report.add("XL3005", f"and {len(missing) - MAX_LISTED} more missing tensors", at.span)
    if extra:
        names = ", ".join(sorted(extra)[:MAX_LISTED]) + (", …" if len(extra) > MAX_LISTED else "")
        plural = "s" if len(extra) > 1 else ""
        report.add(
            "XL3007",
            f"{len(extra)} tensor{plural} of the file that the model does not use: {names}",
            at.span,
            "rename them, or let weights ignore them: ignore: [PATTERN]",
        )


def _similar(name: str, extra: list[str]) -> str:
    hint = nearest(name, extra)
    return hint if hint.startswith("did") else ""


def check_declared(
    spec: weights.WeightsSpec,
    wanted: Mapping[str, Node],
    constants: Constants,
    place: Place,
    report: Report,
) -> None:
    """Compares the types given under `tensors` with those that the model needs."""
    for name, text in spec.tensors.items():
        at = place.at("tensors", name)
        if name not in wanted:
            report.add("XL3005", f"the model has no weight {name!r}", at.key, nearest(name, wanted))
            continue
        try:
            declared = type_text.type_value(text, constants, at)
        except Fault as fault:
            report.fault(fault)
            continue
        if declared != wanted[name].type:
            report.add(
                "XL2013",
                f"{name} is declared {declared}, and the model needs {wanted[name].type}",
                at.span,
            )


def dead_patterns(
    init: weights.InitSpec, wanted: Mapping[str, Node], place: Place, report: Report
) -> None:
    """Reports patterns of `init` that match no tensor."""
    for pattern in init.tensors:
        if not any(fnmatchcase(name, pattern) for name in wanted):
            report.add(
                "XL3011",
                f"this pattern fits no tensor: {pattern!r}",
                place.at("init", "tensors", pattern).key,
                nearest(pattern, wanted),
            )
