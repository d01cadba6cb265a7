"""What collectives cost: bytes on the wire, and time by the alpha-beta model.

A message of n bytes takes alpha + n / beta. A group of p ranks does a collective either around a
ring, in parts, or by doubling, in fewer messages of whole values; the lesser time counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlac.ir.graph import Node
from xlac.ops.collective.group import Collective
from xlac_sdk.source import Diagnostic, SourceError

SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}


@dataclass(frozen=True, slots=True)
class NetworkLink:
    """Between two ranks: seconds for any message, and bytes a second."""

    latency: float = 5e-6
    rate: float = 10e9

    @staticmethod
    def parse(text: str) -> NetworkLink:
        """`25GB/s,2us`. Raises SourceError for other text."""
        form = r"([\d.]+)\s*([kmgt]?)b/s\s*,\s*([\d.]+)\s*(ns|us|ms)"
        match = re.fullmatch(form, text.strip(), re.IGNORECASE)
        try:
            rate = float(match[1]) * SCALES[match[2].lower()] if match else 0.0
            latency = float(match[3]) * TIMES[match[4].lower()] if match else 0.0
        except ValueError:  # such as 1.2.3
            rate = latency = 0.0
        if rate <= 0:
            problem = f"'{text}' is no link"
            raise SourceError(Diagnostic("XL7810", problem, hint="--link 25GB/s,2us"))
        return NetworkLink(latency, rate)

    def __str__(self) -> str:
        return f"{self.rate / 1e9:g} GB/s, {self.latency * 1e6:g} us"


@dataclass(frozen=True, slots=True)
class RankDevice:
    """What a rank computes with: operations, and bytes of memory moved, in a second."""

    flops: float = 100e9
    rate: float = 20e9

    @staticmethod
    def parse(text: str) -> RankDevice:
        """`300Tflop/s,2TB/s`. Raises SourceError for other text."""
        form = r"([\d.]+)\s*([kmgt]?)flop/s\s*,\s*([\d.]+)\s*([kmgt]?)b/s"
        match = re.fullmatch(form, text.strip(), re.IGNORECASE)
        try:
            flops = float(match[1]) * SCALES[match[2].lower()] if match else 0.0
            rate = float(match[3]) * SCALES[match[4].lower()] if match else 0.0
        except ValueError:  # such as 1.2.3
            flops = rate = 0.0
        if flops <= 0 or rate <= 0:
            problem = f"'{text}' is no device"
            raise SourceError(Diagnostic("XL7810", problem, hint="--device 300Tflop/s,2TB/s"))
        return RankDevice(flops, rate)

    def __str__(self) -> str:
        return f"{self.flops / 1e9:g} Gflop/s, {self.rate / 1e9:g} GB/s"


def sent(node: Node) -> int:
    """Bytes that each rank sends at least, of its part and on behalf of others."""
    op = node.op
    assert isinstance(op, Collective)
    ranks = op.group
    held = node.inputs[0].type.nbytes if node.inputs else 0
    match op.kind:
        case "all_reduce":
            return 2 * held * (ranks - 1) // ranks
        case "all_gather":
            return held * (ranks - 1)
        case "reduce_scatter" | "all_to_all":
            return held * (ranks - 1) // ranks
        case "broadcast" | "permute":
            return held
    return 0


def seconds(node: Node, link: NetworkLink) -> float:
    """The predicted time of a collective that nothing hides."""
    op = node.op
    assert isinstance(op, Collective)
    ranks = op.group
    if not node.inputs or ranks == 1:
        return 0.0
    held, rounds = node.inputs[0].type.nbytes, (ranks - 1).bit_length()
    whole = node.type.nbytes if op.kind == "all_gather" else held
    ring = {"all_reduce": 2 * (ranks - 1), "permute": 1}.get(op.kind, ranks - 1)
    around = ring * link.latency + sent(node) / link.rate
    return min(around, rounds * (link.latency + whole / link.rate))
