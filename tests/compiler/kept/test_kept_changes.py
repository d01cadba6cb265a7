"""What changes while it is compiled or kept is not kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept_models import ROW, SPEC, settle, weights

import xlac
from xlac import driver
from xlac.cache import compilations
from xlac.support import dependencies


@pytest.mark.sampled(8)
@pytest.mark.parametrize("hashed", [0, dependencies.HASHED])
@pytest.mark.parametrize("file", ["small.yaml", "weights.safetensors"])
@pytest.mark.parametrize("when", ["before it is read", "after"])
@pytest.mark.parametrize("how", ["renamed", "in place", "twice"])
def test_what_changes_while_it_is_compiled_is_not_kept(
    how: str,
    when: str,
    file: str,
    hashed: int,
    spec: Path,
    compiled: list[object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever a file holds now is what the next compilation computes, however often and whenever
    it changed.
    """
    monkeypatch.setattr(dependencies, "HASHED", hashed)
    place = spec.parent / file
    first, made = place.read_bytes(), spec.parent / "made"
    if file == "small.yaml":
        second = first.replace(b"scale: 3.0", b"scale: 6.0")
    else:
        weights(spec.parent, 1)
        second = place.read_bytes()
        place.write_bytes(first)
    settle(spec)

    def put(data: bytes) -> None:
        if how == "renamed":
            made.write_bytes(data)
            made.replace(place)
        else:
            place.write_bytes(data)

    real = driver.lower if when == "after" else driver.load

    def changing(*args: Any, **named: Any) -> Any:
        if when == "before it is read":
            put(second)
        done = real(*args, **named)
        put(first if how == "twice" else second)
        return done

    with monkeypatch.context() as slow:
        slow.setattr(driver, real.__name__, changing)
        try:
            xlac.compile(spec, dims={"n": 2})
        except xlac.SourceError as error:  # part of the weights may be old, and part new
            assert "XL3015" in str(error) and how != "renamed" and file != "small.yaml"
    found = xlac.compile(spec, dims={"n": 2})(ROW)
    monkeypatch.setenv("XLAC_CACHE", "off")
    np.testing.assert_array_equal(found, xlac.compile(spec, dims={"n": 2})(ROW))


def test_weights_that_change_while_they_are_kept_are_not(
    spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constants are mapped from the file that they are copied from: half of them could be of
    another version.
    """
    settle(spec)
    real = compilations.write_constants

    def late(*args: Any) -> None:
        weights(spec.parent, 1)
        real(*args)

    with monkeypatch.context() as slow:
        slow.setattr(compilations, "write_constants", late)
        xlac.compile(spec, dims={"n": 2})
    assert not list((spec.parent / "cache").glob(f"??/*/{compilations.PROGRAM}"))


@pytest.mark.parametrize("change", ["other text", "no file"])
def test_a_model_that_was_read_before_a_change_is_compiled_as_it_was_read(
    spec: Path, lowered: list[object], change: str
) -> None:
    before = xlac.compile(spec)
    right = before(ROW)
    spec.write_text(SPEC.replace("scale: 3.0", "scale: 6.0"))
    after = xlac.compile(spec)
    np.testing.assert_array_equal(after(ROW), 2 * right)
    if change == "no file":
        spec.unlink()
    one = before(ROW[:1])
    np.testing.assert_allclose(one, right[:1], rtol=1e-6)
    if change == "other text":
        np.testing.assert_allclose(after(ROW[:1]), 2 * one, rtol=1e-6)
    assert len(lowered) == (4 if change == "other text" else 3)
