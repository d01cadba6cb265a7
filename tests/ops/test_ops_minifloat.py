"""Minifloat formats against `ml_dtypes`: every code, and the numbers at, between and around the
codes.
"""

from __future__ import annotations

from importlib import metadata

import ml_dtypes
import numpy as np
import pytest

from xlac import compile
from xlac.ir.graph import Graph
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops import build
from xlac.ops.scalar.minifloat import FORMATS
from xlac_sdk.dtypes import DType


def foreign(format: str) -> np.dtype:
    """ml_dtypes' name of a format: f8e4m3fn is float8_e4m3fn."""
    return np.dtype(getattr(ml_dtypes, f"float{format[1]}_{format[2:]}"))


def numbers(format: str, dtype: DType) -> Array:
    """All numbers of a format, the middles between neighbours, and the floats next to each of
    these.

    In f64 these are floats of f32, through which ml_dtypes rounds.
    """
    known = FORMATS[format].values
    known = np.unique(np.abs(known[np.isfinite(known)]))
    beyond = known[-1] * np.array([1.0625, 1.5, 1.75, 4.0, 1e6])
    points = np.concatenate(
        [
            known,
            (known[1:] + known[:-1]) / 2,
            beyond,
            known / 3,
            [0.0, 1e-30, 1e-39, 2.0**-127, 2.0**-128],
        ]
    )
    with np.errstate(over="ignore", invalid="ignore"):
        points = points.astype(np.float32)
        around = np.concatenate(
            [points, np.nextafter(points, 0), np.nextafter(points, np.inf), [np.inf, np.nan]]
        )
        return np.concatenate([around, -around]).astype(dtype.numpy)


def run(mnemonic: str, x: Array, **attributes: object) -> tuple[Array, Array]:
    """The interpreter's answer and the compiler's."""
    node = build.param("x", DType.of(x.dtype), x.shape)
    graph = Graph("g", (node,), {"y": build.apply1(mnemonic, node, **attributes)})
    return interpret(graph, {"x": x})["y"], compile(Model(graph, {}), target="cpu")(x)


@pytest.mark.parametrize("format", FORMATS)
def test_every_code_is_decoded(format: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    kept = codes & (2 * FORMATS[format].sign - 1) if FORMATS[format].signed else codes
    wanted = kept.view(foreign(format)).astype(np.float32)
    for found in run("decode_float", codes, format=format):
        np.testing.assert_array_equal(found, wanted)
        assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64, DType.F16, DType.BF16], ids=str)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.sampled(4)
def test_numbers_are_rounded_as_ml_dtypes_rounds_them(format: str, dtype: DType) -> None:
    x = numbers(format, dtype)
    release = tuple(map(int, metadata.version("ml_dtypes").split(".")[:2]))
    if format == "f8e8m0fnu" and release < (0, 7):
        x = x[(x <= 2.0**-127) | (x >= 2.0**-126)]  # it rounded all between these up
    with np.errstate(all="ignore"):
        wanted = x.astype(foreign(format)).view(np.uint8)
    finite = FORMATS[format].ending == "finite"  # what NaN becomes there is nowhere said
    for found in run("encode_float", x, format=format):
        wrong = (found != wanted) & ~(finite & np.isnan(x))
        assert not wrong.any(), list(zip(x[wrong], found[wrong], wanted[wrong], strict=True))[:8]


@pytest.mark.parametrize("format", FORMATS)
def test_saturation_keeps_the_largest_number(format: str) -> None:
    form, x = FORMATS[format], np.array([1e38, 3e38, -3e38, np.inf, -np.inf], np.float32)
    wanted = [
        form.largest,
        form.largest,
        form.largest | form.sign,
        form.largest,
        form.largest | form.sign,
    ]
    if not form.signed:
        wanted = [253, 254, form.nan, form.nan, form.nan]
    for found in run("encode_float", x, format=format, saturate=True):
        assert found.tolist() == wanted


def test_powers_of_two_round_up_or_down_when_asked() -> None:
    x = np.array([1.0, 1.1, 1.9, 2.0, 2.0**-127, 2.0**-127 * 1.5], np.float32)
    for rounding, wanted in (
        ("up", [127, 128, 128, 128, 0, 1]),
        ("down", [127, 127, 127, 128, 0, 0]),
    ):
        for found in run("encode_float", x, format="f8e8m0fnu", rounding=rounding):
            assert found.tolist() == wanted


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_powers_of_two_are_the_nearest_ties_up(dtype: DType) -> None:
    """The least of them too, which is subnormal in f32; f64 is not rounded to f32 first."""
    powers = 2.0 ** np.array([-127.0, -126.0, 0.0, 126.0])
    ties = (powers * 1.5).astype(dtype.numpy)
    below, above = np.nextafter(ties, 0), np.nextafter(ties, np.inf)
    x = np.concatenate([powers.astype(dtype.numpy), below, ties, above])
    codes = np.array([0, 1, 127, 253], np.uint8)
    wanted = np.concatenate([codes, codes, codes + 1, codes + 1])
    for found in run("encode_float", x, format="f8e8m0fnu"):
        np.testing.assert_array_equal(found, wanted)
