"""Garbage collection, put off while a compile makes what it keeps."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No search for cycles inside the block; what a block makes is then searched once.

    A compile keeps nearly all that it makes, and each search looks at all of it again: with 20,000
    nodes that is a third of the time, and the only part that grows faster than the model.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
