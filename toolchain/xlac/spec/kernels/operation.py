"""Makes the node of an operation with hand-written kernels."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from xlac.ir.dims import Dim, Shape, bounds, volume
from xlac.ir.graph import Graph
from xlac.ops.control.custom_op import CustomOp, KernelFile
from xlac.spec.elaborate import arithmetic
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.type_text import size_value, type_parts
from xlac.spec.kernels.files import KernelText
from xlac.spec.report import Fault, nearest
from xlac.spec.schema import schema
from xlac.spec.schema.document import SpecEntry
from xlac.spec.schema.kernels import KernelTolerance
from xlac_sdk.dtypes import DType
from xlac_sdk.languages import LANGUAGES

NAME = re.compile(r"[A-Za-z_]\w*")
MOST_THREADS, MOST_SHARED, MOST_SCRATCH = 1024, 1 << 20, 1 << 40
# relative tolerances where the operation declares none: a few roundings
USUAL = {DType.F64: 1e-13, DType.F32: 1e-5, DType.F16: 4e-3, DType.BF16: 3e-2}


def operation(
    name: str,
    entry: SpecEntry[schema.OpSpec],
    texts: Mapping[str, KernelText],
    body: Graph,
    constants: Constants,
    met: tuple[Mapping[str, Dim], Mapping[str, Shape]],
) -> CustomOp:
    """The operation that calls the kernels. `met` has the sizes and shapes bound to names in the
    declared types. Raises Fault.
    """
    sizes = _sizes(entry, constants, *met)
    known = constants.extended({}, dict(sizes))
    relative, absolute, finite = _tolerance(entry, body)
    batch = entry.spec.batch or ""
    if batch and batch not in dict(sizes):
        raise _no_size(batch, sizes, entry.place.at("batch").span)
    return CustomOp(
        body,
        name,
        tuple(_kernel(name, kernel, known, sizes).row() for kernel in texts.values()),
        sizes,
        _attributes(entry, constants),
        relative,
        absolute,
        finite,
        batch,
    )


def _sizes(
    entry: SpecEntry[schema.OpSpec],
    constants: Constants,
    sizes: Mapping[str, Dim],
    shapes: Mapping[str, Shape],
) -> tuple[tuple[str, Dim], ...]:
    """The named sizes in the order in which the types name them; a shape as its number of
    elements.
    """
    named_sizes: dict[str, Dim] = {}
    for section, types in (("inputs", entry.spec.inputs), ("outputs", entry.spec.outputs)):
        for key, text in types.items():
            _, extents, _ = type_parts(text, constants, entry.place.at(section, key))
            for tree in extents[1] if extents else ():
                if isinstance(tree, ast.Starred):
                    name = tree.value.id if isinstance(tree.value, ast.Name) else "S"
                    if name in shapes:
                        named_sizes.setdefault(name, volume(shapes[name]))
                elif isinstance(tree, ast.Name) and tree.id in sizes:
                    named_sizes.setdefault(tree.id, sizes[tree.id])
    return tuple(named_sizes.items())


def _attributes(
    entry: SpecEntry[schema.OpSpec], constants: Constants
) -> tuple[tuple[str, Any], ...]:
    """The parameters as arguments of a kernel: numbers, and names of element types. One whose
    default is not an integer is a double, whatever its value.
    """
    attributes: list[tuple[str, Any]] = []
    for key, default in entry.spec.params.items():
        value = constants.params[key]
        if isinstance(value, bool | int):
            value = int(value) if isinstance(default, bool | int) else float(value)
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise Fault("XL3031", f"{key} is {value}, beyond 64 bits", _param(entry, key))
        if isinstance(value, str) and value in {d.value for d in DType}:
            value = DType(value)
        if not isinstance(value, int | float | DType):
            problem = f"kernels take numbers and element types, and {key} is neither"
            raise Fault("XL3031", problem, _param(entry, key), "leave out kernels, or this")
        attributes.append((key, value))
    return tuple(attributes)


def _param(entry: SpecEntry[schema.OpSpec], key: str) -> Any:
    return entry.place.at("params", key).span


def _tolerance(entry: SpecEntry[schema.OpSpec], body: Graph) -> tuple[float, float, bool]:
    """The relative and absolute tolerance, as declared or a few roundings of the least precise
    type; and whether only finite numbers are compared.
    """
    given = entry.spec.tolerance
    if isinstance(given, KernelTolerance):
        tolerance = float(given.relative), float(given.absolute)
    elif given is not None:
        tolerance = float(given), 0.0
    else:
        usual = (USUAL.get(node.type.dtype, 0.0) for node in body.outputs.values())
        tolerance = max(usual, default=0.0), 0.0
    if not all(0 <= bound < float("inf") for bound in tolerance):
        place = entry.place.at("tolerance")
        raise Fault("XL3031", "a tolerance is a number that is not negative", place.span)
    return *tolerance, isinstance(given, KernelTolerance) and given.finite


def _kernel(
    name: str, kernel: KernelText, constants: Constants, sizes: tuple[tuple[str, Dim], ...]
) -> KernelFile:
    spec, place = kernel.spec, kernel.place
    function = str(spec.function or name)
    if NAME.fullmatch(function) is None or not function.isascii():
        at = place.at("function").span if spec.function else place.span
        problem = f"{function!r} is not the name of a function"
        raise Fault("XL3031", problem, at, "say `function:` beside `file:`")
    split = str(spec.split or "")
    if split and split not in dict(sizes):
        raise _no_size(split, sizes, place.at("split").span)

    others = ("split",) if LANGUAGES[kernel.language].launched else ("blocks", "threads", "shared")
    for field in others:
        if field in spec.model_fields_set:
            what = "GPUs" if LANGUAGES[kernel.language].launched else "CPUs"
            problem = f"{field} says nothing of a kernel for {what}"
            raise Fault("XL3031", problem, place.at(field).key, "leave it out")

    def number(field: str, least: int, most: int) -> Dim:
        at = place.at(field)
        given = arithmetic.value(getattr(spec, field), constants, at)
        if field not in spec.model_fields_set:
            return int(given)
        value = size_value(given, at)
        if isinstance(value, int) and not least <= value <= most:
            problem = f"{field} is {value}, and must be {least} to {most}"
            raise Fault("XL3031", problem, at.span)
        if not isinstance(value, int) and bounds(value)[0] < least:
            problem = f"{field} is {value}, which may be {bounds(value)[0]}: less than {least}"
            raise Fault("XL3031", problem, at.span, "raise the least size (`min`), or add to it")
        return value

    def fixed(field: str, least: int, most: int) -> int:
        value = number(field, least, most)
        if not isinstance(value, int):
            raise Fault("XL3031", f"{field} is a number known at build time", place.at(field).span)
        return value

    return KernelFile(
        kernel.target,
        kernel.language,
        kernel.path.name,
        f"{place.span.file.name}:{place.span.line}:{place.span.column}",
        function,
        kernel.text,
        # a formula that is 0 for some sizes is an argument there, too: a function has one signature
        number("scratch", 0, MOST_SCRATCH) + (1 if isinstance(spec.scratch, str) else 0),
        split,
        number("blocks", 1, (1 << 31) - 1),
        fixed("threads", 1, MOST_THREADS),
        fixed("shared", 0, MOST_SHARED),
    )


def _no_size(name: str, sizes: tuple[tuple[str, Dim], ...], span: Any) -> Fault:
    known = [key for key, _ in sizes]
    return Fault("XL3031", f"the types name no size {name!r}", span, nearest(name, known))
