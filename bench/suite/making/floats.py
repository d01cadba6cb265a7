"""The results of a PyTorch model that are compared: its floats."""

from __future__ import annotations

from typing import Any

import torch


def floats(value: Any) -> list[torch.Tensor]:
    """The tensors of floats in a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    return [one for part in value for one in floats(part)]
