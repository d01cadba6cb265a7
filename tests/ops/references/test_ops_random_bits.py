"""Generators of random bits give the numbers that were published for them."""

from __future__ import annotations

import numpy as np
from reference_runs import run


def test_generators_give_the_published_numbers() -> None:
    """Known answers of Random123 (Salmon et al., 2011): key and counter of zeros, of ones."""
    ones = 0xFFFFFFFFFFFFFFFF
    state, bits = run("rng_bits", np.zeros(2, np.uint64), algorithm="threefry", shape=(2,))
    assert [hex(v) for v in bits.tolist()] == ["0x6b200159", "0x99ba4efe"]
    assert state.tolist() == [0, 1]
    _, bits = run("rng_bits", np.full(2, ones, np.uint64), algorithm="threefry", shape=(2,))
    assert [hex(v) for v in bits.tolist()] == ["0x1cb996fc", "0xbb002be7"]
    _, bits = run("rng_bits", np.zeros(3, np.uint64), algorithm="philox", shape=(4,))
    assert [hex(v) for v in bits.tolist()] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]
    state, bits = run("rng_bits", np.full(3, ones, np.uint64), algorithm="philox", shape=(4,))
    assert [hex(v) for v in bits.tolist()] == [
        "0x408f276d",
        "0x41c83b0e",
        "0xa20bc7c6",
        "0x6d5451fd",
    ]
    assert state.tolist() == [ones, 0, 0]


def test_generators_go_on_where_they_stopped() -> None:
    start = np.array([5, 7], np.uint64)
    _, whole = run("rng_bits", start, shape=(12,))
    middle, first = run("rng_bits", start, shape=(6,))
    _, second = run("rng_bits", middle, shape=(6,))
    assert np.array_equal(np.concatenate([first, second]), whole)
