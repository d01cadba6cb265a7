"""Fuzzes targets for some processor seconds each and says what was found: `make fuzz-inputs
SECONDS=1200 TARGETS=onnx,specs`.

Seconds are those that the engine's process computed, so that a target is tried as hard on a machine
that is busy with something else; it takes longer there, at most MOST times as long.

For each it prints how many inputs were tried, in how many processor seconds, how much of the code
they reached (edges that libFuzzer counts), and a line for each finding. Inputs and tracebacks of
findings are in out/fuzz/TARGET, the corpus beside them for the next time. Exits with 1 where
something was found, or where a target was not run because a package is missing, which is said
first.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

from harness.target import HERE, ROOT, lacking, names

LEAST = 10  # edges: any reader reaches more, even that of arrays, most of which is NumPy
MOST = 20  # seconds on the clock for each processor second
GRACE = 600  # seconds for starting, for reading a corpus, and for an input that does not return


@dataclass
class Report:
    name: str
    executed: int = 0
    processor: float = 0  # seconds
    coverage: int = 0
    findings: dict[str, str] = field(default_factory=dict)  # file -> what it is


def run(command: Sequence[str], log: Path, seconds: float) -> tuple[str, float]:
    """Runs an engine: how it failed, empty if it did not, and its processor seconds."""
    start = time.monotonic()
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONPATH": f"{HERE}:{HERE.parent}", "XLAC_CACHE": "off"},
        )
        late = Timer(seconds, process.kill)
        late.start()
        _, status, used = os.wait4(process.pid, 0)
    processor = used.ru_utime + used.ru_stime
    code = process.returncode = os.waitstatus_to_exitcode(status)
    late.cancel()
    if code == -signal.SIGKILL and time.monotonic() - start >= seconds:
        return f"killed after {seconds:.0f} seconds, {processor:.0f} of them its own", processor
    return f"the process ended with {code}" if code else "", processor


def fuzz(name: str, seconds: int, folder: Path) -> Report:
    """Fuzzes one target for some processor seconds; when an input ends the process, or its time on
    the clock is over before that, another begins.
    """
    report = Report(name)
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + MOST * seconds
    before = set(folder.iterdir())
    while (left := int(seconds - report.processor)) > 0:
        if time.monotonic() > end:
            report.findings[str(folder / "log")] = (
                f"{MOST * seconds} seconds gave it {report.processor:.0f} of the processor"
            )
            break
        log = folder / "log"
        command = [sys.executable, "-m", "harness.engine", name, str(folder), str(left)]
        failed, processor = run(command, log, left + GRACE)
        report.processor += processor
        text = log.read_text(errors="replace")
        reached = [
            (int(n), int(c)) for n, c in re.findall(r"^#(\d+)\s.*\bcov: (\d+)", text, re.MULTILINE)
        ]
        report.executed += max((n for n, _ in reached), default=0)
        report.coverage = max(report.coverage, *(c for _, c in reached), 0)
        if failed and not set(folder.glob("*-*")) - before:
            report.findings[str(log)] = (
                f"{failed}: {text.strip().splitlines()[-1] if text.strip() else 'nothing said'}"
            )
            break  # it would do so again
    if report.coverage < LEAST and not report.findings:
        report.findings[str(folder / "log")] = (
            f"it reached {report.coverage} edges, so its reader was not run"
        )
    for file in sorted(set(folder.iterdir()) - before):
        if file.suffix == ".txt":
            report.findings[str(file)] = file.read_text().partition("\n")[0]
        elif "-" in file.name:
            report.findings[str(file)] = "it ended the process"
    return report


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=60, help="of each target")
    parser.add_argument("--targets", default="", help="names between commas; default every one")
    parser.add_argument("--jobs", type=int, default=1, help="targets at once")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "fuzz")
    chosen = parser.parse_args()
    asked = [name for name in chosen.targets.split(",") if name] or names()
    if unknown := set(asked) - set(names()):
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    found, runnable = 0, []
    for name in asked:
        if why := lacking(name):
            print(f"{name}: {why}", flush=True)
            found += 1
        else:
            runnable.append(name)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        for report in pool.map(
            lambda name: fuzz(name, chosen.seconds, chosen.out / name), runnable
        ):
            print(
                f"{report.name}: {report.executed:,} inputs in {report.processor:.0f} processor "
                f"seconds, {report.coverage:,} edges, {len(report.findings)} findings",
                flush=True,
            )
            for file, what in report.findings.items():
                print(f"  {file}: {what}", flush=True)
            found += len(report.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
