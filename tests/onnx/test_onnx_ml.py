"""ai.onnx.ml and others that ONNX's suite leaves out, beside ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_cases import agree, model, ours, reference, single, value

from xlac.frontends.onnx import load
from xlac_sdk.source import SourceError

ML = "ai.onnx.ml"
RNG = np.random.default_rng(5)
X = RNG.standard_normal((7, 4)).astype(np.float32)


def check(
    operator: str, *arrays: np.ndarray, outputs: int = 1, rtol: float = 1e-4, **attributes: Any
) -> None:
    proto = single(operator, arrays or (X,), outputs, domain=ML, **attributes)
    agree(proto, {f"x{n}": a for n, a in enumerate(arrays or (X,))}, rtol=rtol, atol=1e-5)


def test_features() -> None:
    check("Scaler", offset=[0.5, 1, 2, 3], scale=[1, 2, 3, 4])
    check("Scaler", offset=[0.5], scale=[2])
    for norm in ("MAX", "L1", "L2"):
        check("Normalizer", norm=norm)
    check("Binarizer", threshold=0.25)
    holes = X.copy()
    holes[::2, 1] = np.nan
    check("Imputer", holes, imputed_value_floats=[1.0, 2, 3, 4], replaced_value_float=float("nan"))
    check("FeatureVectorizer", X, X[:, :2], inputdimensions=[3, 4])
    check("ArrayFeatureExtractor", X, np.asarray([[2, 0]]))
    check("OneHotEncoder", np.asarray([[1, 7, 3]]), cats_int64s=[3, 1], zeros=1)


@pytest.mark.parametrize("keys", ["keys_int64s", "keys_floats"])
def test_label_encoder(keys: str) -> None:
    proto = single(
        "LabelEncoder",
        (np.asarray([3, 1, 9, 3], np.int64 if keys == "keys_int64s" else np.float32),),
        domain=ML,
        **{keys: [1, 3], "values_floats": [0.5, 1.5], "default_float": -2.0},
    )
    proto.opset_import[1].version = 2
    x = np.asarray([3, 1, 9, 3], np.int64 if keys == "keys_int64s" else np.float32)
    np.testing.assert_array_equal(
        ours(proto, {"x0": x})[0], np.asarray([1.5, 0.5, -2, 1.5], np.float32)
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.sampled(4)
def test_linear_classifier(transform: str, classes: int) -> None:
    rows = 1 if classes == 2 else classes
    check(
        "LinearClassifier",
        outputs=2,
        coefficients=RNG.standard_normal(rows * 4).tolist(),
        intercepts=RNG.standard_normal(rows).tolist(),
        classlabels_ints=list(range(10, 10 + classes)),
        multi_class=0,
        post_transform=transform,
    )


def test_linear_regressor() -> None:
    check(
        "LinearRegressor",
        coefficients=RNG.standard_normal(8).tolist(),
        intercepts=[0.5, 1.0],
        targets=2,
        post_transform="NONE",
    )


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.sampled(4)
def test_support_vectors(kernel: str) -> None:
    about: dict[str, Any] = {
        "kernel_type": kernel,
        "kernel_params": [0.3, 0.5, 2.0],
        "post_transform": "NONE",
    }
    check(
        "SVMRegressor",
        coefficients=RNG.standard_normal(5).tolist(),
        n_supports=5,
        rho=[0.2],
        support_vectors=RNG.standard_normal(20).tolist(),
        **about,
    )
    check(
        "SVMClassifier",
        outputs=2,
        coefficients=RNG.standard_normal(12).tolist(),
        vectors_per_class=[1, 2, 3],
        rho=[0.2, -0.1, 0.3],
        support_vectors=RNG.standard_normal(24).tolist(),
        classlabels_ints=[4, 5, 6],
        **about,
    )


def trees(count: int) -> dict[str, list[Any]]:
    """Trees of depth 2 on random features: node 0, its children 1 and 2, leaves 3 to 6."""
    found: dict[str, list[Any]] = {
        name: []
        for name in (
            "treeids",
            "nodeids",
            "featureids",
            "modes",
            "values",
            "truenodeids",
            "falsenodeids",
            "missing_value_tracks_true",
        )
    }
    for tree in range(count):
        for number in range(7):
            inner = number < 3
            found["treeids"].append(tree)
            found["nodeids"].append(number)
            found["featureids"].append(int(RNG.integers(4)) if inner else 0)
            found["modes"].append(
                str(RNG.choice(["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT"]))
                if inner
                else "LEAF"
            )
            found["values"].append(float(RNG.standard_normal()) if inner else 0.0)
            found["truenodeids"].append(2 * number + 1 if inner else 0)
            found["falsenodeids"].append(2 * number + 2 if inner else 0)
            found["missing_value_tracks_true"].append(int(RNG.integers(2)))
    return {f"nodes_{name}": held for name, held in found.items()}


def leaves(count: int, targets: int) -> tuple[list[int], list[int], list[int], list[float]]:
    places = [
        (tree, leaf, target)
        for tree in range(count)
        for leaf in range(3, 7)
        for target in range(targets)
    ]
    ids = tuple(list(column) for column in zip(*places, strict=True))
    return *ids, RNG.standard_normal(len(places)).tolist()  # type: ignore[return-value]


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_tree_regressor(aggregate: str) -> None:
    tree, leaf, target, weight = leaves(5, 2)
    rows = X.copy()
    rows[0, :] = np.nan
    check(
        "TreeEnsembleRegressor",
        rows,
        n_targets=2,
        aggregate_function=aggregate,
        post_transform="NONE",
        base_values=[0.5, -0.5],
        target_treeids=tree,
        target_nodeids=leaf,
        target_ids=target,
        target_weights=weight,
        **trees(5),
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_tree_classifier(transform: str) -> None:
    tree, leaf, target, weight = leaves(5, 3)
    check(
        "TreeEnsembleClassifier",
        outputs=2,
        classlabels_int64s=[7, 8, 9],
        post_transform=transform,
        class_treeids=tree,
        class_nodeids=leaf,
        class_ids=target,
        class_weights=weight,
        **trees(5),
    )


def test_trees_that_go_round_are_refused() -> None:
    about = trees(1)
    about["nodes_truenodeids"][2] = 0
    tree, leaf, target, weight = leaves(1, 1)
    proto = single(
        "TreeEnsembleRegressor",
        (X,),
        domain=ML,
        n_targets=1,
        target_treeids=tree,
        target_nodeids=leaf,
        target_ids=target,
        target_weights=weight,
        **about,
    )
    with pytest.raises(SourceError, match="cycle"):
        load(proto)


def test_labels_that_are_text_are_refused_where_they_are_wanted() -> None:
    about: dict[str, Any] = {
        "coefficients": [1.0] * 8,
        "classlabels_strings": ["a", "b"],
        "post_transform": "NONE",
    }
    with pytest.raises(SourceError, match="labels are text"):
        load(single("LinearClassifier", (X,), 2, domain=ML, **about))
    node = helper.make_node("LinearClassifier", ["x0"], ["", "y"], domain=ML, **about)
    load(model([node], [value("x0", [7, 4])], [value("y", None)], ai_onnx_ml=1))


def test_broadcasting_before_operator_set_7() -> None:
    x, y = (
        RNG.standard_normal((2, 3, 4)).astype(np.float32),
        RNG.standard_normal(3).astype(np.float32),
    )
    proto = single("Add", (x, y), version=6, broadcast=1, axis=1)
    np.testing.assert_array_equal(ours(proto, {"x0": x, "x1": y})[0], x + y[:, None])


def test_random_numbers_are_what_they_say() -> None:
    proto = single("RandomNormal", (), shape=[40000], mean=3.0, scale=2.0)
    found = ours(proto, {})[0]
    assert abs(found.mean() - 3) < 0.05 and abs(found.std() - 2) < 0.05
    seeded = single("RandomUniform", (), shape=[5], seed=7.0, low=1.0, high=3.0)
    np.testing.assert_allclose(ours(seeded, {})[0], reference(seeded, {})[0], rtol=1e-6)
    odds = np.log(np.asarray([[0.2, 0.5, 0.3]], np.float32))
    drawn = ours(single("Multinomial", (odds,), sample_size=20000), {"x0": odds})[0]
    np.testing.assert_allclose(
        np.bincount(drawn[0], minlength=3) / 20000, [0.2, 0.5, 0.3], atol=0.02
    )
    chance = np.full(20000, 0.3, np.float32)
    assert abs(ours(single("Bernoulli", (chance,)), {"x0": chance})[0].mean() - 0.3) < 0.02


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_determinants(n: int) -> None:
    x = RNG.standard_normal((3, n, n))
    x[1, 0] = 0
    agree(single("Det", (x,), version=22), {"x0": x}, rtol=1e-9, atol=1e-9)
