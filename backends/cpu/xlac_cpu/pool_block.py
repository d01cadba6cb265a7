"""The block of memory that a pool of threads is, as code and this process know it."""

from __future__ import annotations

FORK, FORK_WATCHED = EXPORTS = ("fork", "fork_watched")  # the pool's functions that others call
WATCHED = 24  # the byte at which the second one's address is; the first one's is at the start
SIZE = 640  # bytes
