"""How results of contractions are cut into blocks, panels and pieces: what stays in a cache, and
what threads share.
"""

from __future__ import annotations

import numpy as np
import pytest
from contraction_harness import agree, conv, cpu, group
from dot_groups import matmul

from xlac.codegen.cpu.gemm import cache_blocking, tile_store
from xlac.codegen.cpu.gemm.cache_blocking import Cut
from xlac.codegen.lower import lower
from xlac.fusion.group import Kind
from xlac.ir.graph import Node
from xlac_sdk.target import Target


@pytest.mark.parametrize("loops", [
    [(56, 1), (3, 58), (3, 1), (7, 58), (64, 58 * 58)],  # windows over planes
    [(192, 1), (56, 64), (3, 58 * 64), (9, 58 * 64)],  # windows over channels
    [(10, 12), (12, 1)], [(10, 20), (12, 1)], [(5, 0), (7, 2)], [(4, -3), (3, 1)], [],
])  # fmt: skip
def test_elements_that_windows_share_are_counted_once(loops: list[tuple[int, int]]) -> None:
    places = np.zeros(1, np.int64)
    for extent, stride in loops:
        places = np.unique(places[:, None] + np.arange(extent) * stride)
    assert cache_blocking._distinct(list(loops)) == len(places)


def cut_of(anchor: Node, kind: Kind, target: Target, monkeypatch: pytest.MonkeyPatch) -> Cut:
    found: list[Cut] = []

    def seen(*given: object) -> Cut:
        found.append(cache_blocking.cut(*given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(tile_store, "cut", seen)
    lower(group(kind, anchor), target, "kernel")
    return found[-1]


def test_threads_share_pieces_of_a_panel_that_one_block_of_rows_crosses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large right operand is read from end to end once, however many threads there are."""
    for threads in (1, 2, 4):
        target = cpu(threads).with_facts(l2_bytes=1 << 20)
        found = cut_of(
            conv((1, 7, 7, 512), (3, 3, 512, 512), pad=1), Kind.CONV, target, monkeypatch
        )
        assert found.blocks == 1 and (found.parts > 1) == (threads > 1)


@pytest.mark.parametrize("m", [260, 301, 399])
def test_blocks_panels_and_pieces(m: int, monkeypatch: pytest.MonkeyPatch) -> None:
    target = cpu(2).with_facts(l2_bytes=64 << 10)
    anchor = matmul(m, 150, 64, "weight")
    found = cut_of(anchor, Kind.DOT, target, monkeypatch)
    assert int(found.blocks) > 1 and found.parts > 1 and int(found.panels) > 1
    agree(group(Kind.DOT, anchor), target)
