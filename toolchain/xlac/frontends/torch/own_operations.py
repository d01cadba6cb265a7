"""Operations of our own in graphs of ATen's: gradients that need less than PyTorch's keep of the forward
pass.
"""

from __future__ import annotations

import torch


def _max_pool_gradient(
    grad: torch.Tensor, x: torch.Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool
) -> torch.Tensor:  # fmt: skip
    """The gradient of x where windows over its last axes, as many as `kernel` names, gave their
    largest; the positions need not be kept for it. This is PyTorch's own, for where a graph falls
    back.
    """
    rank = len(kernel)
    pool = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices")
    back = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices_backward")
    _, indices = pool(x, kernel, stride, padding, dilation, ceil_mode)
    found: torch.Tensor = back(grad, x, kernel, stride, padding, dilation, ceil_mode, indices)
    return found


def _like(grad: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    return torch.empty_like(x)


max_pool_gradient = torch.library.custom_op(
    "xlac::max_pool_gradient", _max_pool_gradient, mutates_args=()
)
max_pool_gradient.register_fake(_like)


def without_indices(
    grad: torch.Tensor, x: torch.Tensor, kernel: list[int], stride: list[int], padding: list[int], dilation: list[int], ceil_mode: bool,
    indices: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """max_pool2d_with_indices_backward and its like, by `max_pool_gradient`."""
    found: torch.Tensor = max_pool_gradient(grad, x, kernel, stride, padding, dilation, ceil_mode)
    return found
