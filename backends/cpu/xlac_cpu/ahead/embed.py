"""Weights inside an object: LLVM leaves room for them behind a mark, and the bytes are put there.

So they are never text, no assembler is needed, and it works for every object format alike.
"""

from __future__ import annotations

import re

from xlac_sdk.source import Diagnostic, XlacError

MARK = 32  # characters


class RoomError(XlacError):
    """The object does not have the room that was asked for: our bug."""

    exit_code = 70


def mark(prefix: str, nbytes: int) -> str:
    """The text that fills the first bytes of the room."""
    import hashlib

    return hashlib.sha256(f"xlac weights {prefix} {nbytes}".encode()).hexdigest()[
        : min(MARK, nbytes)
    ]


def filled(image: bytes, text: str, data: bytes) -> bytes:
    """The object with `data` where the mark `text` and zeros are."""
    room = text.encode() + b"\0" * (len(data) - len(text))
    at = image.find(room)
    if at < 0 or image.find(text.encode(), at + 1) >= 0:
        raise RoomError(Diagnostic("XL9102", "the object has no room for the weights, or several"))
    return b"".join((image[:at], data, image[at + len(data) :]))


def included(assembly: str, text: str, nbytes: int, file: str) -> str:
    """Assembly whose room is the bytes of a file beside it."""
    pattern = rf'\t\.ascii\t"{text}"\n\t\.(?:zero|skip|space)\t{nbytes - len(text)}\n'
    found, count = re.subn(pattern, f'\t.incbin\t"{file}", 64\n', assembly)
    if count != 1:
        raise RoomError(
            Diagnostic("XL9102", "the assembly has no room for the weights, or several")
        )
    return found
