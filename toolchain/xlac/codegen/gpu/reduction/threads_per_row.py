"""Chooses the number of threads for each row: enough to keep the multiprocessors busy, but no idle
ones.
"""

from __future__ import annotations

from xlac.codegen.gpu.core.grid import RESIDENT, at_least
from xlac_sdk.target import Target

THREADS = 128  # of a block with several rows
MOST = 1024  # of a block with one row
IDLE = 1.1  # how much more register space for vectors is worth using more threads


def share(target: Target, vectors: int, rows: int, steps: int) -> tuple[int, int]:
    """Threads for each row of `vectors` vectors, and of a block: powers of two.

    Up to a warp per row, several rows share a block; beyond, a block has one row. A thread should
    have up to `steps` vectors.
    """
    warp = target.warp
    limit, processors = min(MOST, target.block_threads), max(1, target.processors)
    width = at_least(max(1, vectors))
    if width > warp:
        width = max(warp, at_least(-(-vectors // steps)))
    while width < at_least(vectors) and rows * width < RESIDENT * processors:
        if _room(vectors, 2 * width) > IDLE * _room(vectors, width):
            break
        width *= 2
    width = min(width, limit)
    threads = width if width > warp else min(THREADS, limit)
    while threads > max(width, warp) and rows * width < threads * processors:
        threads //= 2
    return width, threads


def _room(vectors: int, width: int) -> int:
    """The number of vectors for which the threads have registers."""
    return -(-vectors // width) * width
