"""Boxes of object detection, given by their edges: left, top, right and bottom."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node
from xlac.ops import build


def edges_of(here: Node, edges: Sequence[Node], axis: int) -> list[Node]:
    """The edges of the one box along `axis` for which `here` is true; the axis is kept."""
    return [build.reduce(build.select(here, e, -np.inf), "max", axis, True) for e in edges]


def overlap_of(one: Sequence[Node], boxes: Sequence[Node]) -> Node:
    """The intersection over union of one box with each; 0 where either is empty."""
    sides = [
        build.sub(build.minimum(one[n + 2], boxes[n + 2]), build.maximum(one[n], boxes[n]))
        for n in (0, 1)
    ]
    shared = build.mul(*(build.maximum(side, 0.0) for side in sides))
    areas = [build.mul(build.sub(e[2], e[0]), build.sub(e[3], e[1])) for e in (one, boxes)]
    union = build.sub(build.add(*areas), shared)
    full = build.apply1("and", *(build.compare(area, "gt", 0.0) for area in areas))
    return build.select(full, build.div(shared, union), 0.0)
