"""Writes attributes and constants of a spec, exact to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.ir.dims import Sym
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, Op, ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.scalar import comparison, primitive
from xlac.ops.tensor.view import Slice
from xlac.spec.elaborate import attributes
from xlac.spec.text.write import type_text
from xlac_sdk.dtypes import DType

SHOWN = ("shape", "dtype", "perm", "axes")  # written even where they have their default


def plain(value: Any) -> Any:
    """An attribute as plain data for YAML."""
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, Sym):
        return f"${{{value}}}"
    if isinstance(value, DType):
        return str(value)
    if isinstance(value, Type):
        return type_text(value)
    if isinstance(value, str):
        return value.replace("$", "$$")
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float):
        return value
    raise TypeError(f"a spec has no text for {value!r}")


def attributes_of(op: Op, exact: bool = False) -> dict[str, Any]:
    """The attributes that differ from their defaults, in the form that the spec's reader takes.
    Graphs are omitted.
    """
    fields = attributes.adapter(type(op), exact).model_fields.values()
    defaults = {f.alias: f.default for f in fields if f.alias and hasattr(op, f.alias)}
    differing = {
        name: getattr(op, name)
        for name, default in defaults.items()
        if name in SHOWN or not _same(getattr(op, name), default)
    }
    if isinstance(op, Slice) and not exact:
        differing["stops"] = tuple(
            None if k < 0 and s == -1 else s for s, k in zip(op.stops, op.steps, strict=True)
        )
        if all(k == 1 for k in op.steps):
            differing.pop("steps", None)
    return {
        name: value
        for name, value in differing.items()
        if value is not None or defaults[name] is not None
    }


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def is_short(node: Node, operands: Sequence[build.Value]) -> bool:
    """Whether the operation applied by name to these operands builds exactly this node, up to equal
    new operands.
    """
    try:
        rebuilt = build.apply(node.op.mnemonic, *operands, **attributes_of(node.op))
    except (ShapeError, ValueError, TypeError):
        return False
    return (
        isinstance(rebuilt, Node)
        and rebuilt.op == node.op
        and rebuilt.types == node.types
        and len(rebuilt.inputs) == len(node.inputs)
        and all(_alike(a, b) for a, b in zip(rebuilt.inputs, node.inputs, strict=True))
    )


def _alike(a: Node, b: Node) -> bool:
    if a is b:
        return True
    if a.op != b.op or a.types != b.types or a.op.mnemonic not in ("const", "broadcast"):
        return False
    return all(_alike(x, y) for x, y in zip(a.inputs, b.inputs, strict=True))


def adapts(op: Op) -> bool:
    """Whether an operation applied by name may convert its operands, or build no node at all."""
    return (
        op.mnemonic in build.FORMS
        or isinstance(op, primitive.Scalar | comparison.Compare)
        or hasattr(op, "prepare")
    )


def body_of(op: Op) -> Graph | None:
    """The graph that an operation keeps in its attribute `body`."""
    body = getattr(op, "body", None)
    return body if isinstance(body, Graph) else None


# ---- constants -------------------------------------------------------------------------------


class HexBits(int):
    """A number written in hexadecimal."""

    def __str__(self) -> str:
        return hex(self)


def constant(value: Array) -> dict[str, Any]:
    """The keys of a constant that is written inline."""
    # ascontiguousarray turns a scalar into a vector
    value = np.ascontiguousarray(value).reshape(value.shape)
    type = Type(DType.of(value.dtype), value.shape)
    bits = value.reshape(-1).view(f"u{value.dtype.itemsize}")
    if value.size == 0:
        return {"type": type_text(type), "value": []}
    uniform = bool((bits == bits[0]).all()) and value.ndim > 0
    numbers = shortest(value.reshape(-1)[:1] if uniform else value.reshape(-1), type.dtype)
    if numbers is None:
        return {
            "type": type_text(type),
            "bits": np.vectorize(HexBits, otypes=[object])(bits.reshape(value.shape)).tolist(),
        }
    if uniform:
        return {"type": type_text(type), "value": numbers[0]}
    return {
        "value": np.array(numbers, dtype=object).reshape(value.shape).tolist(),
        "dtype": str(type.dtype),
    }


def shortest(values: Array, dtype: DType) -> list[Any] | None:
    """Numbers that read back as these elements, to the bit; None for a NaN whose bits no number
    has.
    """
    if not dtype.is_float:
        elements: list[Any] = values.tolist()
        return elements
    for numbers in ([float(str(v)) for v in values], [float(repr(float(v))) for v in values]):
        if _read(np.array(numbers), dtype).tobytes() == values.tobytes():
            return numbers
    return None


def _read(numbers: Array, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        rounded: Array = numbers.astype(dtype.compute.numpy).astype(dtype.numpy)
    return rounded


def number(node: Node) -> int | float | None:
    """A scalar constant as a literal operand; None where it needs an entry of its own."""
    value = getattr(node.op, "value", None)
    if not isinstance(value, np.ndarray) or value.shape != () or value.dtype == np.bool_:
        return None
    numbers = shortest(value.reshape(1), DType.of(value.dtype))
    return None if numbers is None else numbers[0]
