"""A run that is killed or interrupted at any moment ends as one that was not: to the bit."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from logistic import LogisticSteps, samples

from xlac.training.loop import checkpoint
from xlac.training.loop.train import train

SCRIPT = Path(__file__).with_name("logistic.py")
OPTIONS = {"epochs": 4, "batch": 8, "checkpoint_every": 5, "seed": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, and a run that nobody disturbed."""
    made = tmp_path_factory.mktemp("runs")
    np.savez(made / "train.npz", **samples(100))
    np.savez(made / "test.npz", **samples(50, 1))
    train(
        LogisticSteps(), made / "train.npz", made / "whole", validate=made / "test.npz", **OPTIONS
    )
    return made


def started(run: Path, folder: Path, resume: bool, hold: int) -> subprocess.Popen[str]:
    options = json.dumps({**OPTIONS, "resume": resume, "pause": 0.005, "hold": hold})
    code = (
        "import signal, runpy, sys; signal.signal(2, signal.default_int_handler); "
        f"sys.path.insert(0, {str(SCRIPT.parent)!r}); sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(SCRIPT), str(run), str(folder), options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def same(run: Path, whole: Path) -> None:
    """The last checkpoint, the best one, the weights and the metrics but the seconds are equal."""
    for name in ("checkpoints/checkpoint-0000000052.safetensors", "best.safetensors"):
        ours, theirs = (checkpoint.read(place / name) for place in (run, whole))
        assert ours.identity == theirs.identity
        assert ours.state.keys() == theirs.state.keys()
        for key, array in ours.state.items():
            assert array.tobytes() == theirs.state[key].tobytes()
        ours.position.seconds = theirs.position.seconds
        assert ours.position == theirs.position
    for name in ("weights.safetensors", "best_weights.safetensors"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()
    ours, theirs = (
        [line.rpartition(",")[0] for line in (place / "metrics.csv").read_text().splitlines()]
        for place in (run, whole)
    )
    assert ours == theirs
    assert not list(run.rglob("*.tmp"))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("seed", range(8))
def test_killed_at_random_moments(seed: int, folder: Path) -> None:
    generator = random.Random(seed)
    run, wanted = folder / f"killed{seed}", (2, 1, 3, 4)[seed % 4]
    for _ in range(wanted):
        with started(run, folder, run.exists(), 51) as process:
            assert process.stdout is not None and process.stdout.readline()
            time.sleep(generator.uniform(0, 0.6 / wanted))
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    out, told = started(run, folder, True, 51).communicate("\n", timeout=1800)
    assert out.endswith("done\n"), told
    same(run, folder / "whole")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_finishes_the_step(sent: signal.Signals, code: int, folder: Path) -> None:
    """Ctrl-C, and what a cluster sends that wants its machine back."""
    run = folder / f"interrupted{code}"
    with started(run, folder, False, 40) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "row 0\n"
        time.sleep(0.1)
        process.send_signal(sent)
        out, told = process.communicate("\n", timeout=1800)
    assert process.returncode == code, told
    newest = checkpoint.read(checkpoint.listed(run / "checkpoints")[0])
    assert f"step {newest.position.step} is saved: --resume {run}" in out
    train(
        LogisticSteps(),
        folder / "train.npz",
        run,
        validate=folder / "test.npz",
        resume=True,
        **OPTIONS,
    )
    same(run, folder / "whole")


@pytest.mark.parametrize("step", [0, 7, 13, 26, 52])
def test_killed_at_a_chosen_step(step: int, folder: Path, tmp_path: Path) -> None:
    """As if the process ended in the middle of a step, of the row and of the checkpoint after
    it.
    """

    class Killed(BaseException):
        pass

    class Ending(LogisticSteps):
        def run_step(self, arrays: object) -> object:  # type: ignore[override]
            if self.steps_done == step:
                raise Killed
            return super().run_step(arrays)  # type: ignore[arg-type]

        def save_weights(self, path: Path) -> None:
            if self.steps_done >= step:
                path.write_bytes(b"half")
                raise Killed
            super().save_weights(path)

    given = {"validate": folder / "test.npz", **OPTIONS}
    with pytest.raises(Killed):
        train(Ending(), folder / "train.npz", tmp_path / "run", **given)
    with (tmp_path / "run" / "metrics.csv").open("a") as file:
        file.write("1,7,0.1")  # a torn line
    train(LogisticSteps(), folder / "train.npz", tmp_path / "run", resume=True, **given)
    same(tmp_path / "run", folder / "whole")
