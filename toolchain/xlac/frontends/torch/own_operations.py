"""xlac's own operations in ATen graphs: gradients that need fewer saved tensors than PyTorch's."""

from __future__ import annotations

import torch


def _max_pool_gradient(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> torch.Tensor:
    """The gradient of max pooling over the last axes, recomputed from x so that indices need not be
    saved. This is a PyTorch implementation, for graphs that fall back to PyTorch.
    """
    rank = len(kernel)
    pool = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices")
    back = getattr(torch.ops.aten, f"max_pool{rank}d_with_indices_backward")
    _, indices = pool(x, kernel, stride, padding, dilation, ceil_mode)
    gradient: torch.Tensor = back(grad, x, kernel, stride, padding, dilation, ceil_mode, indices)
    return gradient


def _like(grad: torch.Tensor, x: torch.Tensor, *_: object) -> torch.Tensor:
    return torch.empty_like(x)


max_pool_gradient = torch.library.custom_op(
    "xlac::max_pool_gradient", _max_pool_gradient, mutates_args=()
)
max_pool_gradient.register_fake(_like)


def without_indices(
    grad: torch.Tensor,
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
    indices: torch.Tensor,
) -> torch.Tensor:
    """Rewrites max_pool2d_with_indices_backward and its variants to `max_pool_gradient`."""
    gradient: torch.Tensor = max_pool_gradient(
        grad, x, kernel, stride, padding, dilation, ceil_mode
    )
    return gradient
