"""Ensembles of decision trees (ai.onnx.ml 1 to 5): TreeEnsemble, TreeEnsembleRegressor,
TreeEnsembleClassifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.frontends.limits import check_size
from xlac.frontends.onnx.graph.call import OperatorCall
from xlac.frontends.onnx.ops.attention.scores import finished, labelled, two
from xlac.frontends.onnx.ops.ml.forest import MODES, Forest, walked
from xlac.frontends.onnx.registry import ML, operator
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops import build
from xlac_sdk.dtypes import DType

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TABLE = 1 << 28  # bytes of the weights of all leaves for all targets
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@operator("TreeEnsemble", since=5, domain=ML)
def tree_ensemble(call: OperatorCall) -> Node:
    """Trees as lists of nodes and leaves; a leaf has one weight for one target."""
    nodes = len(call.attr("nodes_featureids"))
    leaves = len(call.attr("leaf_targetids"))
    children = [_numbered(call, side, nodes) for side in ("true", "false")]
    forest = Forest.of(
        features=call.attr("nodes_featureids"),
        splits=np.asarray(call.attr("nodes_splits")).reshape(-1),
        modes=np.asarray(call.attr("nodes_modes")).reshape(-1).tolist(),
        children=children,
        missing=call.attr("nodes_missing_value_tracks_true", [0] * nodes),
        leaves=leaves,
        roots=[_root(children, r, nodes) for r in call.attr("tree_roots")],
        members=call.attr("membership_values", None),
    )
    weights = np.asarray(call.attr("leaf_weights")).reshape(-1)
    targets = call.attr("n_targets", max(call.attr("leaf_targetids")) + 1)
    places = [
        (nodes + n, target, w)
        for n, (target, w) in enumerate(zip(call.attr("leaf_targetids"), weights, strict=True))
    ]
    aggregate = AGGREGATES[call.attr("aggregate_function", 1)]
    aggregated = _aggregated(call, forest, places, targets, aggregate)
    return finished(call, aggregated, TRANSFORMS[call.attr("post_transform", 0)])


def _numbered(call: OperatorCall, side: str, nodes: int) -> list[int]:
    """Child indices with leaves numbered after the nodes."""
    leaf, child = call.attr(f"nodes_{side}leafs"), call.attr(f"nodes_{side}nodeids")
    return [number + (nodes if is_leaf else 0) for number, is_leaf in zip(child, leaf, strict=True)]


def _root(children: Sequence[Sequence[int]], root: int, nodes: int) -> int:
    """A root; one whose children are both the same leaf is replaced by that leaf."""
    yes, no = children[0][root], children[1][root]
    return yes if yes == no and yes >= nodes else root


def _held(call: OperatorCall, name: str, default: Any = None) -> Any:
    """Numbers given as a list or, since version 3, as a tensor."""
    tensor = call.attr(f"{name}_as_tensor", None)
    return np.asarray(tensor).reshape(-1) if tensor is not None else call.attr(name, default)


def _by_keys(call: OperatorCall, prefix: str) -> tuple[Forest, list[tuple[int, int, float]]]:
    """Trees whose nodes are identified by tree and number, and (node, target, weight) of the
    leaves.
    """
    trees, numbers = call.attr("nodes_treeids"), call.attr("nodes_nodeids")
    where = {key: n for n, key in enumerate(zip(trees, numbers, strict=True))}
    names = call.attr("nodes_modes")
    unknown = next((m for m in names if m not in (*MODES, "LEAF")), None)
    if unknown is not None:
        call.fail(f"a node has mode '{unknown}'")
    leaf = [m == "LEAF" for m in names]
    sides = []
    for side in ("true", "false"):
        child = call.attr(f"nodes_{side}nodeids")
        sides.append([n if leaf[n] else where[tree, child[n]] for n, tree in enumerate(trees)])
    missing = call.attr("nodes_missing_value_tracks_true", None) or [0] * len(trees)
    first: dict[int, int] = {}
    for n, tree in enumerate(trees):
        first.setdefault(tree, n)
    forest = Forest.of(
        features=call.attr("nodes_featureids"),
        splits=np.asarray(_held(call, "nodes_values")),
        modes=[MODES.index(m) if m in MODES else 0 for m in names],
        children=sides,
        missing=missing,
        leaves=0,
        roots=list(first.values()),
        members=None,
    )
    keys = zip(call.attr(f"{prefix}_treeids"), call.attr(f"{prefix}_nodeids"), strict=True)
    weights = _held(call, f"{prefix}_weights")
    return forest, [
        (where[k], t, float(w))
        for k, t, w in zip(keys, call.attr(f"{prefix}_ids"), weights, strict=True)
    ]


@operator("TreeEnsembleRegressor", domain=ML)
def tree_regressor(call: OperatorCall) -> Node:
    """The leaf weights of all trees, aggregated for each target."""
    forest, places = _by_keys(call, "target")
    aggregated = _aggregated(
        call, forest, places, call.attr("n_targets", 1), call.attr("aggregate_function", "SUM")
    )
    base = _held(call, "base_values")
    if base is not None:
        aggregated = build.add(aggregated, build.constant(np.asarray(base), aggregated.type.dtype))
    return build.cast(finished(call, aggregated, call.attr("post_transform", "NONE")), DType.F32)


@operator("TreeEnsembleClassifier", domain=ML)
def tree_classifier(call: OperatorCall) -> tuple[Node, ...]:
    """The label with the highest score, and the scores. If trees score only one of two classes, the
    other gets the complement.
    """
    forest, places = _by_keys(call, "class")
    labels = call.attr("classlabels_int64s", None)
    classes = len(labels or call.attr("classlabels_strings", []))
    aggregated = _aggregated(
        call, forest, places, max(classes, 1 + max(t for _, t, _ in places)), "SUM"
    )
    base = _held(call, "base_values")
    single = len({target for _, target, _ in places}) == 1 and classes <= 2
    if base is not None and not (single and len(base) == 1):
        aggregated = build.add(aggregated, build.constant(np.asarray(base), aggregated.type.dtype))
    transform = call.attr("post_transform", "NONE")
    if not single:
        return labelled(call, build.apply1("argmax", aggregated, axis=1), labels), build.cast(
            finished(call, aggregated, transform), DType.F32
        )
    score = build.cut(aggregated, 1, places[0][1], places[0][1] + 1)
    if base is not None and len(base) == 1:
        score = build.add(score, float(base[0]))
    positive = all(w >= 0 for _, _, w in places)
    hit = build.compare(score, "gt", 0.5 if positive else 0.0)
    chosen = build.cast(build.reshape(hit, [-1]), DType.I64)
    return labelled(call, chosen, labels), build.cast(
        two(call, score, transform, positive), DType.F32
    )


def _aggregated(
    call: OperatorCall,
    forest: Forest,
    places: Sequence[tuple[int, int, float]],
    targets: int,
    aggregate: str,
) -> Node:
    """For each row and target, the aggregate of the weights of the leaves that the row reaches."""
    x = build.floating(call[0])
    if x.type.rank == 1:
        x = build.reshape(x, [1, -1])
    leaves = walked(forest, x)
    if aggregate not in AGGREGATES:
        call.fail(f"aggregate_function '{aggregate}' is not one of {', '.join(AGGREGATES)}")
    sums = aggregate in ("SUM", "AVERAGE")
    start = 0.0 if sums else np.inf if aggregate == "MIN" else -np.inf
    check_size((forest.size, targets), 8, TABLE)
    table: Array = np.full((forest.size, targets), start)
    for place, target, weight in places:
        if not 0 <= target < targets:
            call.fail(f"a leaf is for target {target}, and there are {targets}")
        before = table[place, target]
        table[place, target] = (
            before + weight
            if sums
            else min(before, weight)
            if aggregate == "MIN"
            else max(before, weight)
        )
    given = build.take(build.constant(table, x.type.dtype), leaves, 0)
    leaf_values = build.reduce(given, "add" if sums else aggregate.lower(), [1])
    return (
        build.div(leaf_values, float(len(forest.roots))) if aggregate == "AVERAGE" else leaf_values
    )
