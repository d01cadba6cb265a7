"""Attributes of operations, checked by pydantic against their declarations, with one adapter per
operation.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Union

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic_core import PydanticCustomError

from xlac.ir.dims import Sym
from xlac.ir.graph import Graph
from xlac.ir.op import Op
from xlac.ir.types import Type
from xlac.ops.build import FORMS
from xlac.spec.schema.fields import shown
from xlac_sdk.dtypes import DType


def _dim(value: Any) -> Any:
    if isinstance(value, Sym) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise PydanticCustomError("kind", "expected a size")


def _dtype(value: Any) -> Any:
    if isinstance(value, DType):
        return value
    try:
        return DType(value)
    except ValueError:
        raise PydanticCustomError("kind", "expected an element type such as f32 or i64") from None


DimField = Annotated[Any, BeforeValidator(_dim), WithJsonSchema({"type": "integer"})]


def _type(value: Any) -> Any:
    if isinstance(value, Type):
        return value
    raise PydanticCustomError("kind", "expected a type such as f32[batch, 64]")


TypeField = Annotated[Any, BeforeValidator(_type), WithJsonSchema({"type": "string"})]
DTypeField = Annotated[
    Any, BeforeValidator(_dtype), WithJsonSchema({"enum": [d.value for d in DType]})
]
_NOT_IN_TEXT = (Graph, np.ndarray, Op)  # attributes that specs give in another way, or cannot give


def _field(annotation: Any) -> Any:
    """The annotation that validates text, or None where a spec cannot give the attribute."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is DType:
        return DTypeField
    if annotation is Sym:
        return DimField
    if annotation is Type:
        return TypeField
    if origin in (Union, types.UnionType):
        kept = [field for a in args if a is not Sym if (field := _field(a)) is not None]
        if Sym in args:
            kept = [DimField, *(k for k in kept if k is not int)]
        if not [k for k in kept if k is not type(None)]:
            return None
        return Union[tuple(kept)]  # noqa: UP007
    if origin is Annotated:
        inner = _field(args[0])
        return None if inner is None else Annotated[inner, *args[1:]]
    if origin is Sequence:
        inner = _field(args[0])
        return None if inner is None else tuple[inner, ...]  # type: ignore[valid-type]
    if origin is tuple:
        parts = [a if a is Ellipsis else _field(a) for a in args]
        return None if None in parts else tuple[tuple(parts)]  # type: ignore[misc]
    if isinstance(origin or annotation, type) and issubclass(origin or annotation, _NOT_IN_TEXT):
        return None
    return annotation


@cache
def adapter(op: type[Op], exact: bool = False) -> type[BaseModel]:
    """A pydantic model of the attributes of an operation that a spec may give.

    With `exact` they are those that the graph holds, without the shorter forms that users may
    write.
    """
    hints = typing.get_type_hints(op, include_extras=True)
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(op):
        defaults[field.name] = field.default
        if field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    if op.mnemonic in FORMS and not exact:  # users may write a shorter form than the graph holds
        form = FORMS[op.mnemonic]
        short = typing.get_type_hints(form, include_extras=True)
        operands = {name.strip("?*") for name in op.operands}
        for parameter in inspect.signature(form).parameters.values():
            if parameter.name not in operands and parameter.kind is not parameter.VAR_KEYWORD:
                missing = parameter.default is parameter.empty
                hints[parameter.name] = short[parameter.name]
                defaults[parameter.name] = dataclasses.MISSING if missing else parameter.default
    fields: dict[str, Any] = {}
    for name, default in defaults.items():
        annotation = _field(hints[name])
        if annotation is None:
            continue
        # every field has an alias, as pydantic reserves some names that operations use
        fields["a_" + name] = (
            annotation,
            Field(... if default is dataclasses.MISSING else default, alias=name),
        )
    config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)
    return create_model(op.mnemonic, __config__=config, __doc__=op.__doc__, **fields)


@cache
def names(op: type[Op]) -> tuple[str, ...]:
    """The attributes of an operation that a spec may give, in order."""
    return tuple(field.alias or "" for field in adapter(op).model_fields.values())


@cache
def flags(op: type[Op]) -> frozenset[str]:
    """The bool attributes."""
    return frozenset(
        field.alias or "" for field in adapter(op).model_fields.values() if field.annotation is bool
    )


@cache
def types_in(op: type[Op]) -> frozenset[str]:
    """The attributes that are types, or lists of them."""
    hints = typing.get_type_hints(op)
    return frozenset(
        f.name
        for f in dataclasses.fields(op)
        if Type in (hints[f.name], *typing.get_args(hints[f.name]))
    )


@cache
def holds_body(op: type[Op]) -> bool:
    """Whether the operation has an attribute `body` that is a graph."""
    return Graph in typing.get_args(typing.get_type_hints(op).get("body"))


@dataclasses.dataclass(frozen=True, slots=True)
class WrongAttribute:
    """An attribute that does not fit: its name, the path inside it, and the reason."""

    kind: str  # "unknown", "missing" or "value"
    name: str
    path: tuple[str | int, ...]
    message: str


def check(
    op: type[Op], given: Mapping[str, Any], exact: bool = False
) -> tuple[dict[str, Any], list[WrongAttribute]]:
    """The attributes converted to their declared types, and the errors in those given."""
    model = adapter(op, exact)
    try:
        valid = model.model_validate({name: _tuples(value) for name, value in given.items()})
    except ValidationError as error:
        return {}, _wrongs(error, given)
    values = {f.alias or "": getattr(valid, name) for name, f in model.model_fields.items()}
    return {name: value for name, value in values.items() if name in given}, []


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list | tuple) else value


def _wrongs(error: ValidationError, given: Mapping[str, Any]) -> list[WrongAttribute]:
    faults_by_name: dict[str, list[Any]] = {}
    for fault in error.errors(include_url=False):
        faults_by_name.setdefault(str(fault["loc"][0]), []).append(fault)
    wrongs = []
    for name, faults in faults_by_name.items():
        first = faults[0]
        if first["type"] == "extra_forbidden":
            wrongs.append(WrongAttribute("unknown", name, (), ""))
        elif first["type"] == "missing":
            wrongs.append(WrongAttribute("missing", name, (), ""))
        elif len(faults) == 1:
            path = tuple(k for k in first["loc"][1:] if isinstance(k, int))
            wrongs.append(WrongAttribute("value", name, path, _message(first)))
        else:
            shallow = [f for f in faults if not any(isinstance(k, int) for k in f["loc"])]
            deep = [f for f in faults if f not in shallow]
            if isinstance(given[name], list | tuple) and deep:
                path = tuple(k for k in deep[0]["loc"][1:] if isinstance(k, int))
                wrongs.append(WrongAttribute("value", name, path, _message(deep[0])))
                continue
            wanted = list(dict.fromkeys(_EXPECTED.get(f["type"], _literals(f)) for f in shallow))
            text = " or ".join(w for w in wanted if w)
            wrongs.append(
                WrongAttribute("value", name, (), f"expected {text}, found {shown(given[name])}")
            )
    return wrongs


_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "none_required": "nothing",
    "dict_type": "a mapping",
}


def _literals(fault: Any) -> str:
    if fault["type"] == "literal_error":
        return str(fault["ctx"]["expected"]).replace("'", "")
    return str(fault["msg"]).removeprefix("expected ")


def _message(fault: Any) -> str:
    value, kind = fault.get("input"), fault["type"]
    if kind in _EXPECTED:
        return (
            f"expected {_EXPECTED[kind]}, found "
            f"{shown(list(value) if isinstance(value, tuple) else value)}"
        )
    if kind == "literal_error":
        return f"expected {_literals(fault)}; found {shown(value)}"
    if kind in ("too_short", "too_long"):
        return f"a list of {fault['ctx']['actual_length']} has the wrong length"
    if kind == "kind":
        return f"{fault['msg']}, found {shown(value)}"
    return str(fault["msg"])[0].lower() + str(fault["msg"])[1:]
