"""The memory layout of strided tensors: dense in some order of axes, or not dense."""

from __future__ import annotations

from typing import Any

import torch

from xlac.ir.permutations import Perm, inverse


def order(tensor: torch.Tensor) -> Perm | None:
    """The axes from slowest to fastest if the tensor is dense in that order, which is not
    row-major.

    None if it is row-major, or not dense and therefore copied to row-major. Symbolic sizes have
    their example values.
    """
    perm = _dense(tensor)
    moving = [axis for axis in perm or () if number(tensor.shape[axis]) != 1]
    return None if moving == sorted(moving) else perm


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill a contiguous range of memory in some order of axes, without
    overlap.
    """
    return _dense(tensor) is not None


def _dense(tensor: torch.Tensor) -> Perm | None:
    """The axes from slowest to fastest of a dense tensor."""
    sizes, strides = [number(s) for s in tensor.shape], [number(s) for s in tensor.stride()]
    perm = tuple(sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis)))
    expected = 1
    for axis in reversed(perm):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    return perm


def usual(tensor: torch.Tensor, perm: Perm | None) -> bool:
    """Whether the strides of a dense tensor are those of a newly allocated one with its axes in
    this order.
    """
    fresh = torch.empty_strided(
        [number(s) for s in tensor.shape], [0] * tensor.dim(), device="meta"
    )
    laid = torch.empty(fresh.shape if perm is None else fresh.permute(perm).shape, device="meta")
    strides: tuple[int, ...] = (laid if perm is None else laid.permute(inverse(perm))).stride()
    return strides == tuple(number(s) for s in tensor.stride())


def number(size: Any) -> int:
    """A size; of a symbolic one its example value."""
    return size if isinstance(size, int) else int(size.node.hint)
