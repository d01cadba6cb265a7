"""The block of memory that a call which may run long looks at, to find out whether it is to stop.

It is 64-bit words; the first is the flag. `emit/stopping/function.py` writes the code that checks,
`run/watch.py` fills the block.
"""

from __future__ import annotations

WORDS = (
    "flag", "next", "deadline", "owner", "host", "outside", "type", "value", "trace", "counter", "time", "spare",
)  # fmt: skip
BLOCK = {name: 8 * i for i, name in enumerate(WORDS)}  # the byte of each
BYTES = 8 * len(BLOCK)
# of the table that `host` points to: functions of Python, and the main thread
HOST = {name: 8 * i for i, name in enumerate(("ensure", "check", "release", "fetch", "main"))}
# why a call is to stop: a signal's handler raised, the deadline passed, another thread asked
RAISED, LATE, ASKED = 1, 2, 3
NEVER = (1 << 63) - 1  # a deadline
