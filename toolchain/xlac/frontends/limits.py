"""Limits on the size of what a small file can request."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlac.ir.dims import Dim
from xlac.ir.op import ShapeError
from xlac.ir.types import RANK
from xlac.ops.tensor.arrange import PARTS

BYTES = 1 << 36  # bytes of one tensor
STEPS = 1024  # steps of a loop that is unrolled
KEYS = 4096  # key columns of one lexicographic sort


def check_parts(count: int, most: int = PARTS) -> int:
    """The number of parts that something is cut into; refuses to begin with too many. Raises
    ShapeError.
    """
    if count > most:
        raise ShapeError(f"it makes {count:,} parts; at most {most:,} are supported")
    return count


def check_size(shape: Sequence[Dim], nbytes: int, limit: int = BYTES) -> None:
    """Refuses a tensor of more than `limit` bytes, and sizes below zero. Raises ShapeError."""
    if len(shape) > RANK:
        raise ShapeError(f"a tensor of rank {len(shape)}; at most {RANK} axes are supported")
    known = [size for size in shape if isinstance(size, int)]
    if any(size < 0 for size in known):
        raise ShapeError(f"a tensor of shape {list(shape)} has a size below zero")
    if 0 not in known and math.prod(known) * nbytes > limit:
        raise ShapeError(
            f"a tensor of shape {list(shape)} takes more than {limit / (1 << 30):g} GiB"
        )
