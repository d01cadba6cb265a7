"""Embeds weights in an object: the code reserves zeros behind a marker, which are then overwritten.

So weights are never converted to text, no assembler is needed, and every object format works alike.
"""

from __future__ import annotations

import re

from xlac_sdk.source import Diagnostic, XlacError

MARK = 32  # length of the marker


class RoomError(XlacError):
    """The object does not have the reserved space: a bug of xlac."""

    exit_code = 70


def mark(prefix: str, nbytes: int) -> str:
    """The marker text at the start of the reserved space."""
    import hashlib

    return hashlib.sha256(f"xlac weights {prefix} {nbytes}".encode()).hexdigest()[
        : min(MARK, nbytes)
    ]


def filled(image: bytes, text: str, data: bytes) -> bytes:
    """The object with `data` in place of the marker `text` and the zeros behind it."""
    room = text.encode() + b"\0" * (len(data) - len(text))
    at = image.find(room)
    if at < 0 or image.find(text.encode(), at + 1) >= 0:
        raise RoomError(
            Diagnostic("XL9102", "the object reserves no space for the weights, or several")
        )
    return b"".join((image[:at], data, image[at + len(data) :]))


def included(assembly: str, text: str, nbytes: int, file: str) -> str:
    """Assembly whose reserved space is replaced by the bytes of a separate file (.incbin)."""
    pattern = rf'\t\.ascii\t"{text}"\n\t\.(?:zero|skip|space)\t{nbytes - len(text)}\n'
    replaced, count = re.subn(pattern, f'\t.incbin\t"{file}", 64\n', assembly)
    if count != 1:
        raise RoomError(
            Diagnostic("XL9102", "the assembly reserves no space for the weights, or several")
        )
    return replaced
