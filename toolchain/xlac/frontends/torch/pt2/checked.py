"""Validates the JSON of a file of torch.export against PyTorch's schema before PyTorch uses it.

Every field must have the type that the schema states. PyTorch treats much of the text as code: it
evaluates sizes, resolves attribute paths from `torch` to operations, imports modules, and writes
names into Python that it runs. So each text field has a check in TEXTS or KEYS; a field without one
is refused. Fields that the importer does not need are dropped (LEFT_OUT).
"""

from __future__ import annotations

import dataclasses
import enum
import json
import keyword
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from torch._export.serde import schema
from torch._export.serde.serialize import _dict_to_dataclass
from torch._export.serde.union import _Union

from xlac.frontends.torch.expressions import SYMBOL, expression
from xlac.frontends.torch.nest import nest
from xlac.frontends.torch.operations import operation

Check = Callable[[str], str]
FRAME = re.compile(
    r'^\s*(File "[^"\x00-\x1f]{1,4096}", line [0-9]{1,9}, in [\w<>.]{1,256})$', re.MULTILINE
)
LEFT_OUT: Mapping[tuple[str, str], Any] = {
    ("GraphModule", "metadata"): {},
    ("GraphModule", "treespec_namedtuple_fields"): {},
    ("ExportedProgram", "guards_code"): [],
}
INTEGERS = range(-(1 << 63), 1 << 64)


def name(text: str) -> str:
    """A value's name, which PyTorch writes into code. Raises ValueError."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,511}", text, re.ASCII) or keyword.iskeyword(text):
        raise ValueError(f"'{text[:80]}' is not a name")
    return text


def argument(text: str) -> str:
    """The name of an operation's argument, which may be a keyword or empty. Raises ValueError."""
    return text if not text or keyword.iskeyword(text) else name(text)


def path(text: str) -> str:
    """The dotted path of a parameter, `layers.0.weight`. Raises ValueError."""
    parts = text.split(".")
    if (
        len(text) > 4096
        or not text.isprintable()
        or set(text) & set("\"'\\()[]{}")
        or any(p.startswith("__") or not p for p in parts)
    ):
        raise ValueError(f"'{text[:80]}' is not the path of a parameter")
    return text


def _matching(pattern: str, what: str) -> Check:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(f"'{text[:80]}' is no {what}")
        return text

    return check


def anything(text: str) -> str:
    """Text that PyTorch only compares with known words, or writes inside quotation marks."""
    if len(text) > 65536:
        raise ValueError("it is longer than 65,536 characters")
    return text


record = _matching(r"[A-Za-z0-9_]{1,256}(\.[A-Za-z0-9_]{1,16})?", "part of an archive")
word = _matching(r"[A-Za-z0-9_.+<=]{0,64}", "word")

TEXTS: Mapping[tuple[str, str], Check] = {
    ("Device", "type"): _matching(r"[a-z_0-9]{1,32}", "device"),
    ("SymExpr", "expr_str"): expression, ("SymIntArgument", "as_name"): name,
    ("SymFloatArgument", "as_name"): name, ("SymBoolArgument", "as_name"): name,
    ("TensorArgument", "name"): name, ("TokenArgument", "name"): name,
    ("GraphArgument", "name"): name, ("Argument", "as_string"): anything,
    ("Argument", "as_strings"): anything, ("Argument", "as_operator"): operation,
    ("NamedArgument", "name"): argument, ("Node", "target"): operation, ("Node", "name"): name,
    ("ConstantValue", "as_string"): anything, ("InputToConstantInputSpec", "name"): argument,
    ("InputToParameterSpec", "parameter_name"): path, ("InputToBufferSpec", "buffer_name"): path,
    ("InputToTensorConstantSpec", "tensor_constant_name"): path,
    ("BufferMutationSpec", "buffer_name"): path, ("ParameterMutationSpec", "parameter_name"): path,
    ("GradientToParameterSpec", "parameter_name"): path,
    ("GradientToUserInputSpec", "user_input_name"): name,
    ("UserInputMutationSpec", "user_input_name"): name, ("ModuleCallSignature", "in_spec"): nest,
    ("ModuleCallSignature", "out_spec"): nest, ("ModuleCallSignature", "forward_arg_names"): name,
    ("ModuleCallEntry", "fqn"): lambda text: path(text) if text else text,
    ("ExportedProgram", "verifiers"): word, ("ExportedProgram", "torch_version"): word,
    ("PayloadMeta", "path_name"): record,
}  # fmt: skip
"""The check of each text field; `name` of Python objects (CustomObjArgument) is missing
on purpose.
"""

KEYS: Mapping[tuple[str, str], Check] = {
    ("Argument", "as_string_to_argument"): name, ("Graph", "tensor_values"): name,
    ("Graph", "sym_int_values"): name, ("Graph", "sym_bool_values"): name,
    ("Graph", "sym_float_values"): name, ("Graph", "custom_obj_values"): name,
    ("ExportedProgram", "opset_version"): word, ("PayloadConfig", "config"): path,
    ("ExportedProgram", "range_constraints"): expression,
}  # fmt: skip


class Refused(Exception):
    """A field with a value that no valid program has; the message names it."""


def program(text: bytes) -> Any:
    """The schema's ExportedProgram from the JSON of `models/NAME.json`. Raises Refused.

    Of bounds, those of symbols are kept: PyTorch ignores those of expressions such as 2*s0, with a
    warning, or fails to read them.
    """
    read = _read(schema.ExportedProgram, text)
    read.range_constraints = {
        size: bounds for size, bounds in read.range_constraints.items() if SYMBOL.fullmatch(size)
    }
    return read


def payloads(text: bytes) -> Mapping[str, Any]:
    """The schema's PayloadMeta of each tensor from `model_weights_config.json` and the like. Raises
    Refused.
    """
    config: Mapping[str, Any] = _read(schema.PayloadConfig, text).config
    return config


def _read(kind: type, text: bytes) -> Any:
    try:
        held = json.loads(text)
        return _dict_to_dataclass(kind, _value(kind, held, kind.__name__, ("", "")))
    except (ValueError, RecursionError, TypeError, KeyError, AssertionError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Refused(what) from None


def _value(kind: Any, held: Any, place: str, field: tuple[str, str]) -> Any:
    """Validates the value at a place against a type of the schema; `field` is the class and field
    that it belongs to.
    """
    if isinstance(kind, typing.ForwardRef):
        kind = getattr(schema, kind.__forward_arg__)
    if isinstance(kind, str):
        kind = getattr(schema, kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return _value(inner[0], held, place, field)
    if origin in (typing.Union, types.UnionType):
        (only,) = (a for a in inner if a is not type(None))
        return None if held is None else _value(only, held, place, field)
    if origin is list and isinstance(held, list):
        return [
            _value(inner[0], one, f"{place}[{number}]", field) for number, one in enumerate(held)
        ]
    if origin is dict and isinstance(held, dict):
        return {
            _text(KEYS, k, place, field): _value(inner[1], v, f"{place}[{k!r:.80}]", field)
            for k, v in held.items()
        }
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(held, dict):
        return _record(kind, held, place)
    if isinstance(kind, type) and issubclass(kind, enum.IntEnum) and type(held) is int:
        return int(kind(held))
    if kind is str and isinstance(held, str):
        return _text(TEXTS, held, place, field)
    if kind is bool and isinstance(held, bool):
        return held
    if kind is int and type(held) is int and held in INTEGERS:
        return held
    if kind is float and (type(held) in (int, float) or held in ("Infinity", "-Infinity", "NaN")):
        return float(held)
    wanted = getattr(kind, "__name__", str(kind))
    raise ValueError(f"{place}: it should be {wanted}, not {json.dumps(held)[:80]}")


def _record(kind: type, held: Mapping[str, Any], place: str) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, globalns=vars(schema), include_extras=True)
    if issubclass(kind, _Union) and (len(held) != 1 or next(iter(held)) not in hints):
        raise ValueError(f"{place}: it should be one of {', '.join(hints)[:200]}")
    fields_read: dict[str, Any] = {}
    for key, hint in hints.items():
        field = (kind.__name__, key)
        if key not in held:
            continue
        if field in LEFT_OUT:
            fields_read[key] = LEFT_OUT[field]
        elif field == ("Node", "metadata"):
            fields_read[key] = _metadata(held[key])
        elif field == ("GraphModule", "module_call_graph"):
            fields_read[key] = _value(
                hint, [c for c in held[key] if c.get("fqn") == ""], f"{place}.{key}", field
            )
        else:
            fields_read[key] = _value(hint, held[key], f"{place}.{key}", field)
    return fields_read


def _text(
    checks: Mapping[tuple[str, str], Check], text: str, place: str, field: tuple[str, str]
) -> str:
    check = checks.get(field)
    if check is None:
        raise ValueError(f"{place}: objects of Python's own are not read from files")
    try:
        return check(text)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _metadata(held: Any) -> dict[str, str]:
    """The parts of a node's metadata that give its origin: stack frames and modules."""
    if not isinstance(held, dict):
        return {}
    parts = {}
    frames = FRAME.findall(stack) if isinstance(stack := held.get("stack_trace"), str) else []
    if frames:
        parts["stack_trace"] = "\n".join(f"  {frame}" for frame in frames[-64:])
    modules = held.get("nn_module_stack")
    if isinstance(modules, str) and modules.isprintable() and len(modules) <= 65536:
        parts["nn_module_stack"] = modules
    return parts
