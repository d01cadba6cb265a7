"""Keys for counter-based random numbers, derived from a seed and a name."""

from __future__ import annotations

from hashlib import sha256


def philox_key(seed: int, name: str) -> int:
    """A key of 128 bits, the same on every machine; generators with shorter keys take its lowest
    bits.
    """
    return int.from_bytes(sha256(f"{seed}:{name}".encode()).digest()[:16], "little")
