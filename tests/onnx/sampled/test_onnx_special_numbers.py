"""NaN, infinities and numbers whose squares overflow, in attention and normalizations: what
docs/ONNX.md promises of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_node import Array, backend
from window_models import model, normal

ODD = [np.nan, np.inf, -np.inf, 1e30]


def attended(given: dict[str, Array | None], **attributes: Any) -> Array:
    made = model("Attention", given, 23, **attributes)
    return np.asarray(
        backend.prepare(made).run({n: x for n, x in given.items() if x is not None})[0]
    )


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("how", ["causal", "bool"])
def test_hidden_keys_have_no_part(how: str, odd: float) -> None:
    """Keys from 2 on are hidden from queries 0 and 1, which are odd themselves where the score is
    to overflow.
    """
    q, k, v = normal(0, 1, 2, 4, 8), normal(1, 1, 2, 4, 8), normal(2, 1, 2, 4, 8)
    q[0, :, :2, 5] = 1e30 if odd == 1e30 else 1.0
    k[0, :, :2, 5] = 0
    mask = np.tril(np.ones((4, 4), bool)) if how == "bool" else None
    attributes = {"is_causal": 1} if how == "causal" else {}
    given: dict[str, Array | None] = {"q": q, "k": k, "v": v, "m": mask}
    usual = attended(given, **attributes)
    strange = k.copy()
    strange[0, :, 2:, 5] = odd
    found = attended(given | {"k": strange}, **attributes)
    np.testing.assert_allclose(found[0, :, :2], usual[0, :, :2], rtol=1e-5, atol=1e-6)
    assert np.isfinite(found[0, :, :2]).all()


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_a_seen_score_that_is_none_makes_the_row_none(odd: float) -> None:
    q, k, v = np.abs(normal(0, 1, 1, 3, 4)), normal(1, 1, 1, 3, 4), normal(2, 1, 1, 3, 4)
    k[0, 0, 1, 2] = odd
    found = attended({"q": q, "k": k, "v": v}, is_causal=1)
    assert np.isfinite(found[0, 0, 0]).all() and np.isnan(found[0, 0, 1:]).all()


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "op", ["GroupNormalization", "InstanceNormalization", "LayerNormalization"]
)
def test_what_is_measured_apart_stays_as_it_is(op: str, odd: float) -> None:
    """The first of what is measured together holds an odd number."""
    x, learned = (
        normal(0, 2, 4, 3),
        {
            "scale": normal(1, 4 if op != "LayerNormalization" else 3),
            "bias": normal(2, 4 if op != "LayerNormalization" else 3),
        },
    )
    attributes = {"num_groups": 2} if op == "GroupNormalization" else {}

    def run(x: Array) -> Array:
        return np.asarray(
            backend.prepare(model(op, {"x": x, **learned}, 21, **attributes)).run(
                {"x": x, **learned}
            )[0]
        )

    usual = run(x)
    x[0, 0, 0] = odd
    found = run(x)
    together = np.zeros(x.shape, bool)
    together[0, : 2 if op == "GroupNormalization" else 1] = True
    np.testing.assert_allclose(found[~together], usual[~together], rtol=1e-5, atol=1e-6)
    if odd != 1e30:
        assert np.isnan(found[together]).all()
    else:
        shift = np.broadcast_to(
            learned["bias"] if op == "LayerNormalization" else learned["bias"][:, None], x.shape
        )
        assert (np.isnan(found) | (found == shift))[together].all()
