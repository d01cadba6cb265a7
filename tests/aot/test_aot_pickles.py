"""Artefacts as pickles, which other processes and machines run without compiling."""

from __future__ import annotations

import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from pickled_models import OPEN, SPEC, copied, keeps_its_sizes, runs_elsewhere, stays_in_a_child

import xlac
from xlac.cli import status
from xlac_sdk.source import SourceError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.yaml").write_text(SPEC, "utf-8")
    assert status(["build", str(tmp_path / "m.yaml"), "-o", str(tmp_path / "out")]) == 0
    return tmp_path / "out"


def test_another_process_runs_it_without_its_folder(folder: Path, tmp_path: Path) -> None:
    """With the state that it had, and without the compiler."""
    model = xlac.load(folder)
    model([4, 3, 2, 1])
    pickled = pickle.dumps(model)
    shutil.rmtree(folder)
    runs_elsewhere(pickled, model, tmp_path / "model.pickle")


def test_its_folder_is_gone_with_a_copy(folder: Path) -> None:
    model = copied(xlac.load(folder))
    place = model._folder
    assert place.is_dir()
    assert place != folder
    held = [model]
    del model
    stays_in_a_child(place, held.clear)
    held.clear()
    assert not place.exists()


@pytest.mark.long
def test_a_pool_of_processes_maps_it(folder: Path) -> None:
    model = xlac.load(folder)
    rows = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(model, rows))
    for row, got in zip(rows, found, strict=True):
        model.reset()
        np.testing.assert_array_equal(got, model(row))


def test_a_changed_folder_is_not_pickled(folder: Path) -> None:
    model = xlac.load(folder)
    library = next(path for path in folder.iterdir() if path.suffix == ".so")
    library.write_bytes(library.read_bytes() + b"!")
    with pytest.raises(SourceError, match="changed"):
        pickle.dumps(model)


def test_a_folder_that_was_built_again_is_not_pickled(folder: Path, tmp_path: Path) -> None:
    """Its files are whole, and of another model than the state."""
    model = xlac.load(folder)
    other = tmp_path / "m.yaml"
    other.write_text(SPEC.replace("seed: 0", "seed: 1"), "utf-8")
    assert status(["build", str(other), "-o", str(folder)]) == 0
    with pytest.raises(SourceError, match="built again since it was loaded"):
        pickle.dumps(model)


def test_the_sizes_of_its_state(tmp_path: Path) -> None:
    file = tmp_path / "open.yaml"
    file.write_text(OPEN, "utf-8")
    assert status(["build", str(file), "--dim", "n", "-o", str(tmp_path / "out")]) == 0
    keeps_its_sizes(xlac.load(tmp_path / "out"))
