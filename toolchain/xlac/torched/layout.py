"""How a strided tensor lies in memory: dense in some order of its axes, or not dense at all."""

from __future__ import annotations

from typing import Any

import torch

Perm = tuple[int, ...]


def order(tensor: torch.Tensor) -> Perm | None:
    """The axes from the slowest to the fastest when the tensor is dense in that order and that is not row-major.

    None when it is row-major, or not dense: then a row-major copy takes its place. Sizes that are symbols count as
    the example has them.
    """
    sizes, strides = [_number(s) for s in tensor.shape], [_number(s) for s in tensor.stride()]
    perm = tuple(sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis)))
    expected = 1
    for axis in reversed(perm):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    moving = [axis for axis in perm if sizes[axis] != 1]
    return None if moving == sorted(moving) else perm


def inverse(perm: Perm) -> Perm:
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def _number(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.hint)
