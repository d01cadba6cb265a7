"""How many vectors are unrolled, and whether they are written as one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xlac.codegen.core.strip_mining import DEEP, joins, unroll_for
from xlac_sdk.target import Target

VECTORS = Target("vectors", vector_bytes=32, vector_registers=16)


@pytest.mark.parametrize("registers", [16, 32])
def test_deep_chains_are_four_vectors_as_one(registers: int) -> None:
    """With the few registers of AVX2 and SSE too: what is spilled takes less time than waiting."""
    target = replace(VECTORS, vector_registers=registers)
    assert joins(target, DEEP) and unroll_for(target, 100, DEEP) == 4
    assert not joins(target, DEEP - 1) and unroll_for(target, 100, DEEP - 1) == 1


@pytest.mark.parametrize(
    "target",
    [
        replace(VECTORS, vector_registers=8),
        replace(VECTORS, vector_bytes=0),
        replace(VECTORS, most_lanes=16),
        replace(VECTORS, size=True),
    ],
    ids=["few registers", "no vectors", "a language of short vectors", "small code"],
)
def test_other_targets_write_vectors_one_by_one(target: Target) -> None:
    assert not joins(target, 100)
