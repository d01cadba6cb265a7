"""Pairs of bytes in which operators of two tensors once differed from the kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sweep_pairs import Pairs, ours, pairs

CASES = {each.name: each for each in pairs()}


@pytest.mark.parametrize("dtype", ["i8", "i16"])
def test_the_least_number_over_minus_one_is_itself(dtype: str, tmp_path: Path) -> None:
    each = CASES[f"FLOOR_DIV {dtype} usual none none"]
    found = ours(each, tmp_path / "model.tflite")
    assert found is not None
    x, y = each.inputs()
    least = np.iinfo(x.dtype).min
    assert found[x[:, 0] == least][:, y[0] == -1].tolist() == [[least]]


def test_a_difference_that_is_always_clamped_stays_clamped(tmp_path: Path) -> None:
    found = ours(CASES["SUB i8 apart low none"], tmp_path / "model.tflite")
    assert found is not None and found.max() == found.min() == -128


def test_quotients_are_compared_where_the_kernel_shifts_by_a_word_at_most() -> None:
    each = CASES["DIV i8 usual none none"]
    assert isinstance(each, Pairs) and not each.defined().all()
    x, y = each.inputs()
    assert each.defined()[x[:, 0] == 100].all()
    assert not each.defined()[x[:, 0] == 0][:, y[0] > 40].any()
    assert CASES["ADD i8 usual none none"].defined().all()
