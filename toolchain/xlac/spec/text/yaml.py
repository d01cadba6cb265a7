"""Reads YAML files as values with their places; checks size and encoding first."""

from __future__ import annotations

import re
from pathlib import Path

from xlac.spec.text.composer import compose, spec_error
from xlac.spec.text.tree import Source
from xlac.support.dependencies import note
from xlac_sdk.source import Span

MAX_BYTES = 32 * 2**20


def read(file: Path) -> Source:
    """Reads and composes a file. Raises SourceError for text that is not a YAML document of plain
    values.
    """
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise spec_error(
                "XL4011",
                f"the file has {size:,} bytes; at most {MAX_BYTES:,} are read",
                Span(file, 1, 1),
                "keep weights in a safetensors file",
            )
        if not file.is_file():
            raise spec_error("XL3001", f"{file} is not a file", None)
        raw = note(file).read_bytes()
    except FileNotFoundError:
        raise spec_error("XL3001", f"no such file: {file}", None) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a path"
        raise spec_error("XL3001", f"cannot read {file}: {reason}", None) from None
    return compose(file, _decode(file, raw))


def _decode(file: Path, raw: bytes) -> str:
    if raw.startswith(b"\xef\xbb\xbf"):
        raise spec_error(
            "XL1002",
            "the file starts with a byte-order mark",
            Span(file, 1, 1),
            "save it as plain UTF-8",
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        raise spec_error(
            "XL1001", f"byte 0x{raw[error.start]:02x} is not UTF-8", _at(file, before)
        ) from None
    if match := re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufeff\ufffe\uffff]", text):
        message = f"character U+{ord(match[0]):04X} is not allowed in YAML"
        raise spec_error("XL1003", message, _at(file, text[: match.start()]))
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _at(file: Path, before: str) -> Span:
    return Span(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
