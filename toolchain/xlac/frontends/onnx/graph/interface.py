"""Inputs and outputs of an ONNX model as callers see them: tensors; sequences and optionals are
passed as their items.

An item is named after its container: the first tensor of a sequence `images` is `images.0`, the
content of an optional `mask` is `mask.0`.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlac.frontends.onnx.file.dtypes import CODED, DTYPES
from xlac.frontends.onnx.file.tensors import type_name
from xlac.frontends.onnx.graph.values import Coded, Optional, Ragged, Sequence, Value
from xlac.frontends.onnx.problems import check_text
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, Origin, SourceError

Form = str | list["Form"] | None
"""The structure of an output: the name of a tensor, a list of such structures, or None."""


@dataclass(slots=True)
class Inputs:
    """Creates the graph's inputs; those that `params` fixes become constants."""

    params: Mapping[str, Any]
    symbols: MutableMapping[str, Dim]
    nodes: list[Node] = field(default_factory=list)  # the parameters, in order
    formed: set[str] = field(default_factory=set)  # sequences and optionals
    undecided: bool = False  # whether the caller must still say what a sequence or optional holds

    def value(self, info: Any) -> Value | None:
        """The value of an input; None for a sequence or optional whose items are not given yet.
        Raises SourceError.
        """
        kind = info.type.WhichOneof("value")
        if kind in ("sequence_type", "optional_type"):
            self.formed.add(info.name)
            if info.name in self.params:
                return self._formed(info.name, info.type, self.params[info.name])
            self.undecided = True
            return None
        dtype, code = element_type(info.name, info.type)
        if info.name in self.params:
            node = build.constant(np.asarray(self.params[info.name]), dtype)
        else:
            node = self._param(info.name, Type(dtype, self._shape(info)))
        return Coded(node, code) if code else node

    def _param(self, name: str, type: Type) -> Node:
        node = build.param(name, type.dtype, type.shape, origin=Origin(name))
        self.nodes.append(node)
        return node

    def _shape(self, info: Any) -> tuple[Dim, ...]:
        tensor = info.type.tensor_type
        if not tensor.HasField("shape"):
            raise SourceError(Diagnostic("XL7005", f"input '{info.name}' has no rank"))
        shape: list[Dim] = []
        for axis, dim in enumerate(tensor.shape.dim):
            if dim.HasField("dim_value"):
                if not 0 <= dim.dim_value < 1 << 48:
                    raise SourceError(
                        Diagnostic(
                            "XL7005", f"input '{info.name}' has size {dim.dim_value} at axis {axis}"
                        )
                    )
                shape.append(dim.dim_value)
            else:
                check_text(dim.dim_param)
                shape.append(self.symbols[dim.dim_param or f"{info.name}.{axis}"])
        return tuple(shape)

    def _formed(self, name: str, kind: Any, given: Any) -> Value:
        """A sequence or optional whose items are given as types, which become parameters, or as
        arrays, which become constants.
        """
        which = kind.WhichOneof("value")
        if which == "sequence_type":
            if not isinstance(given, list | tuple):
                raise SourceError(
                    Diagnostic("XL6001", f"input '{name}' is a sequence: give it a list")
                )
            inner = kind.sequence_type.elem_type
            return Sequence(
                tuple(self._formed(f"{name}.{n}", inner, part) for n, part in enumerate(given))
            )
        if which == "optional_type":
            if given is None:
                return Optional(None)
            inner = kind.optional_type.elem_type
            part = f"{name}.0" if inner.WhichOneof("value") == "tensor_type" else name
            return Optional(self._formed(part, inner, given))
        dtype, code = element_type(name, kind)
        given = self.params.get(name, given)
        node = (
            self._param(name, given)
            if isinstance(given, Type)
            else build.constant(np.asarray(given), dtype)
        )
        if node.type.dtype is not dtype:
            raise SourceError(
                Diagnostic("XL6002", f"input '{name}' must be {dtype}, not {node.type.dtype}")
            )
        return Coded(node, code) if code else node


def element_type(name: str, kind: Any) -> tuple[DType, str]:
    """Element type and code format that a TypeProto declares for a tensor. Raises SourceError."""
    if kind.WhichOneof("value") != "tensor_type":
        form = kind.WhichOneof("value") or "of no type"
        raise SourceError(
            Diagnostic(
                "XL7005",
                f"input '{name}' is {form}: tensors, sequences and optionals are passed in",
            )
        )
    number = kind.tensor_type.elem_type
    if number in CODED:
        return CODED[number][1], CODED[number][0]
    if number not in DTYPES:
        raise SourceError(
            Diagnostic("XL7005", f"input '{name}' has element type {type_name(number)}")
        )
    return DTYPES[number], ""


@dataclass(slots=True)
class Outputs:
    """Collects the graph's outputs."""

    nodes: dict[str, Node] = field(default_factory=dict)
    extents: dict[str, dict[int, str]] = field(default_factory=dict)
    forms: dict[str, Form] = field(default_factory=dict)

    @property
    def formed(self) -> bool:
        """Whether any output is not a single tensor."""
        return any(form != name for name, form in self.forms.items())

    def add(self, name: str, value: Value) -> None:
        """Adds an output of any kind."""
        self.forms[name] = self._form(name, value)

    def _form(self, name: str, value: Value) -> Form:
        match value:
            case Sequence():
                return [self._form(f"{name}.{n}", item) for n, item in enumerate(value.items)]
            case Optional():
                return None if value.held is None else self._form(f"{name}.0", value.held)
            case Ragged():
                self.nodes[name] = value.node
                self.extents[name] = {axis: f"{name}.size{axis}" for axis, _ in value.counts}
                self.nodes |= {f"{name}.size{axis}": count for axis, count in value.counts}
            case Coded():
                self.nodes[name] = value.node
            case Node():
                self.nodes[name] = value
        return name
