"""Generates the reference of operations from their declarations: `python -m xlac.ops.reference`
writes docs/OPS.md.
"""

from __future__ import annotations

import re
import sys
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from inspect import cleandoc
from typing import Any

import numpy as np

from xlac.ir.composite import Composite
from xlac.ir.graph import Graph
from xlac.ir.op import OPS, Array, Elementwise, Op, Sample
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType

TITLES = {
    "leaf": "Sources", "arithmetic exponential comparison": "Scalar primitives",
    "convert": "Conversions",
    "view extend": "Views", "gather scatter dynamic_slice": "Gather and scatter",
    "reduction window window_choice cumulative": "Reductions and windows",
    "contraction conv": "Dot and convolution", "order": "Sorting",
    "control bounded custom_gradient custom_op": "Control flow", "effect": "Effects",
    "dynamic": "Sizes known later", "native": "More scalar functions",
    "elementary trigonometric": "Elementary functions", "special gamma": "Special functions",
    "logic": "Comparisons and logic", "activation gating": "Activations",
    "named_reductions statistics extremes": "Statistics", "probability": "Softmax",
    "linear einsum": "Matrix products", "rounding": "Rounding",
    "triangular_solve cholesky lu lu_solve solve inv det slogdet lstsq": "Linear systems",
    "householder qr eigh svd eig reduced_forms": "Orthogonal factors, eigenvalues",
    "expm": "Functions of matrices",
    "fft real_fft dct": "Fourier transforms",
    "minifloat_codes": "Floats of 8 bits and fewer",
    "convolution transposed_convolution": "Convolutions", "pooling adaptive_pooling": "Pooling",
    "batch_normalization normalization response_norm": "Normalization",
    "attention attention_derivatives cached_attention rotary": "Attention",
    "recurrent": "Recurrent cells",
    "shard sums exchanges ranks manual": "Among the ranks of a mesh",
    "arrange": "Rearranging", "reorder": "Repeating, turning, padding",
    "choose masks": "Choosing by index", "place": "Placing by index",
    "ranking": "Order and running combinations", "create": "Creating", "resize": "Resizing",
    "grid": "Reading between elements", "loss class_loss": "Losses",
}  # fmt: skip
"""Titles of the files with declarations, in the order of the reference."""


def markdown() -> str:
    """All operations, by family."""
    declared: dict[str, list[type[Op]]] = {}
    for op in OPS.values():
        declared.setdefault(op.__module__.rpartition(".")[2], []).append(op)
    families = {files: [op for file in files.split() for op in declared[file]] for files in TITLES}
    primitives = sum(not issubclass(op, Composite) for op in OPS.values())
    lines = [
        "# Operations",
        "",
        (
            f"{len(OPS)} operations: {primitives} primitives, and {len(OPS) - primitives} "
            "composites "
            "that are made of them."
        ),
        "Generated from the declarations by `python -m xlac.ops.reference`; do not edit.",
        "",
    ]
    lines += [
        (
            f"- [{TITLES[name]}](#{anchor(TITLES[name])}): "
            f"{', '.join(f'`{op.mnemonic}`' for op in ops)}"
        )
        for name, ops in families.items()
        if ops
    ]
    for name, ops in families.items():
        if ops:
            lines += ["", f"## {TITLES[name]}", ""]
            lines += ["\n\n".join(f"### {describe(op, '####')}" for op in ops)]
    return "\n".join(lines) + "\n"


def anchor(title: str) -> str:
    """The anchor of a heading, for links."""
    return re.sub(r"[^a-z0-9-]", "", title.lower().replace(" ", "-"))


def describe(op: type[Op], mark: str = "") -> str:
    """One operation: its name, documentation, operands, attributes, learned tensors and an example
    of its types.
    """
    lines = [
        f"{'`' if mark else ''}{op.mnemonic}{'`' if mark else ''}",
        "",
        cleandoc(op.__doc__ or ""),
        "",
    ]
    lines.append(f"- kind: {kind(op)}")
    lines.append(f"- operands: {', '.join(map(operand, op.operands)) or 'none'}")
    attributes = [f"  - `{name}`: {text}" for name, text in attribute_texts(op).items()]
    lines += ["- attributes:", *attributes] if attributes else ["- attributes: none"]
    if op.parameters is not Op.parameters and (tensors := learned(op)):
        lines += [
            "- learned, after the operands:",
            *(f"  - `{name}`: {type}" for name, type in tensors.items()),
        ]
    if (example := example_of(op)) is not None:
        lines.append(f"- example: {example}")
    return "\n".join(lines)


def kind(op: type[Op]) -> str:
    """Whether an operation is a primitive or a composite, for the reference."""
    text = "composite" if issubclass(op, Composite) else "primitive"
    return f"{text}, elementwise" if issubclass(op, Elementwise) else text


def operand(name: str) -> str:
    """An operand as the reference shows it."""
    if name.startswith("*"):
        return f"`{name[1:]}` (any number)"
    return f"`{name[:-1]}` (optional)" if name.endswith("?") else f"`{name}`"


def attribute_texts(op: type[Op]) -> dict[str, str]:
    """The type and default of each attribute."""
    hints = typing.get_type_hints(op)
    texts = {}
    for f in fields(op):
        default = (
            f.default
            if f.default is not MISSING
            else f.default_factory()
            if f.default_factory is not MISSING
            else MISSING
        )
        text = type_text(hints[f.name])
        texts[f.name] = text if default is MISSING else f"{text} = {value_text(default)}"
    return texts


def type_text(hint: Any) -> str:
    """The type of an attribute in the terms of a spec."""
    if hint == Array:
        return "array"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return " \\| ".join(f"`{a}`" for a in args)
    if args and origin is not tuple:
        parts = [type_text(a) for a in args if a is not type(None)]
        return " or ".join(dict.fromkeys(p for p in parts if p != "size" or "number" not in parts))
    if origin is tuple:
        if args[-1] is Ellipsis:
            return f"list of {type_text(args[0])}"
        return f"({', '.join(type_text(a) for a in args)})"
    names = {
        int: "integer",
        float: "number",
        bool: "bool",
        str: "text",
        DType: "element type",
        Graph: "graph",
        Type: "type",
        type(None): "nothing",
    }
    return names.get(hint, "size" if getattr(hint, "__name__", "") == "Sym" else "value")


def value_text(value: Any) -> str:
    """The default of an attribute as the reference shows it."""
    match value:
        case None:
            return "none"
        case bool():
            return f"`{str(value).lower()}`"
        case DType() | Type():
            return f"`{value}`"
        case Graph():
            return f"`{value.name}`"
        case np.ndarray():
            return f"`{value.tolist()}`"
        case float():
            return f"`{value:.10g}`"
        case tuple():
            return f"`{list(value)}`"
    return f"`{value}`"


def learned(op: type[Op]) -> Mapping[str, Type]:
    """The learned tensors in an example."""
    sample = first(op)
    if sample is None:
        return {}
    operation = op(**sample.attributes)
    for count in range(len(sample.inputs), 0, -1):
        try:
            tensors = operation.parameters(*sample.inputs[:count])
        except (ValueError, TypeError, IndexError):
            continue
        if len(tensors) + count == len(sample.inputs):
            return tensors
    return {}


def first(op: type[Op]) -> Sample | None:
    """The first sample that is a good example."""
    samples = op.samples()
    telling = [
        s
        for s in samples
        if all(0 not in t.shape for t in s.inputs) and any(t.rank > 1 for t in s.inputs)
    ]
    return next(iter(telling or samples), None)


def example_of(op: type[Op]) -> str | None:
    """One sample with the types of its results."""
    sample = first(op)
    if sample is None:
        return None
    result = op(**sample.attributes).infer(*sample.inputs)
    given = "".join(
        f" {name}={value_text(value).strip('`')}" for name, value in sample.attributes.items()
    )
    types = ", ".join(map(str, sample.inputs))
    return (
        f"`{op.mnemonic}({types}){given}` gives "
        f"`{result if isinstance(result, Type) else ', '.join(map(str, result))}`"
    )


if __name__ == "__main__":
    sys.stdout.write(markdown())
