"""Artefacts as pickles, which other processes and machines run without compiling."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
inputs: {x: "f32[4]"}
state: {seen: {type: "f32[4]", next: total}}
weights: {init: {seed: 0}}
graph:
  w: {op: linear, in: "reshape(x, [1, 4])", units: 4}
  total: seen + reshape(w, [4])
outputs: [total]
"""
OTHER = """
import pickle, sys
model = pickle.load(open(sys.argv[1], "rb"))
assert not any(name in sys.modules for name in ("llvmlite", "xlac.driver"))
print(model([1, 2, 3, 4]).tolist(), model([1, 2, 3, 4]).tolist())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.yaml").write_text(SPEC, "utf-8")
    assert status(["build", str(tmp_path / "m.yaml"), "-o", str(tmp_path / "out")]) == 0
    return tmp_path / "out"


def test_another_process_runs_it_without_its_folder(folder: Path, tmp_path: Path) -> None:
    """With the state that it had, and without the compiler."""
    model = xlac.load(folder)
    model([4, 3, 2, 1])
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    wanted = [model([1, 2, 3, 4]).tolist() for _ in range(2)]
    shutil.rmtree(folder)
    command = [sys.executable, "-c", OTHER, str(tmp_path / "model.pickle")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert told.stdout.strip() == " ".join(map(str, wanted))


def test_its_folder_is_gone_with_a_copy(folder: Path) -> None:
    model = pickle.loads(pickle.dumps(xlac.load(folder)))
    place = model._folder
    assert place.is_dir()
    assert place != folder
    del model
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
