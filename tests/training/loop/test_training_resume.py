"""Runs that go on, runs that are refused, damaged checkpoints and full disks."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from logistic import LogisticSteps, Told, samples, trained

from xlac.training.loop import checkpoint
from xlac.training.loop.description import described
from xlac.training.loop.options import RunOptions
from xlac.training.loop.run_folder import about
from xlac_sdk.source import LimitError, SourceError


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "how", [damage, lambda p: p.write_bytes(p.read_bytes()[:-5]), lambda p: p.write_bytes(b"")]
)
def test_a_damaged_checkpoint(how: Any, tmp_path: Path) -> None:
    """The one before is taken, and the end is the same; without one it is an error."""
    trained(tmp_path / "whole", epochs=5)
    trained(tmp_path / "run", epochs=5)
    newest, *_ = checkpoint.listed(tmp_path / "run" / "checkpoints")
    how(newest)
    told = Told()
    again = trained(tmp_path / "run", epochs=5, resume=True, report=told)
    assert [row["epoch"] for row in again.metrics] == [0, 1, 2, 3, 4, 5]
    assert told.lines[0].startswith(f"warning: {newest} is damaged and left out: ")
    assert told.lines[1:] == ["going on from step 16, epoch 4", "row 5"]
    ends = [
        checkpoint.read(checkpoint.listed(tmp_path / n / "checkpoints")[0])
        for n in ("run", "whole")
    ]
    assert all(a.tobytes() == ends[1].state[n].tobytes() for n, a in ends[0].state.items())
    for path in checkpoint.listed(tmp_path / "run" / "checkpoints"):
        how(path)
    with pytest.raises(SourceError, match=r"every checkpoint in .* is damaged \[XL6333\]"):
        trained(tmp_path / "run", epochs=5, resume=True)


@pytest.mark.parametrize("name", ["checkpoint", "metrics", "weights"])
def test_killed_in_the_middle_of_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has a name is whole, and the run goes on from it."""

    class Killed(BaseException):
        pass

    def half(path: Path, *given: Any, **named: Any) -> None:
        path.write_bytes(b"half of it")
        raise Killed

    trained(tmp_path / "run", epochs=1)
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*.*") if p.is_file()}
    made = LogisticSteps()
    with monkeypatch.context() as patch, pytest.raises(Killed):
        if name == "checkpoint":
            patch.setattr(checkpoint, "write_tensors", half)
        elif name == "metrics":
            patch.setattr(Path, "write_text", half)
        else:
            patch.setattr(made, "save_weights", half)
        trained(tmp_path / "run", made, epochs=2, resume=True)
    for path, data in before.items():
        if path.name not in ("metrics.csv", "run.json"):
            assert path.read_bytes() == data
    assert trained(tmp_path / "run", epochs=2, resume=True).steps == 8
    trained(tmp_path / "whole", epochs=1)
    whole = trained(tmp_path / "whole", epochs=2, resume=True)
    assert (tmp_path / "run" / "weights.safetensors").read_bytes() == (
        whole.folder / "weights.safetensors"
    ).read_bytes()


OTHERWISE: dict[str, tuple[dict[str, Any], str]] = {
    "model": ({"made": LogisticSteps(rate=0.2)}, "XL6334"),
    "seed": ({"seed": 1}, r"was begun with --seed 0, not 1 \[XL6335\]"),
    "batch": ({"batch": 8}, r"was begun with --batch 16, not 8 \[XL6335\]"),
    "drop": ({"drop_last": True}, r"begun with --drop-last False, not True \[XL6335\]"),
    "order": ({"shuffle": False}, r"begun with --no-shuffle .*XL6335"),
    "data": ({"data": samples(50, 2)}, r"begun with other data \[XL6335\]"),
}


@pytest.mark.parametrize("case", OTHERWISE)
def test_a_run_goes_on_as_it_was_begun(case: str, tmp_path: Path) -> None:
    trained(tmp_path / "run", epochs=1)
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    options, told = OTHERWISE[case]
    with pytest.raises(SourceError, match=told):
        trained(tmp_path / "run", resume=True, **options)
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before


def test_folders_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    with pytest.raises(SourceError, match=r"full exists, and training would write.*XL6331"):
        trained(tmp_path / "full")
    with pytest.raises(SourceError, match=r"there is no run in .*full.*XL6332"):
        trained(tmp_path / "full", resume=True)
    with pytest.raises(SourceError, match="XL6332"):
        trained(tmp_path / "none", resume=True)
    with pytest.raises(SourceError, match=r"no run.json of a run in .*none"):
        about(tmp_path / "none", needed=True)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["full", "thesis.tex"]
    trained(tmp_path / "run", epochs=1)
    with pytest.raises(SourceError, match=r"--resume .*run goes on") as exists:
        trained(tmp_path / "run")
    assert exists.value.diagnostics[0].code == "XL6331"
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / "run" / ".lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SourceError, match=r"another process trains in .*XL6336"):
            trained(tmp_path / "run", resume=True)


def test_killed_before_it_said_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / ".lock").touch()
    (tmp_path / "run" / ".run.json.77.tmp").write_text("{")
    assert trained(tmp_path / "run", resume=True, epochs=1).steps == 4
    assert not list((tmp_path / "run").glob(".run*"))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last checkpoint stays, the message names it, and a run with more room goes on to the same
    end.
    """
    trained(tmp_path / "whole", epochs=3)
    sync, free = os.fsync, [14]  # files

    def full(descriptor: int) -> None:
        free[0] -= stat.S_ISREG(os.fstat(descriptor).st_mode)
        if free[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    failed = 0
    for files in range(1, 20, 2):
        run = tmp_path / f"run{files}"
        free[0] = files
        monkeypatch.setattr(os, "fsync", full)
        try:
            trained(run, epochs=3)
        except LimitError as error:
            (told,) = error.diagnostics
            assert told.code == "XL4002" and "the disk is full" in told.message
            kept = checkpoint.listed(run / "checkpoints")
            if kept:
                assert told.hint == f"{kept[0]} is whole: --resume {run} goes on from it"
                checkpoint.read(kept[0])
            assert not list(run.rglob("*.tmp"))
            failed += 1
        monkeypatch.setattr(os, "fsync", sync)
        trained(run, epochs=3, resume=True)
        for name in ("weights.safetensors", "best_weights.safetensors"):
            assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert 5 < failed < 10


def test_a_checkpoint_says_what_it_is(tmp_path: Path) -> None:
    trained(tmp_path / "run", epochs=1, seed=5)
    path = checkpoint.listed(tmp_path / "run" / "checkpoints")[0]
    told = checkpoint.SafetensorsFile(path).metadata
    assert told["format"] == "xlac training checkpoint" and told["version"] == "1"
    identity = json.loads(told["identity"])
    assert identity["seed"] == 5 and identity["order"] and identity["fingerprint"]
    assert json.loads(told["position"])["epoch"] == 1
    from safetensors.numpy import load_file

    assert load_file(path)["w"].shape == (8, 4)


HOSTILE: dict[str, Any] = {
    "target": [7, "../c", "c\n"], "threads": [0, -1, 1e9, "2", True],
    "dim": ["batch=1", [3], ["a\0b"]], "epochs": [-1, 2.5, "9", 2**63, True],
    "batch": [0, -3, 2**64], "keep": [0, None], "seed": [-1, "0"],
    "data": ["a", ["relative.npz"], ["x=../y.npy"], ["/a\0b"], [None], {}], "validate": [[7]],
    "columns": [[[]]], "best": [3], "merge": ["yes", 1], "accumulate": [0, 2**40],
    "spec": ["m.yaml", 1], "max_memory": [7, "a b"], "precision": ["wild"], "allow_outside": [True],
    "schedule": ["s.yaml", 3], "shell": ["rm"],
}  # fmt: skip


@pytest.mark.parametrize("key", HOSTILE)
@pytest.mark.sampled(6)
def test_a_run_json_of_somebody_else(key: str, tmp_path: Path) -> None:
    """Every option has its type and bounds, and is named with its place."""
    file = tmp_path / "run.json"
    for value in HOSTILE[key]:
        file.write_text(json.dumps({"tensorboard": False, key: value}, indent=2))
        with pytest.raises(SourceError, match=r"run\.json:[34]:\d+: error: .*\[XL6339\]"):
            described(file)


@pytest.mark.parametrize(("text", "told"), [
    ("{", r"run\.json:1:2: error: this is not JSON"), ("[]", "expected a mapping"),
    ('{"seed": NaN}', "NaN is not a JSON number"), ("[" * 10**5, "nested too deeply|not JSON"),
    ("é", "not JSON|cannot be read"), (" " * (1 << 20) + "{}", "more than 1,048,576 bytes"),
])  # fmt: skip
def test_a_run_json_that_is_none(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(text, encoding="utf-16" if text == "é" else "utf-8")
    with pytest.raises(SourceError, match=told):
        described(file)
    assert described(tmp_path / "another.json") == {}


@pytest.mark.parametrize(
    "change", [{"step": -1}, {"step": "9"}, {"sums": {"loss": [1]}}, {"epoch": 2**64}]
)
def test_a_position_of_somebody_else(change: dict[str, Any], tmp_path: Path) -> None:
    """A checkpoint whose digest is right, and whose numbers are none."""
    trained(tmp_path / "run", epochs=1)
    newest, *_ = checkpoint.listed(tmp_path / "run" / "checkpoints")
    found = checkpoint.read(newest)
    for name, value in change.items():
        setattr(found.position, name, value)
    checkpoint.write(newest, found, "")
    with pytest.raises(checkpoint.BadCheckpoint):
        checkpoint.read(newest)


@pytest.mark.parametrize("options", [
    {"epochs": 2.5}, {"epochs": True}, {"epochs": 2**63}, {"epochs": 1, "seed": -1},
    {"epochs": 1, "seed": None}, {"epochs": 1, "keep": float("nan")}, {"epochs": 1, "batch": "3"},
])  # fmt: skip
def test_options_that_are_none(options: dict[str, Any]) -> None:
    with pytest.raises(SourceError, match="XL6337"):
        RunOptions(**options)
