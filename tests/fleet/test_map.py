"""`xlac map`: every row once, whatever happens to the processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from xlac.artefact.loader import load
from xlac.cli import status
from xlac.fleet.engines import by_dask, by_processes, by_ray
from xlac.fleet.job import MapJob, RowRange, all_parts, begin, compute, tidy
from xlac_sdk.dtypes import Array
from xlac_sdk.source import SourceError

SPEC = """\
xlac: 1
dims: {n: {min: 1, max: 4096, opt: 8}}
inputs: {x: "f32[n, 4]"}
weights: {init: {seed: 0}}
graph:
  y: {op: linear, in: x, units: 3}
  best: argmax(y, axis=-1)
outputs: [y, best]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "m.yaml").write_text(SPEC, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(folder: Path, rows: int) -> Array:
    """Rows in two files; all of them."""
    x = np.random.default_rng(0).standard_normal((rows, 4)).astype(np.float32)
    np.savez(folder / "a.npz", x=x[: rows // 3])
    np.savez(folder / "b.npz", x=x[rows // 3 :])
    return x


def check(out: Path, x: Array) -> None:
    """Parts that follow each other, of all rows, and nothing else."""
    parts = sorted(out.glob("part-*.npz"))
    at = 0
    for part in parts:
        start, stop = (int(text) for text in part.stem.split("-")[1:])
        assert start == at
        at = stop
    assert at == len(x)
    assert {p.name for p in out.iterdir()} - {p.name for p in parts} <= {"map.json", "model"}
    model = load(out / "model")
    found = [np.load(part) for part in parts]
    wanted = [model(x[start : start + 1000]) for start in range(0, len(x), 1000)]
    for name in ("y", "best"):
        got, want = (np.concatenate([one[name] for one in some]) for some in (found, wanted))
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_spec_over_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last part has fewer rows; the second command computes what is missing."""
    x = save(folder, 25)
    command = ["map", "m.yaml", "--input", "?.npz", "-o", "out", "--batch", "10", "--workers", "1"]
    assert status(command) == 0
    check(folder / "out", x)
    (folder / "out" / "part-000000000010-000000000020.npz").unlink()
    assert status(command) == 0
    assert "3 parts in out, 1 computed now" in capsys.readouterr().out
    check(folder / "out", x)
    assert status([*command, "--batch", "5"]) == 2
    assert "its batch was 10" in capsys.readouterr().err
    save(folder, 26)
    assert status(command) == 2
    assert "model, or files, were others" in capsys.readouterr().err
    (folder / "m.yaml").write_text(SPEC.replace("seed: 0", "seed: 1"), "utf-8")
    assert status(command) == 2
    assert "was built of another spec" in capsys.readouterr().err


def test_a_model_of_a_fixed_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its last call is filled up, which nothing shows."""
    x = save(folder, 21)
    assert status(["build", "m.yaml", "-o", "out/model", "--dim", "n=8"]) == 0
    command = ["map", "out/model", "--input", "?.npz", "-o", "out"]
    assert status([*command, "--batch", "9"]) == 2
    assert "takes 8 rows in a call" in capsys.readouterr().err
    job = MapJob.of(Path("out/model"), ["?.npz"], Path("out"), 8)
    for rows in begin(job):
        compute(job, rows)
    model = load("out/model")
    parts = [np.load(part)["y"] for part in sorted(Path("out").glob("part-*.npz"))]
    assert [len(part) for part in parts] == [8, 8, 5]
    np.testing.assert_array_equal(parts[1], model(x[8:16])["y"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SPEC.replace("outputs: [y, best]", "outputs: {s: sum(y)}"), "not by the"),
        (
            SPEC.replace("outputs: [y, best]", "  t: total + sum(y)\noutputs: [y]").replace(
                "weights:", "state: {total: {type: f32, next: t}}\nweights:"
            ),
            "a model with state",
        ),
    ],
)
def test_what_cannot_be_mapped(folder: Path, text: str, problem: str) -> None:
    save(folder, 6)
    (folder / "m.yaml").write_text(text, "utf-8")
    assert status(["build", "m.yaml", "-o", "model", "--dim", "n"]) == 0
    (folder / "out").mkdir()
    job = MapJob.of(Path("model"), ["?.npz"], Path("out"), 4)
    with pytest.raises(SourceError, match=problem) as caught:
        compute(job, begin(job)[0])
    assert caught.value.diagnostics[0].code == "XL7815"


# of each engine: its package, what runs the parts, and a word in the command of its workers
ENGINES: dict[str, tuple[str, Callable[..., None], str]] = {
    "processes": ("xlac", by_processes, "spawn_main"),
    "dask": ("distributed", partial(by_dask, scheduler=None), "spawn_main"),
    "ray": ("ray", partial(by_ray, scheduler=None), "ray::compute"),
}


def needs(engine: str) -> None:
    if find_spec(ENGINES[engine][0]) is None:
        pytest.skip(f"{engine} is not installed: make test-fleets")


@pytest.mark.long
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_mistake_of_a_worker_is_told(folder: Path, engine: str) -> None:
    """As in one process: a model that is gone when a part is computed."""
    needs(engine)
    save(folder, 8)
    assert status(["build", "m.yaml", "-o", "out/model", "--dim", "n"]) == 0
    job = MapJob.of(Path("out/model"), ["?.npz"], Path("out"), 4)
    parts = begin(job)
    (folder / "out" / "model" / "manifest.json").unlink()
    with pytest.raises(SourceError, match="is not an artefact"):
        ENGINES[engine][1](job, parts, 1, lambda rows: None)


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_killed_workers(folder: Path, engine: str) -> None:
    """10,000 rows in 200 parts, while a worker is killed twice."""
    needs(engine)
    _, run, word = ENGINES[engine]
    x = save(folder, 10_000)
    assert status(["build", "m.yaml", "-o", "out/model", "--dim", "n"]) == 0
    job = MapJob.of(Path("out/model"), ["?.npz"], Path("out"), 50)
    parts, killed, ended = begin(job), [0], Event()

    def kill() -> None:
        """A worker, when some parts are there, and again when more are."""
        for count in (20, 90):
            while len(list((folder / "out").glob("part-*.npz"))) < count:
                if ended.wait(0.01):
                    return
            while not (workers := children(os.getpid(), word)):
                if ended.wait(0.001):
                    return
            os.kill(workers[-1], signal.SIGKILL)
            killed[0] += 1

    killer = Thread(target=kill)
    killer.start()
    done: list[RowRange] = []
    try:
        run(job, parts, 2, done.append)
    finally:
        ended.set()
        killer.join()
    assert killed[0] == 2
    assert begin(job) == []
    assert len(all_parts(job)) == 200
    tidy(job)
    check(folder / "out", x)


def children(process: int, what: str) -> list[int]:
    """The processes that a process has started, whose command has a word, and theirs."""
    found: list[int] = []
    for tasks in Path(f"/proc/{process}/task").glob("*/children"):
        for number in map(int, tasks.read_text().split()):
            try:
                command = Path(f"/proc/{number}/cmdline").read_text("utf-8", "replace")
            except OSError:
                continue
            found += [number] * (what in command) + children(number, what)
    return found
