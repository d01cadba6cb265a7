"""The least time that a machine could need for a row, from what was measured beside its bursts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mixes(meta: Mapping[str, Any]) -> bool:
    """Whether a row writes so much that its bound is what memory gives for reading and writing."""
    return bool(meta.get("write_bytes", 0) / max(meta["min_bytes"], 1) > 0.15)


def bound(meta: Mapping[str, Any], giga_flops: float, giga_bytes: float) -> float:
    """Seconds by the rates beside a burst, of f32 arithmetic and of memory that caches do not hold;
    0 where neither says anything.
    """
    flops = 0.0 if meta.get("integers") else float(meta["flops"])
    compute = flops / (giga_flops * 1e9) if giga_flops else 0.0
    memory = meta["min_bytes"] / (giga_bytes * 1e9) if giga_bytes else 0.0
    return max(compute, memory)
