"""The memory layout of a thread pool, shared by generated code and this process."""

from __future__ import annotations

FORK, FORK_WATCHED = EXPORTS = ("fork", "fork_watched")  # the pool's functions that others call
WATCHED = 24  # the offset of the second one's address; the first one's is at the start
SIZE = 640  # bytes
