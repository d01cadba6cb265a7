"""Sums of two tensors of bytes in 32 bits beside the kernels' steps, for every pair of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_case import case, q

from xlac.frontends.loader import load
from xlac.frontends.tflite.byte_sums import BITS, LinearForm, byte_values, linear_form
from xlac.ir.graph import Graph
from xlac.ir.interpret import run_body
from xlac.ops import build
from xlac_sdk.dtypes import DType

Array = np.ndarray[Any, Any]
Scales = tuple[float, float, float]
Zeros = tuple[int, int, int]


def real(x: Array, y: Array, scales: Scales, zeros: Zeros, sign: int) -> Array:
    """x + sign y in real numbers, as steps of the result."""
    (a, b, out), (p, q, r) = scales, zeros
    total: Array = (a * (x - p) + sign * b * (y - q)) / out + r
    return total


@pytest.mark.parametrize("name", ["ADD", "SUB"])
@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_sums_of_bytes_are_computed_in_32_bits(name: str, kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    dtype = DType.I8 if kind == "i8" else DType.U8
    values, offset = byte_values(dtype), 0 if kind == "i8" else 128
    x, y = values[:, None], values[None]
    for number in range(8):
        a, b = np.exp(random.uniform(np.log(0.003), np.log(0.2), 2))
        scales = (float(a), float(b), float(max(a, b) * random.uniform(0.5, 1.9)))
        p, o, r = (int(n) + offset for n in random.integers(-128, 128, 3))
        left, right = q(256, 1, dtype=kind, scale=a, zero=p), q(1, 256, dtype=kind, scale=b, zero=o)
        out = q(256, 256, dtype=kind, scale=scales[2], zero=r)
        file = tmp_path / f"{number}.tflite"
        file.write_bytes(
            case(name, name, left, right, out=out, table=f"{name.title()}Options").file()
        )
        graph = load(file).graph
        assert all(node.type.dtype.bits <= 32 for node in graph.nodes())
        (found,) = run_body(graph, [x.astype(dtype.numpy), y.astype(dtype.numpy)])
        wanted = real(x, y, scales, (p, o, r), 1 if name == "ADD" else -1)
        assert np.abs(found - np.clip(wanted, values[0], values[-1])).max() < 0.501


def test_halves_go_away_from_zero_by_a_larger_slope() -> None:
    values = byte_values(DType.I8)
    total = values[:, None] + values[None]
    table = np.sign(total) * (np.abs(total) + 1 >> 1)
    found = linear_form(table, DType.I8, (0.5, 0.5), (-128, 127))
    assert found is not None and found.a > 1 << found.bits - 1


def test_a_table_of_one_number_holds_beyond_its_pairs_too() -> None:
    # each pair is clamped to the least number: no sum may reach the one above it
    values = byte_values(DType.I8)
    table = np.full((256, 256), -128)
    form = linear_form(table, DType.I8, (0.001, -0.9), (-128, 127))
    assert form is not None
    total = form.a * values[:, None] + form.b * values[None] + form.c
    assert (total >> form.bits).max() <= -128


def test_a_table_that_is_no_plane_has_no_form() -> None:
    values = byte_values(DType.I8)
    table = values[:, None] + values[None] >> 1
    table[100, 100] += 1
    assert linear_form(table, DType.I8, (0.5, 0.5), (-128, 127)) is None


def test_a_form_stays_in_32_bits() -> None:
    values = byte_values(DType.U8)
    slopes = (1.8713, -0.7241)
    real = slopes[0] * values[:, None] + slopes[1] * values[None]
    table = np.clip(np.floor(real + 0.5), 0, 255).astype(np.int64)
    form = linear_form(table, DType.U8, slopes, (0, 255))
    assert form is not None
    parts = form.a * values[:, None], form.b * values[None]
    assert max(np.abs(part).max() for part in (*parts, sum(parts), sum(parts) + form.c)) < 1 << BITS
    assert np.array_equal(np.clip(sum(parts) + form.c >> form.bits, 0, 255), table)


def test_a_form_is_a_node() -> None:
    x, y = build.param("x", DType.I8, (2,)), build.param("y", DType.I8, (2,))
    node = LinearForm(3, -5, 7, 2).of(x, y)
    given = [np.array([-128, 127], np.int8), np.array([5, -6], np.int8)]
    (found,) = run_body(Graph("f", (x, y), {"z": node}), given)
    assert found.tolist() == [(3 * -128 - 25 + 7) >> 2, (3 * 127 + 30 + 7) >> 2]
