"""Sorting, choosing and running sums against NumPy."""

from __future__ import annotations

import numpy as np
from reference_runs import close, normal, run


def test_order() -> None:
    x = np.array([[3.0, np.nan, 1.0, 3.0, -np.inf], [0.0, -0.0, 5.0, np.nan, np.nan]])
    np.testing.assert_array_equal(run("sort", x), np.sort(x))
    np.testing.assert_array_equal(run("argsort", x), np.argsort(x, kind="stable"))
    values, places = run("topk", x, k=3)
    np.testing.assert_array_equal(values, [[np.nan, 3, 3], [np.nan, np.nan, 5]])
    np.testing.assert_array_equal(places, [[1, 0, 3], [3, 4, 2]])
    down = run("sort", x, axis=0, descending=True)
    np.testing.assert_array_equal(down[0], [3, np.nan, 5, np.nan, np.nan])
    keys, values = run("sort", np.array([2, 1, 2, 1]), np.array([5, 7, 3, 6]), keys=2)
    assert keys.tolist() == [1, 1, 2, 2] and values.tolist() == [6, 7, 3, 5]


def test_choosing() -> None:
    x = normal(4, 5)
    close(run("take", x, np.array([[0, -1], [9, 2]])), x[[[0, -1], [3, 2]]])
    i = np.array([[0, 4], [1, -1], [2, 2], [3, 0]])
    close(run("take_along_axis", x, i), np.take_along_axis(x, i, 1))
    close(run("gather_nd", x, np.array([[0, 1], [3, 4]])), x[[0, 3], [1, 4]])
    wanted = x.copy()
    np.add.at(wanted, ([0, 1, 1], [2, 2, 2]), [1.0, 2.0, 3.0])
    close(
        run(
            "scatter_nd",
            x,
            np.array([[0, 2], [1, 2], [1, 2]]),
            np.array([1.0, 2.0, 3.0]),
            combine="add",
        ),
        wanted,
    )
    close(
        run("one_hot", np.array([1, -1, 7, 0]), depth=3),
        [[0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]],
    )


def test_cumulative() -> None:
    x = normal(3, 5)
    close(run("cumsum", x), x.cumsum(-1))
    close(run("cumsum", x, axis=0, reverse=True), x[::-1].cumsum(0)[::-1])
    close(
        run("cumprod", x, exclusive=True),
        np.concatenate([np.ones((3, 1)), x.cumprod(-1)[:, :-1]], -1),
    )
    close(run("cummax", x), np.maximum.accumulate(x, -1))
