"""How a strided tensor lies in memory: dense in some order of its axes, or not dense at all."""

from __future__ import annotations

from typing import Any

import torch

Perm = tuple[int, ...]


def order(tensor: torch.Tensor) -> Perm | None:
    """The axes from the slowest to the fastest when the tensor is dense in that order and that is
    not row-major.

    None when it is row-major, or not dense: then a row-major copy takes its place. Sizes that are
    symbols count as the example has them.
    """
    perm = _dense(tensor)
    moving = [axis for axis in perm or () if number(tensor.shape[axis]) != 1]
    return None if moving == sorted(moving) else perm


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie without gaps, in some order of the axes, and each once."""
    return _dense(tensor) is not None


def _dense(tensor: torch.Tensor) -> Perm | None:
    """The axes from the slowest to the fastest, of a tensor that is dense in that order."""
    sizes, strides = [number(s) for s in tensor.shape], [number(s) for s in tensor.stride()]
    perm = tuple(sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis)))
    expected = 1
    for axis in reversed(perm):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    return perm


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes another."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def usual(tensor: torch.Tensor, perm: Perm | None) -> bool:
    """Whether the strides of a dense tensor are those of a new one with its axes in this order."""
    made = torch.empty_strided([number(s) for s in tensor.shape], [0] * tensor.dim(), device="meta")
    laid = torch.empty(made.shape if perm is None else made.permute(perm).shape, device="meta")
    found: tuple[int, ...] = (laid if perm is None else laid.permute(inverse(perm))).stride()
    return found == tuple(number(s) for s in tensor.stride())


def number(size: Any) -> int:
    """A size, as the example has it."""
    return size if isinstance(size, int) else int(size.node.hint)
