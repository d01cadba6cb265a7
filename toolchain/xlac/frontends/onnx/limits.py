"""How large what a small file asks for may be."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.ir.dims import Dim
from xlac.ir.op import ShapeError

BYTES = 1 << 36  # of one tensor
STEPS = 1024  # of a loop that is unrolled


def check_size(shape: Sequence[Dim], nbytes: int) -> None:
    """Refuses a tensor that no machine holds, and sizes below zero. Raises ShapeError."""
    known = [size for size in shape if isinstance(size, int)]
    if any(size < 0 for size in known):
        raise ShapeError(f"a tensor of shape {list(shape)} has a size below zero")
    if math.prod(known) * nbytes > BYTES:
        raise ShapeError(f"a tensor of shape {list(shape)} takes more than {BYTES >> 30} GiB")
