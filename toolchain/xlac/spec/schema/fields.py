"""The types of a spec's scalar fields: validation, messages, and the JSON Schema.

Numbers that may be parameters (`repeat: $depth`) are checked when their value is known.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

MAX_NAME = 256
LARGEST = 3.4028234663852886e38
"""The largest f32, the type of rates and scales in programs."""


def shown(value: Any) -> str:
    """A value as text for messages."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f"the text {value[:40]!r}" + ("…" if len(value) > 40 else "")
    return str(value)


def _fail(expected: str, value: Any) -> PydanticCustomError:
    return PydanticCustomError(
        "kind", f"expected {expected}, found {shown(value)}".replace("{", "{{").replace("}", "}}")
    )


def normal(value: float) -> float:
    """A positive number that is at least the smallest normal f32."""
    if value < 2**-126:
        raise _fail(f"at least {2**-126:.3g}", value)
    return value


def _computed(value: Any) -> bool:
    return isinstance(value, str) and "$" in value


def _whole(value: Any) -> Any:
    if _computed(value) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _fail("a whole number or a $parameter", value)


def _flag(value: Any) -> Any:
    if _computed(value) or isinstance(value, bool):
        return value
    raise _fail("true, false or a $parameter", value)


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise _fail("text", value)


def _expression(value: Any) -> Any:
    if isinstance(value, str | int | float):  # a bool, which is an int in Python, is valid here
        return value
    raise _fail("an expression or the name of a value", value)


def _references(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _expression(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_expression(item) for item in value]
    return _expression(value)


def _type(value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise _fail("a type such as f32[batch, 64]", value)


def _name(value: Any) -> Any:
    if not isinstance(value, str) or not value.strip() or value != value.strip():
        raise PydanticCustomError("kind", "a name is text without spaces around it, and not empty")
    if len(value) > MAX_NAME:
        raise PydanticCustomError(
            "kind", f"a name of {len(value)} characters; at most {MAX_NAME} are allowed"
        )
    if "$" in value or not value.isprintable():
        raise PydanticCustomError("kind", "a name holds printable characters and no '$'")
    return value


def _names(value: Any) -> Any:
    """A key of a graph: one name, or several for several results."""
    if isinstance(value, str) and "," in value:
        parts = [_name(part.strip()) for part in value.split(",")]
        if len(set(parts)) < len(parts):
            raise PydanticCustomError("kind", "the same name is given to two results")
        return value
    return _name(value)


_REFERENCE = {"type": "string", "pattern": r"\$"}
Whole = Annotated[
    Any, BeforeValidator(_whole), WithJsonSchema({"anyOf": [{"type": "integer"}, _REFERENCE]})
]
Flag = Annotated[
    Any, BeforeValidator(_flag), WithJsonSchema({"anyOf": [{"type": "boolean"}, _REFERENCE]})
]
Text = Annotated[Any, BeforeValidator(_text), WithJsonSchema({"type": "string"})]
Expression = Annotated[
    Any, BeforeValidator(_expression), WithJsonSchema({"type": ["string", "number", "boolean"]})
]
References = Annotated[
    Any,
    BeforeValidator(_references),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "number", "boolean"]},
                {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
                {
                    "type": "object",
                    "additionalProperties": {"type": ["string", "number", "boolean"]},
                },
            ]
        }
    ),
]
TypeText = Annotated[
    Any,
    BeforeValidator(_type),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[\w$]+\s*(\[.*\])?\s*$"}),
]


def _called(value: Any) -> Any:
    if isinstance(value, str) or (
        isinstance(value, list) and value and all(isinstance(v, str) for v in value)
    ):
        return value
    raise _fail("a name, or a list with one for each result", value)


Called = Annotated[
    Any,
    BeforeValidator(_called),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]
Name = Annotated[str, BeforeValidator(_name)]
Names = Annotated[str, BeforeValidator(_names)]


def is_list(value: Any) -> str:
    """The tag of a value that is a list or a mapping."""
    return "<list>" if isinstance(value, list) else "<mapping>"


def _param(value: Any) -> Any:
    if isinstance(value, dict):
        raise _fail("a number, text, true, false or a list", value)
    return value


Param = Annotated[Any, BeforeValidator(_param), WithJsonSchema({"not": {"type": "object"}})]

Outputs = Annotated[
    Annotated[list[Text], Tag("<list>")] | Annotated[dict[Name, Expression], Tag("<mapping>")],
    Discriminator(is_list),
]
BlockInputs = Annotated[
    Annotated[list[Name], Tag("<list>")] | Annotated[dict[Name, TypeText], Tag("<mapping>")],
    Discriminator(is_list),
]


def one_of(*keys: str) -> Any:
    """A discriminator: the first of some keys that a mapping has; text has a tag of its own."""

    def tag(value: Any) -> str | None:
        if not isinstance(value, dict):
            return "<text>"
        return next((f"<{key}>" for key in keys if key in value), None)

    return tag
