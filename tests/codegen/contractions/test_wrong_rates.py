"""Rates of caches that are wrong by half or twice: what is chosen by them stays near the best."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from xlac.codegen.cpu.gemm import register_tile
from xlac_cpu.processors import table
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.machine_facts import MachineFacts
from xlac_sdk.target import Request

RATES = ("l2_rate", "l3_rate", "memory_rate")
ROWS, COLUMNS, DEPTH = (4, 8, 16, 32, 100), (100, 768), 768


def wrong(facts: MachineFacts) -> Iterator[MachineFacts]:
    """Facts of which one rate is half or twice what it is."""
    for name, by in product(RATES, (0.5, 2.0)):
        yield replace(facts, **{name: getattr(facts, name) * by})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("cpu", table())
def test_no_rate_leads_to_tiles_that_compute_slowly(cpu: str) -> None:
    """Tiles of many rows by one vector read less, and their loads bound them: 1.2 times the cycles
    of the best tile where nothing waits for caches.
    """
    target = find("cpu").target(Request(cpu=cpu))
    hurried = replace(target, hardware=replace(target.hardware, l2_rate=4096, l2_total=0))
    for facts, rows, columns in product(wrong(target.hardware), ROWS, COLUMNS):
        shape = DType.F32, (1, rows), columns, DEPTH
        tile = register_tile.choose(replace(target, hardware=facts), *shape)
        best = register_tile.choose(hurried, *shape)
        least = register_tile.whole(best, hurried, *shape, waits=False)
        got = register_tile.whole(tile, hurried, *shape, waits=False)
        assert got <= 1.15 * least, (rows, columns, tile, best)


@pytest.mark.parametrize("cpu", table())
@pytest.mark.parametrize("stays", [False, True])
def test_no_rate_moves_far_what_packing_needs(cpu: str, stays: bool) -> None:
    """How often a panel must be read for its copy to pay."""
    facts = find("cpu").target(Request(cpu=cpu)).hardware
    right = facts.packing_pays(stays)
    for other in wrong(facts):
        assert 1 / 1.3 <= other.packing_pays(stays) / right <= 1.3
