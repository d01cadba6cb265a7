"""The command: ctrl-C ends it with one line and 130, at whatever it is; time-outs; and work that is
absurd from the start.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from endless import SPECS

import xlac
from xlac.cli import status

SHIPPED = Path(__file__).parents[2] / "specs"
ABSURD = """
xlac: 1
model: absurd
inputs: {x: "f32[30000, 1, 1]", y: "f32[1, 10000, 1]", z: "f32[1, 1, 1000000]"}
graph: {s: sum(sin(sin(sin(sin(x * y * z)))) + exp(exp(x * y)))}
outputs: [s]
"""
RUNNING = ("endless on", "repeated on")


def spec(name: str, folder: Path) -> str:
    file = folder / f"{name}.yaml"
    file.write_text(SPECS[name])
    return str(file)


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The command as a shell would start it: it takes signals even where the tests' own process
    does not. Whatever happens it is gone afterwards.
    """
    code = (
        "import signal; signal.signal(2, signal.default_int_handler); from xlac.cli import "
        "main; main()"
    )
    environment = {**os.environ, "XLAC_CACHE": str(folder / "cache")}
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "target,threads", [("cpu", "1"), ("cpu", "2"), ("c", "1"), ("reference", "1")]
)
def test_ctrl_c_during_a_run(target: str, threads: str, tmp_path: Path) -> None:
    if target == "c" and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    command = ("run", spec("while", tmp_path), "-i", "n=zeros", "--target", target)
    with started(tmp_path, *command, "--threads", threads) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith(RUNNING):
            assert process.poll() is None
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=1800)
    assert (process.returncode, out, told.strip()) == (130, "", "interrupted")


def test_ctrl_c_while_compiling_leaves_nothing(tmp_path: Path) -> None:
    """At several moments of a build: no folder, or all of it; nothing beside it; a cache that is as
    good as before.
    """
    for after in (0.05, 0.6):
        model, out = SHIPPED / "mobilenet_v2.yaml", tmp_path / "out"
        with started(tmp_path, "build", str(model), "-o", str(out)) as process:
            # it is past its imports
            assert process.stderr is not None and process.stderr.readline().startswith("note: ")
            time.sleep(after)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=1800)
        assert (process.returncode, told.strip()) in ((130, "interrupted"), (0, told.strip())), told
        left = {entry.name for entry in tmp_path.iterdir()}
        assert left <= {"cache", "out"}, left
        if "out" in left:  # it was there before the signal was noticed
            xlac.load(tmp_path / "out")
            shutil.rmtree(tmp_path / "out")
        else:
            assert process.returncode == 130


@pytest.mark.parametrize("command", ["run", "bench", "profile"])
def test_a_time_out_is_exit_code_4(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "long.yaml"  # whatever its inputs are, there are 2^31 steps to make
    file.write_text(SPECS["repeat"].replace("a < n", "(a < 3) & (n > n - 1)"))
    assert status([command, str(file), "--timeout", "0.05"]) == 4
    assert "[XL4041]" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "bench", "profile"])
@pytest.mark.sampled(4)
def test_absurd_work_is_refused_unless_wanted(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sum.yaml"
    file.write_text(ABSURD)
    assert status(["check", str(file)]) == 0
    assert "warning: a call takes at least 2.3 hours" in capsys.readouterr().err
    assert status([command, str(file)]) == 4
    assert "[XL4043]" in capsys.readouterr().err
    assert status([command, str(file), "--allow-long", "--timeout", "0.05"]) == 4
    told = capsys.readouterr().err
    assert "[XL4041]" in told and "warning: a call takes at least" in told


def test_an_artefact_stops_too(tmp_path: Path) -> None:
    import numpy as np

    for target in ("cpu", "c") if shutil.which("cc") else ("cpu",):
        folder = tmp_path / target
        assert (
            status(
                [
                    "build",
                    spec("while", tmp_path),
                    "--target",
                    target,
                    "--emit",
                    "so",
                    "-o",
                    str(folder),
                ]
            )
            == 0
        )
        loaded = xlac.load(folder)
        with pytest.raises(TimeoutError), xlac.timeout(0.05):
            loaded(n=np.zeros((), "i4"))
        assert loaded(n=np.full((), -1, "i4")) == -1
