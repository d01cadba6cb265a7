"""Alias analysis: which values of a graph are views of others."""

from __future__ import annotations

import operator

import torch
from torch.fx import Node as FxNode


def viewed(fx: FxNode) -> FxNode | None:
    """The base of a view, with the same elements in the same storage; None for any other node."""
    source = fx
    if fx.target is operator.getitem and isinstance(fx.args[0], FxNode):
        source = fx.args[0]
    target = source.target
    if (
        source.op != "call_function"
        or not isinstance(target, torch._ops.OpOverload)
        or not target.is_view
        or not source.args
    ):
        return None
    base = source.args[0]
    value, other = fx.meta.get("val"), base.meta.get("val") if isinstance(base, FxNode) else None
    if not isinstance(value, torch.Tensor) or not isinstance(other, torch.Tensor):
        return None
    same = (
        value.dtype == other.dtype
        and value.is_neg() == other.is_neg()
        and value.is_conj() == other.is_conj()
    )
    return base if same and value.layout is torch.strided else None


def root(fx: FxNode) -> FxNode:
    """The value or argument at the base of a chain of views; the node itself if it is no view."""
    while (base := viewed(fx)) is not None:
        fx = base
    return fx
