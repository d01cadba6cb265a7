"""The hash that names entries on disk and tells whether they are unchanged: BLAKE2b, 32 bytes, as
text.
"""

from __future__ import annotations

from xlac_sdk.support.hashing import blake2b

BYTES = 32


def digest(*parts: bytes | str) -> str:
    """The hash of some parts, each with its length: ("ab", "c") and ("a", "bc") differ."""
    hasher = blake2b(digest_size=BYTES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(b"%d " % len(data))
        hasher.update(data)
    return hasher.hexdigest()


def file_digest(file: str) -> str:
    """The hash of a file's content. Raises OSError."""
    with open(file, "rb") as opened:
        return digest(opened.read())
