"""What the names of an ONNX graph stand for while it is imported."""

from __future__ import annotations

from dataclasses import dataclass

from xlac.ir.graph import Node


@dataclass(frozen=True, slots=True)
class Coded:
    """A tensor whose element type is narrower than any of ours: `node` holds its codes, one in each u8 or i8.

    `format` is the name of the type: float8e4m3fn, float8e5m2, float4e2m1, uint4, int4, uint2, int2, …
    """

    node: Node
    format: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """An ONNX sequence: its length is known when the model is imported."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Optional:
    """An ONNX optional: whether it holds something is known when the model is imported."""

    held: Value | None


Value = Node | Coded | Sequence | Optional
