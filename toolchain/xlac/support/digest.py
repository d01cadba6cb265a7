"""The hash by which things are found on disk, and seen to be as they were: BLAKE2b, 32 bytes, as
text.
"""

from __future__ import annotations

from xlac_sdk.support.hashing import blake2b

BYTES = 32


def digest(*parts: bytes | str) -> str:
    """The hash of some parts; where each ends counts."""
    made = blake2b(digest_size=BYTES)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(b"%d " % len(data))
        made.update(data)
    return made.hexdigest()


def file_digest(file: str) -> str:
    """The hash of a file's content. Raises OSError."""
    with open(file, "rb") as opened:
        return digest(opened.read())
