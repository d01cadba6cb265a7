"""Decision trees as arrays, and the graph that evaluates all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac_sdk.dtypes import DType

MODES = (
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
    "BRANCH_MEMBER",
)
_DIRECTIONS = ("le", "lt", "ge", "gt", "eq", "ne")


@dataclass(frozen=True)
class Forest:
    """All nodes of all trees; leaves are nodes that are their own children."""

    features: Array
    splits: Array
    modes: Array
    yes: Array
    no: Array
    missing: Array
    members: Array  # (nodes, most members of a set), padded with NaN
    roots: Array
    depth: int

    @property
    def size(self) -> int:
        """How many nodes all trees have."""
        return int(self.yes.size)

    @staticmethod
    def of(
        *,
        features: Sequence[int],
        splits: Array,
        modes: Sequence[int],
        children: Sequence[Sequence[int]],
        missing: Sequence[int],
        leaves: int,
        roots: Sequence[int],
        members: Any,
    ) -> Forest:
        """Builds a forest from lists over the nodes; `leaves` leaves are numbered after them.
        Raises ShapeError.
        """
        count = len(features)
        if (
            not len(splits)
            == len(modes)
            == len(children[0])
            == len(children[1])
            == len(missing)
            == count
        ):
            raise ShapeError("the lists over the nodes of the trees differ in length")
        ends = list(range(count, count + leaves))
        yes, no = (np.asarray([*side, *ends], np.int64) for side in children)
        if any(((side < 0) | (side >= count + leaves)).any() for side in (yes, no)):
            raise ShapeError("a child of a tree's node is not a node")
        if any(not 0 <= m < len(MODES) for m in modes):
            raise ShapeError("a tree's node has an unknown mode")
        fill = [0] * leaves
        return Forest(
            np.asarray([*features, *fill], np.int64),
            np.asarray([*splits, *fill]),
            np.asarray([*modes, *fill], np.int64),
            yes,
            no,
            np.asarray([*missing, *fill], np.int64) > 0,
            _sets(modes, members, leaves),
            np.asarray(roots, np.int64),
            _depth(yes, no, roots),
        )


def _sets(modes: Sequence[int], members: Any, leaves: int) -> Array:
    """The members of each node's set; in `members` the sets are concatenated, each terminated by
    NaN.
    """
    sets: list[list[float]] = []
    values = iter([] if members is None else np.asarray(members).reshape(-1).tolist())
    for mode in modes:
        members_of_set: list[float] = []
        if MODES[mode] == "BRANCH_MEMBER":
            for value in values:
                if np.isnan(value):
                    break
                members_of_set.append(value)
        sets.append(members_of_set)
    width = max((len(s) for s in sets), default=0)
    return np.asarray([s + [np.nan] * (width - len(s)) for s in [*sets, *[[]] * leaves]]).reshape(
        len(modes) + leaves, width
    )


def _depth(yes: Array, no: Array, roots: Sequence[int]) -> int:
    """The greatest depth of a leaf. Raises ShapeError for nodes that form a cycle."""
    at = np.unique(np.asarray(roots, np.int64))
    if at.size == 0 or at.min() < 0 or at.max() >= yes.size:
        raise ShapeError("a root of a tree is not a node")
    for depth in range(yes.size + 1):
        inner = at[(yes[at] != at) | (no[at] != at)]
        if inner.size == 0:
            return depth
        at = np.unique(np.concatenate([yes[inner], no[inner]]))
    raise ShapeError("a tree's nodes form a cycle")


def walked(forest: Forest, x: Node) -> Node:
    """The leaf of each row of x (rows, features) in each tree: i64 of (rows, trees)."""
    at = build.broadcast_to(build.constant(forest.roots), (x.shape[0], len(forest.roots)))
    if forest.depth == 0:
        return at
    width = x.shape[1]
    if isinstance(width, int) and forest.features.max() >= width:
        raise ShapeError(f"a tree reads feature {forest.features.max()}, and there are {width}")
    graph = build.graph("step", [at.type, x.type], lambda places, rows: _step(forest, places, rows))
    return build.results(Node.of(Scan(graph, forest.depth, carries=1), at, x))[0]


def _step(forest: Forest, at: Node, x: Node) -> Node:
    """Moves every row to the next node of every tree."""

    def here(values: Array, dtype: DType | None = None) -> Node:
        return build.take(build.constant(values, dtype), at, 0)

    value = build.apply1("take_along_axis", x, here(forest.features), axis=1)
    split = here(forest.splits, x.type.dtype)
    used = np.unique(forest.modes)
    goes: Node | None = None
    for mode in used.tolist():
        if MODES[mode] == "BRANCH_MEMBER":
            same = build.compare(
                build.reshape(value, [*value.shape, 1]), "eq", here(forest.members, x.type.dtype)
            )
            test = build.reduce(same, "or", [2])
        else:
            test = build.compare(value, _DIRECTIONS[mode], split)
        goes = (
            test
            if goes is None
            else build.select(build.compare(here(forest.modes), "eq", mode), test, goes)
        )
    assert goes is not None
    if forest.missing.any():
        goes = build.apply1(
            "or", goes, build.apply1("and", build.apply1("isnan", value), here(forest.missing))
        )
    return build.select(goes, here(forest.yes), here(forest.no))
