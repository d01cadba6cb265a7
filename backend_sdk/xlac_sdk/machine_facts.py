"""Facts of a processor that schedules are chosen by: one schema for facts that are shipped,
reported by a system, or measured.

Everything here is data. `Target.hardware` holds the facts that choices read; choices that decide
the order of a sum read `Target.shipped`, which has no measured facts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from typing import Any

from xlac_sdk.support.hashing import blake2b

MEASURED = (
    "l2_part", "l2_rate", "l2_total", "l3_rate", "l3_spread", "l3_total", "memory_rate",
    "memory_spread", "memory_total", "stride_penalty",
)  # fmt: skip
"""The facts that are measured where possible."""
TRANSFORM = 15  # instructions per vector and Winograd point, for transforms
# what packing a panel costs besides reading it from the third-level cache, as reads of it from the
# second: it is transposed, written, and the copy read; fitted to what pays in bench/FACTS.md
PACKED = 6


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """Facts of one processor; `LIMITS` has the bounds of each. Rates are for one thread, in bytes
    per cycle of the core's clock, for reads of data that stays at that level.

    The defaults describe an unknown processor. Raises ValueError for a fact that is out of bounds.
    """

    processor: str = "generic"  # as in the shipped table, or as reported by the system
    l1_bytes: int = 32 << 10  # data caches: of a core, of a core, of the cores that share it
    l2_bytes: int = 512 << 10
    l3_bytes: int = 8 << 20
    l1_ways: int = 0  # associativity; 0: unknown
    l2_ways: int = 0
    l2_sharers: int = 1  # threads that share a second-level cache, a last-level cache
    l3_sharers: int = 0  # 0: unknown
    line_bytes: int = 64
    page_bytes: int = 4096
    # the share of the second-level cache that data can occupy without being evicted
    l2_part: float = 1.0
    fma_latency: float = 4.0  # cycles until the result of a multiply-add is available
    fmas: float = 2.0  # vector multiply-adds per cycle
    loads: float = 2.0  # vector loads per cycle
    issue: float = 6.0  # vector instructions per cycle
    load_cycles: float = 0.08  # the cost of a load where load units are idle
    loop_cycles: float = 0.25  # the cost of a loop iteration where `issue` is the bottleneck
    l2_rate: float = 24.0
    l3_rate: float = 12.0  # also of data that one loop writes and the next reads
    memory_rate: float = 4.5
    # caches that are shared, and memory, are faster at some times than at others: by this factor
    # above and below the rate
    l3_spread: float = 1.0
    memory_spread: float = 1.0
    # the same rates of all threads together; 0: unknown, and threads do not slow each other
    l2_total: float = 0.0
    l3_total: float = 0.0
    memory_total: float = 0.0
    # the additional cost of reading rows in place, as a multiple of contiguous reads at `l2_rate`:
    # for rows that stay in the second-level cache, and for rows 2^k bytes apart that evict each
    # other
    apart_penalty: float = 0.0625
    stride_penalty: float = 1.0
    prefetch_tiles: int = 4  # row tiles that must share a panel for prefetching the next one to pay
    stream_outputs: float = 4.0  # outputs larger than this many last-level caches are streamed

    def __post_init__(self) -> None:
        for field in fields(self):
            check, value = LIMITS[field.name], getattr(self, field.name)
            if not check.holds(value):
                raise ValueError(f"{field.name}: must be {check.wanted}, not {value!r}")
            if field.type == "float":  # equal facts have equal digests
                object.__setattr__(self, field.name, float(value))

    @property
    def l2_room(self) -> int:
        """Bytes of data that can stay in the second-level cache."""
        return int(self.l2_bytes * self.l2_part)

    @property
    def l1_sets(self) -> int:
        """The number of sets of the first-level cache. Where its ways are unknown, one way is taken
        to cover a page, as in a virtually-indexed, physically-tagged cache.
        """
        if not self.l1_ways:
            return max(1, self.page_bytes // self.line_bytes)
        return max(1, self.l1_bytes // (self.l1_ways * self.line_bytes))

    @property
    def transform_cycles(self) -> float:
        """Cycles per vector and Winograd point, for transforms."""
        return TRANSFORM / self.issue

    def rates(self, level: str, threads: int) -> tuple[float, float]:
        """The lowest and the highest rate of each of `threads` threads that read at the same time;
        `level` is l2, l3 or memory.
        """
        rate, total = getattr(self, f"{level}_rate"), getattr(self, f"{level}_total")
        spread = 1.0 if level == "l2" else getattr(self, f"{level}_spread")
        shared = min(rate, total / threads) if total else rate
        return shared / spread, shared * spread

    def packing_pays(self, stays: bool, threads: int = 1) -> float:
        """How often each of `threads` threads must read a panel for a packed copy to pay wherever
        the rate of the third-level cache is in its range: packing takes a read at that rate and
        `PACKED` at the second-level cache's, and each read of the copy then saves the penalty of
        reading in place. `stays`: the panel stays in the second-level cache; otherwise its rows
        evict each other.
        """
        penalty = self.apart_penalty if stays else self.stride_penalty
        near, far = (self.rates(level, threads)[0] for level in ("l2", "l3"))
        return (near / far + PACKED) / penalty

    @property
    def digest(self) -> str:
        """A digest of exactly these facts: 16 hexadecimal digits."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return blake2b(text.encode(), digest_size=8).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """All facts by name, the inverse of `from_json`."""
        return asdict(self)

    @staticmethod
    def from_json(facts: Mapping[str, Any]) -> MachineFacts:
        """Facts by name; absent ones have their defaults. Raises ValueError, which begins with the
        name, for an unknown fact or one out of bounds.
        """
        for name in facts:
            if name not in LIMITS:
                raise ValueError(f"{name}: is not a fact; facts are {', '.join(LIMITS)}")
        return MachineFacts(**facts)


@dataclass(frozen=True, slots=True)
class Limit:
    """The valid values of a fact, as text and as a test."""

    wanted: str
    holds: Callable[[Any], bool]


def _whole(least: int, most: int) -> Limit:
    return Limit(
        f"a whole number from {least} to {most}",
        lambda value: type(value) is int and least <= value <= most,
    )


def _number(least: float, most: float) -> Limit:
    return Limit(
        f"a number from {least} to {most}",
        lambda value: type(value) in (int, float) and least <= value <= most,
    )


def _power(least: int, most: int) -> Limit:
    return Limit(
        f"a power of two from {least} to {most}",
        lambda value: type(value) is int and least <= value <= most and not value & (value - 1),
    )


_NAME = Limit(
    "text of 1 to 80 printable characters",
    lambda value: isinstance(value, str) and 1 <= len(value) <= 80 and value.isprintable(),
)
_SIZE, _RATE, _PENALTY = _whole(1, 1 << 40), _number(0.01, 4096), _number(0.001, 1000)
_TOTAL = _number(0, 1 << 22)
LIMITS: Mapping[str, Limit] = {
    "processor": _NAME,
    "l1_bytes": _SIZE, "l2_bytes": _SIZE, "l3_bytes": _SIZE,
    "l1_ways": _whole(0, 4096), "l2_ways": _whole(0, 4096),
    "l2_sharers": _whole(0, 1 << 16), "l3_sharers": _whole(0, 1 << 16),
    "line_bytes": _power(16, 1024), "page_bytes": _power(512, 1 << 21),
    "l2_part": _number(0.05, 1),
    "fma_latency": _number(1, 32), "fmas": _number(0.1, 16), "loads": _number(0.1, 16),
    "issue": _number(0.25, 32), "load_cycles": _number(0, 4), "loop_cycles": _number(0, 8),
    "l2_rate": _RATE, "l3_rate": _RATE, "memory_rate": _RATE,
    "l3_spread": _number(1, 16), "memory_spread": _number(1, 16),
    "l2_total": _TOTAL, "l3_total": _TOTAL, "memory_total": _TOTAL,
    "apart_penalty": _PENALTY, "stride_penalty": _PENALTY,
    "prefetch_tiles": _whole(1, 64), "stream_outputs": _number(0.01, 1000),
}  # fmt: skip
"""The bounds of each fact, by its name."""
TUNABLE: Mapping[str, Limit] = {
    "vector_bytes": _whole(0, 4096),
    "vector_registers": _whole(1, 4096),
    "warp": _power(1, 1024),
    "access_bytes": _whole(1, 1024),
    "thread_bytes": _whole(1, 1024),
    "block_threads": _whole(1, 1 << 16),
    "processors": _whole(0, 1 << 16),
}
"""The same of the facts of a `Target` that `xlac backend tune` measures."""


def plain_fact(value: Any) -> Any:
    """A fact of a target as JSON; sets are sorted lists."""
    if isinstance(value, frozenset):
        return sorted(map(_word, value), key=repr)
    return value.to_json() if isinstance(value, MachineFacts) else value


def _word(value: Any) -> Any:
    """An element of a set of facts as JSON."""
    if isinstance(value, tuple):
        return [_word(part) for part in value]
    if isinstance(value, Enum):
        return value.value
    return value.to_json() if hasattr(value, "to_json") else value
