"""The shuffled order of an epoch: a permutation of the rows, decided by a seed and the epoch.

Each position is computed by itself, without memory for the permutation: the position, as 2·h bits,
goes through eight rounds of a Feistel network whose round function is the finalizer of splitmix64,
and again while the result is no row (cycle walking). It uses only wrapping 64-bit unsigned
arithmetic, so it is the same on every machine and with every version of NumPy.

    mix(z)      z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27;
                z *= 0x94d049bb133111eb; z ^= z >> 31
    key(r)      mix(mix(mix(seed + G) + epoch + G) + r + G) for r = 0 … 7, G = 0x9e3779b97f4a7c15
    a round     left, right = right, left ^ (mix(right ^ key(r)) mod 2^h)

h is the least number with 4^h >= rows, and at least 1. Sources: G. Steele, D. Lea and C. Flood,
Fast Splittable Pseudorandom Number Generators, OOPSLA 2014; J. Black and P. Rogaway, Ciphers with
Arbitrary Finite Domains, CT-RSA 2002.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

NAME = "feistel8-splitmix64"
"""Its name in checkpoints: a run is resumed only in the order in which it was begun."""
ROUNDS = 8
GOLDEN = 0x9E3779B97F4A7C15
WORD = (1 << 64) - 1
Words = NDArray[np.uint64]


def mix(words: Words) -> Words:
    """The finalizer of splitmix64, elementwise."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@lru_cache(8)
def _keys(seed: int, epoch: int) -> Words:
    def after(word: int, number: int) -> int:
        return int(mix(np.array([(word + number + GOLDEN) & WORD], np.uint64))[0])

    begun = after(after(0, seed & WORD), epoch & WORD)
    return np.array([after(begun, number) for number in range(ROUNDS)], np.uint64)


def shuffled(positions: NDArray[np.int64], rows: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The rows, i64, at some positions of an epoch's order: a permutation of 0 … rows - 1 over all
    positions. Seeds are taken modulo 2^64.
    """
    half = 1
    while 1 << (2 * half) < rows:
        half += 1
    keys, mask = _keys(seed, epoch), np.uint64((1 << half) - 1)
    places = positions.astype(np.uint64)
    left = np.arange(len(places))  # indices of results that are no rows yet
    while len(left):
        places[left] = _permuted(places[left], keys, np.uint64(half), mask)
        left = left[places[left] >= rows]
    return places.astype(np.int64)


def _permuted(words: Words, keys: Words, half: np.uint64, mask: np.uint64) -> Words:
    high, low = words >> half, words & mask
    for key in keys:
        high, low = low, high ^ (mix(low ^ key) & mask)
    return (high << half) | low
