"""Training among ranks of which one is killed, or stops, at a random moment, over and over: nobody
hangs, no checkpoint is lost, and what comes out is what comes out undisturbed. `make stress-ranks`.

Two or three ranks train a small model by `mpirun … xlac train --mesh`. A fault is a SIGKILL of one
rank, a SIGSTOP of one, whose messages never come, or a SIGKILL of mpirun. As root, every other run
is on two hosts (network namespaces) whose link is cut at a random moment, for good or for a moment,
which nobody may notice. All ranks must have ended within the time that is stated (`--timeout`, and
GRACE); every checkpoint that was there must still be there, or newer ones in its place, and the
newest whole. Then the run is resumed, until it comes to its end, where its state has to equal to
the bit that of a run without faults. Each fault is a line of the record, so that the same command
goes on where one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from mpirun import ROOT, WITHOUT, lives, pids, started
from namespaces import NOTICING, TwoHosts, two_hosts, without

from xlac.training.loop import checkpoint

SPEC = ROOT / "specs" / "digits_train.yaml"
DATA = ROOT / "specs" / "data" / "digits_train.npz"
EPOCHS, EVERY = 3, 8  # of a run; steps between checkpoints
TIMEOUT = 10  # seconds for which a rank waits in a collective
GRACE = 30  # seconds more until all have ended, on a machine that does other work too
SECONDS = "seconds"  # the file beside an undisturbed run that says how long it takes
KINDS = ("kill", "kill", "stop", "launcher")
OF_LINKS = ("cut", "cut", "moment", "kill", "stop")
MOMENTS = (0.1, 3.0)  # seconds for which a link is cut for a moment


def train(count: int, run: Path, hosts: TwoHosts | None) -> subprocess.Popen[str]:
    """Begins a run, or resumes the one that is there."""
    launcher = hosts.mpirun(count, *NOTICING) if hosts else ()
    mesh = ("--mesh", f"data={count}", "--timeout", str(TIMEOUT))
    if (run / "checkpoints").exists() and checkpoint.listed(run / "checkpoints"):
        return started(count, "train", SPEC, "--resume", run, *mesh, launcher=launcher)
    shutil.rmtree(run, ignore_errors=True)  # of a run that had no checkpoint yet
    about = ("--epochs", str(EPOCHS), "--batch", "30", "--checkpoint-every", str(EVERY))
    given = ("--data", DATA, *about, *mesh, "-o", run)
    return started(count, "train", SPEC, *given, launcher=launcher)


def newest(run: Path) -> int:
    """The step of the newest checkpoint, which is whole; -1 where there is none."""
    found = checkpoint.listed(run / "checkpoints") if (run / "checkpoints").exists() else []
    return checkpoint.read(found[0]).position.step if found else -1


def undisturbed(count: int, folder: Path, hosts: TwoHosts | None) -> tuple[Path, float]:
    """A run without faults, and its seconds. Made once."""
    run = folder / f"undisturbed-{count}{'-hosts' if hosts else ''}"
    told = run / SECONDS
    if not told.exists():
        began = time.monotonic()
        _, said = train(count, run, hosts).communicate()
        seconds = time.monotonic() - began
        assert (run / "weights.safetensors").exists(), said
        told.write_text(str(seconds), "utf-8")
    return run, float(told.read_text("utf-8"))


def equal(run: Path, other: Path) -> None:
    """The states at the ends of two runs are the same to the bit."""
    one, two = (checkpoint.read(checkpoint.listed(r / "checkpoints")[0]) for r in (run, other))
    assert one.position.step == two.position.step
    assert one.state.keys() == two.state.keys()
    for name, array in one.state.items():
        np.testing.assert_array_equal(array, two.state[name], err_msg=name)


def fault(
    kind: str, process: subprocess.Popen[str], choose: random.Random, hosts: TwoHosts | None
) -> list[int]:
    """Does it to a process; the ranks, which all have to end. None of them where it had ended."""
    found: dict[int, int] = {}
    while not found and process.poll() is None:
        time.sleep(0.01)
        found = hosts.pids() if hosts else pids(process)
    ranks = list(found.values())
    if process.poll() is not None:
        return []
    if kind in ("cut", "moment"):
        assert hosts
        hosts.cut()
        return ranks
    victim = process.pid if kind == "launcher" else choose.choice(ranks)
    os.kill(victim, signal.SIGSTOP if kind == "stop" else signal.SIGKILL)
    return ranks


def ended(process: subprocess.Popen[str], ranks: list[int], limit: float) -> float:
    """Seconds until mpirun and all ranks have ended. Raises AssertionError after `limit`."""
    began = time.monotonic()
    try:
        process.communicate(timeout=limit)
        while any(map(lives, ranks)):
            assert time.monotonic() - began < limit, f"ranks live: {[*filter(lives, ranks)]}"
            time.sleep(0.05)
    except (subprocess.TimeoutExpired, AssertionError):
        for pid in (process.pid, *ranks):
            if lives(pid):
                os.kill(pid, signal.SIGKILL)
        raise
    return time.monotonic() - began


def wait(process: subprocess.Popen[str], run: Path, choose: random.Random) -> None:
    """Waits for a newer checkpoint, every other time: where other work runs, too, a run mostly
    begins.
    """
    folder = run / "checkpoints"
    before = checkpoint.listed(folder) if folder.exists() else []
    if choose.random() < 0.5:
        return
    while process.poll() is None:
        if folder.exists() and checkpoint.listed(folder)[:1] not in ([], before[:1]):
            return
        time.sleep(0.05)


def left_alone(process: subprocess.Popen[str], ranks: list[int]) -> bool:
    """Whether a stopped rank is the only one that is left, as the others came to their end before:
    for that mpirun waits, and nobody else is there to notice. It is killed then.
    """
    alive = [rank for rank in ranks if lives(rank)]
    if len(alive) == 1:
        os.kill(alive[0], signal.SIGKILL)
        process.communicate(timeout=GRACE)
    return len(alive) == 1


def finished(run: Path, folder: Path, record: Path, count: int, hosts: TwoHosts | None) -> None:
    """Notes that a run came to its end, and removes it."""
    done = folder / f"done-{time.time_ns()}"
    run.rename(done)
    note(record, {"kind": "end", "ranks": count, "hosts": 2 if hosts else 1})
    shutil.rmtree(done)


def one_run(
    count: int,
    folder: Path,
    choose: random.Random,
    record: Path,
    until: float,
    hosts: TwoHosts | None,
) -> None:
    """Faults in one run, until its end or the time. What is wrong raises."""
    reference, seconds = undisturbed(count, folder, hosts)
    run = folder / f"run-{count}{'-hosts' if hosts else ''}"
    while time.monotonic() < until:
        before = newest(run)
        began, process = time.monotonic(), train(count, run, hosts)
        kind = choose.choice(OF_LINKS if hosts else KINDS)
        wait(process, run, choose)
        time.sleep(choose.uniform(0.0, seconds * 0.6))
        ranks = fault(kind, process, choose, hosts)
        if ranks and kind == "moment":
            assert hosts
            time.sleep(choose.uniform(*MOMENTS))
            hosts.mend()
            note(record, {"kind": kind, "ranks": count, "hosts": 2, "ended": 0.0, "from": before})
        if not ranks or kind == "moment":
            _, said = process.communicate(timeout=10 * seconds + 60)
            assert process.returncode == 0, f"after {kind} in {run}: {said}"
            equal(run, reference)
            if before < 0 and not ranks:  # how long a run takes now: the machine does other work
                (reference / SECONDS).write_text(str(time.monotonic() - began), "utf-8")
            finished(run, folder, record, count, hosts)
            return
        try:
            took = ended(process, ranks, TIMEOUT + GRACE)
        except (subprocess.TimeoutExpired, AssertionError) as error:
            if kind == "stop" and left_alone(process, ranks):
                equal(run, reference)
                finished(run, folder, record, count, hosts)
                return
            raise AssertionError(f"after {kind} in {run} from step {before}: {error}") from error
        finally:
            if hosts:
                hosts.mend()
        after = newest(run)
        assert after >= before, f"the checkpoint of step {before} is lost: now {after}"
        about = {"kind": kind, "ranks": count, "hosts": 2 if hosts else 1}
        note(record, {**about, "ended": round(took, 2), "from": before, "to": after})


def note(record: Path, line: dict[str, object]) -> None:
    """Adds a line to the record."""
    with record.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def lines(record: Path) -> list[dict[str, object]]:
    """What is in the record."""
    text = record.read_text("utf-8") if record.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "folder", type=Path, help="of the runs and the record; an older one goes on"
    )
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60, help="no fault begins after so many")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    asked = parser.parse_args()
    if WITHOUT:
        sys.exit(WITHOUT)
    print(f"seed {asked.seed}", flush=True)
    asked.folder.mkdir(parents=True, exist_ok=True)
    choose, until = random.Random(asked.seed), time.monotonic() + 60 * asked.minutes
    record = asked.folder / "faults.jsonl"
    while time.monotonic() < until:
        made = [line for line in lines(record) if line["kind"] != "end"]
        if len(made) >= asked.faults:
            break
        count, linked = choose.choice([2, 3]), choose.random() < 0.5
        with two_hosts(asked.folder) if linked and not without() else nullcontext() as hosts:
            one_run(count, asked.folder, choose, record, until, hosts)
    found = lines(record)
    faults = [line for line in found if line["kind"] != "end"]
    slowest = max((float(str(line["ended"])) for line in faults), default=0.0)
    print(
        f"{len(faults)} faults, none of which hung (the slowest ended after {slowest:.1f} s), "
        f"{len(found) - len(faults)} runs that came to their end as one without faults"
    )


if __name__ == "__main__":
    main()
