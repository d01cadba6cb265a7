"""GridSample and AffineGrid: interpolation at fractional positions, and grids of such positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.registry import operator
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build

MODES = {
    "bilinear": "linear",
    "linear": "linear",
    "nearest": "nearest",
    "bicubic": "cubic",
    "cubic": "cubic",
}


@operator("GridSample", since=16)
def grid_sample(call: OperatorCall) -> Node:
    """Operator sets 16 (two spatial axes; bilinear, bicubic), 20 (any number) and 22."""
    mode, padding = call.attr("mode", "linear"), call.attr("padding_mode", "zeros")
    if mode not in MODES or padding not in ("zeros", "border", "reflection"):
        call.fail(f"mode '{mode}' with padding_mode '{padding}' is not known")
    given = {"padding": padding, "align_corners": bool(call.attr("align_corners", 0))}
    return build.apply1("grid_sample", call[0], call[1], mode=MODES[mode], **given)


@operator("AffineGrid", since=20)
def affine_grid(call: OperatorCall) -> Node:
    """Operator set 20: the positions of a regular grid, transformed by a matrix (batch, rank, rank
    + 1).
    """
    theta = call[0]
    _, _, *sizes = call.ints(1) or []
    if theta.type.rank != 3 or theta.shape[1:] != (len(sizes), len(sizes) + 1):
        raise ShapeError(
            f"a grid of {len(sizes)} axes needs a matrix for each batch, got {theta.type}",
            operand=0,
        )
    base = build.constant(regular(sizes, bool(call.attr("align_corners", 0))), theta.type.dtype)
    moved = build.dot(theta, base, ((2,), (1,)))  # (batch, rank, places)
    return build.reshape(build.transpose(moved, (0, 2, 1)), (theta.shape[0], *sizes, len(sizes)))


def regular(sizes: Sequence[int], align_corners: bool) -> Array:
    """All positions of a grid over [-1, 1] as (last axis, …, first axis, 1)."""
    lines = []
    for n in sizes:
        at = np.arange(n, dtype=np.float64)
        lines.append(at * (2 / max(n - 1, 1)) - 1 if align_corners else (2 * at + 1) / n - 1)
    axes = [m.reshape(-1) for m in np.meshgrid(*lines, indexing="ij")]
    return np.stack([*reversed(axes), np.ones_like(axes[0])], 1)
