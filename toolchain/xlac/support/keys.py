"""Keys of counted random numbers: what a seed and a name decide."""

from __future__ import annotations

from hashlib import sha256


def philox_key(seed: int, name: str) -> int:
    """128 bits, the same on every machine; who wants fewer takes the lowest."""
    return int.from_bytes(sha256(f"{seed}:{name}".encode()).digest()[:16], "little")
