"""Permutations of axes, as a transpose has them: axis i of the result is axis `perm[i]`."""

from __future__ import annotations

from collections.abc import Sequence

Perm = tuple[int, ...]


def inverse(perm: Sequence[int]) -> Perm:
    """The permutation that undoes one."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))
