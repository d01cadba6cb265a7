"""Writes values as YAML text that our reader reads back unchanged."""

from __future__ import annotations

import json
from typing import Any

from xlac.ir.types import Type


def type_text(type: Type) -> str:
    """A type as a spec writes it."""
    return str(type)


_PLAIN = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.~/")


def scalar(text: str) -> str:
    """Text in YAML, quoted where it must be."""
    if (
        text
        and text[0].isalpha()
        and set(text) <= _PLAIN
        and text.lower() not in ("null", "true", "false", "y", "n", "yes", "no", "on", "off")
    ):
        return text
    if ", " in text and all(scalar(part) == part for part in text.split(", ")):
        return text
    return quoted(text)


def quoted(text: str) -> str:
    """Text between double quotes, with characters that YAML cannot represent as escapes."""
    quoted_text = json.dumps(text, ensure_ascii=False)
    return (
        quoted_text
        if quoted_text.isprintable()
        else "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted_text)
    )


def flow(value: Any) -> str:
    """A value in YAML's flow style."""
    match value:
        case dict():
            return "{" + ", ".join(f"{scalar(str(k))}: {flow(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(flow, value)) + "]"
        case str():
            return scalar(value) if ", " not in value else quoted(value)
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            text = repr(value)
            return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(text, text)
    return str(value)
