"""The block of memory that a long-running call reads to check for a stop request.

It consists of 64-bit words; the first is the flag. `emit/stopping/function.py` generates the code
that checks, `run/watch.py` fills the block.
"""

from __future__ import annotations

WORDS = (
    "flag", "next", "deadline", "owner", "host", "outside", "type", "value", "trace", "counter",
    "time", "spare",
)  # fmt: skip
BLOCK = {name: 8 * i for i, name in enumerate(WORDS)}  # the offset of each word
BYTES = 8 * len(BLOCK)
# entries of the table that `host` points to: functions of Python, and the main thread
HOST = {name: 8 * i for i, name in enumerate(("ensure", "check", "release", "fetch", "main"))}
# reasons to stop: a signal's handler raised, the deadline passed, another thread asked
RAISED, LATE, ASKED = 1, 2, 3
NEVER = (1 << 63) - 1  # a deadline
