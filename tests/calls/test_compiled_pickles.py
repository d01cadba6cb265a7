"""What `xlac.compile` gives as pickles, which other processes run without the model."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
from pickled_models import OPEN, SPEC, copied, keeps_its_sizes, runs_elsewhere, stays_in_a_child

import xlac
from xlac_sdk.host.capi import opened
from xlac_sdk.source import UnavailableError, UnsupportedError


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, and a cache of its own."""
    monkeypatch.setenv("XLAC_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "m.yaml"
    file.write_text(SPEC, "utf-8")
    return file


def test_another_process_runs_it_without_the_model(spec: Path, tmp_path: Path) -> None:
    """With the state that it had, without the compiler, and as a pickle of its own."""
    model = xlac.compile(spec)
    model([4, 3, 2, 1])
    pickled = pickle.dumps(model)
    spec.unlink()
    shutil.rmtree(tmp_path / "cache")
    runs_elsewhere(pickled, model, tmp_path / "model.pickle")


def test_one_from_the_cache_too(spec: Path) -> None:
    wanted = xlac.compile(spec)([1, 2, 3, 4])
    again = xlac.compile(spec)
    assert isinstance(again.artifact, str)
    np.testing.assert_array_equal(copied(again)([1, 2, 3, 4]), wanted)


def test_one_whose_code_left_the_cache(spec: Path, tmp_path: Path) -> None:
    xlac.compile(spec)
    again = xlac.compile(spec)
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(UnavailableError, match="no longer in the cache"):
        pickle.dumps(again)


def test_damaged_code_is_not_pickled(spec: Path) -> None:
    """A process that unpickled it would run whatever is there."""
    xlac.compile(spec)
    again = xlac.compile(spec)
    assert isinstance(again.artifact, str)
    code = Path(again.artifact)
    code.write_bytes(code.read_bytes()[:-1] + b"!")
    with pytest.raises(UnavailableError, match="or is damaged there"):
        pickle.dumps(again)


def test_one_that_was_not_kept_is_built_again(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_CACHE", "off")
    model = xlac.compile(spec)
    assert model.artifact is None
    copy = copied(model)
    np.testing.assert_array_equal(copy([1, 2, 3, 4]), model([1, 2, 3, 4]))


def test_its_folder_is_gone_with_it(spec: Path) -> None:
    copy = copied(xlac.compile(spec))
    place = Path(copy.artifact).parents[1]
    assert place.is_dir()
    held = [copy]
    del copy
    stays_in_a_child(place, held.clear)
    held.clear()
    assert not place.exists()


def test_any_size_and_what_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "rows.yaml"
    file.write_text(
        "xlac: 1\ndims: {n: {min: 1, max: 9, opt: 2}}\ninputs: {x: 'f32[n, 3]'}\n"
        "graph: {y: log(x)}\noutputs: [y]\n"
    )
    copy = copied(xlac.compile(file, sizes="symbolic", checked="nan"))
    for rows in (1, 7):
        x = np.full((rows, 3), 2, np.float32)
        np.testing.assert_allclose(copy(x), np.log(x), rtol=1e-6)
    with pytest.raises(xlac.CheckFailed, match="NaN appears"):
        copy(-np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match='sizes="symbolic"'):
        pickle.dumps(xlac.compile(file))


def test_the_sizes_of_its_state(tmp_path: Path) -> None:
    file = tmp_path / "open.yaml"
    file.write_text(OPEN, "utf-8")
    keeps_its_sizes(xlac.compile(file, sizes="symbolic"))


def test_a_processor_that_cannot_run_it(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(xlac.compile(spec, cpu="x86-64-v3"))
    monkeypatch.setattr(opened, "features", lambda: {"sse2"})
    with pytest.raises(UnavailableError) as caught:
        pickle.loads(pickled)
    assert caught.value.diagnostics[0].code == "XL5109"


def test_targets_that_need_their_steps_say_so(spec: Path) -> None:
    with pytest.raises(UnsupportedError, match="xlac build"):
        pickle.dumps(xlac.compile(spec, target="reference"))
