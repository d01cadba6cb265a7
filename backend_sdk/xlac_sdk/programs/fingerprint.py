"""Fingerprints of arrays, by which equal constants of several programs are stored once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xlac_sdk.support.hashing import blake2b


def fingerprint(array: NDArray[Any]) -> bytes:
    """A fingerprint of an array's dtype, shape and content, to the bit."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return f"{array.dtype}{array.shape}".encode() + blake2b(flat.data, digest_size=32).digest()
