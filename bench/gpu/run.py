"""xlac beside its peers on a GPU: `python bench/gpu/run.py --out results.json`.

One process a contender, all children of this one; a workload is prepared by each in turn, then
measured in rounds, each contender once a round in a new random order. Everything is written to the
file after each workload, and the table is printed. With `--device cpu --small` the same runs
anywhere, to prove that all contenders compute the same.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import random
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from frameworks import CONTENDERS
from problems import all_of
from workload import Workload

HERE = Path(__file__).resolve().parent
OURS = "xlac"


class Process:
    """A contender: asked for one thing at a time."""

    def __init__(self, name: str, device: str, small: bool, log: Path) -> None:
        self.name = name
        self.log = log.open("w")
        command = [
            sys.executable,
            str(HERE / "contenders.py"),
            name,
            "--device",
            device,
            *(["--small"] if small else []),
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )

    def ask(self, timeout: float, **question: Any) -> dict[str, Any]:
        """The answer; a failure when there is none in time, after which the process is gone."""
        assert self.process.stdin is not None and self.process.stdout is not None
        if self.process.poll() is not None:
            return {"failure": f"the process ended with {self.process.returncode}"}
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"failure": "the process ended"}
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            self.process.kill()
            return {"failure": f"no answer in {timeout:.0f} s"}
        line = self.process.stdout.readline()
        answer: dict[str, Any] = (
            json.loads(line)
            if line
            else {"failure": f"the process ended with {self.process.wait()}"}
        )
        return answer

    def close(self) -> None:
        """Ends the contender's process."""
        if self.process.poll() is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()


def measure(
    workload: Workload, processes: list[Process], args: argparse.Namespace
) -> dict[str, Any]:
    """What every contender says of one workload."""
    results: dict[str, dict[str, Any]] = {}
    for process in processes:
        results[process.name] = process.ask(
            args.prepare_timeout, prepare=workload.name, family=workload.family
        )
    bursts: dict[str, list[dict[str, float]]] = {p.name: [] for p in processes}
    for _ in range(args.rounds):
        live = [p for p in processes if "failure" not in results[p.name]]
        random.shuffle(live)
        for process in live:
            answer = process.ask(60, burst=args.seconds)
            if "failure" in answer:
                results[process.name] |= answer
            else:
                bursts[process.name].append(answer)
    for name, entry in results.items():
        if bursts[name] and "failure" not in entry:
            for key in ("seconds", "submit", "least"):
                entry[key] = (min if key == "least" else statistics.median)(
                    b[key] for b in bursts[name]
                )
    bound = {"flops": workload.flops}
    if workload.model is None:
        bound["least_bytes"] = workload.least_bytes
    return {"family": workload.family, **bound, "results": results}


def table(workloads: dict[str, Any], names: list[str], copied: float | None) -> list[str]:
    """Markdown: times in microseconds, ours over the best peer's, and how near the memory's rate
    ours is.
    """
    peers = [n for n in names if n != OURS]
    head = ["workload", OURS, *peers, "best peer", "ratio", "submit µs", "GB/s", "of a copy"]
    rows = [[*head, "TFLOP/s"]]
    ratios = []
    for name, entry in workloads.items():
        times = accurate_times(entry["results"])
        best = min((p for p in peers if p in times), key=times.__getitem__, default=None)
        ratio = times[OURS] / times[best] if OURS in times and best else None
        ratios += [ratio] if ratio else []
        against = [best or "–", f"{ratio:.2f}" if ratio else "–"]
        cells = [time_cell(n, entry["results"], times) for n in (OURS, *peers)]
        rows.append([name, *cells, *against, *rates(entry, times.get(OURS), copied)])
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    first, *lines = ("| " + " | ".join(row) + " |" for row in rows)
    return [
        first,
        "|" + "---|" * len(rows[0]),
        *lines,
        "",
        f"Geometric mean of the ratios over {len(ratios)} workloads: {mean:.2f}.",
        "",
        "Failures:",
        *(failures(workloads) or ["- none"]),
    ]


def accurate_times(results: dict[str, Any]) -> dict[str, float]:
    """Seconds a call, by contender; without those whose result is wrong."""
    return {n: r["seconds"] for n, r in results.items() if "seconds" in r and r.get("accurate")}


def time_cell(name: str, results: dict[str, Any], times: dict[str, float]) -> str:
    """A contender's time in microseconds, or that it is wrong, or that there is none."""
    if name in times:
        return f"{times[name] * 1e6:.1f}"
    return "wrong" if "seconds" in results.get(name, {}) else "–"


def rates(entry: dict[str, Any], ours: float | None, copied: float | None) -> list[str]:
    """What our call submits in, in microseconds, and its rates of bytes and of arithmetic."""
    if not ours:
        return ["", "", "", ""]
    rate = entry["least_bytes"] / ours / 1e9 if "least_bytes" in entry else None
    return [
        f"{entry['results'][OURS]['submit'] * 1e6:.1f}",
        f"{rate:.0f}" if rate else "",
        f"{rate / copied:.0%}" if rate and copied and entry["family"] == "memory" else "",
        f"{entry['flops'] / ours / 1e12:.1f}",
    ]


def failures(workloads: dict[str, Any]) -> list[str]:
    """A line for each contender that failed, then for each whose result is wrong."""
    every = [(w, n, r) for w, e in workloads.items() for n, r in e["results"].items()]
    failed = [f"- {w}, {n}: {r['failure']}" for w, n, r in every if "failure" in r]
    wrong = [
        f"- {w}, {n}: off by {r['error']:.2g}" for w, n, r in every if r.get("accurate") is False
    ]
    return failed + wrong


def machine(device: str) -> dict[str, Any]:
    """What was measured on, and what a copy of a gigabyte within the device moves, in GB/s, read
    and written.
    """
    about: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "command": " ".join(sys.argv),
        "device": device,
    }
    if device != "cuda":
        return about
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm", "--format=csv,noheader"]
    about["gpu"] = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    probe = """
import torch, statistics
a = torch.randn(1 << 28, device="cuda"); b = torch.empty_like(a)
times = []
for _ in range(20):
    s, e = torch.cuda.Event(True), torch.cuda.Event(True)
    s.record(); b.copy_(a); e.record(); e.synchronize(); times.append(s.elapsed_time(e))
print(2 * a.numel() * 4 / statistics.median(times) / 1e6)
"""
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=False
    )
    about["copy_gb_per_second"] = float(done.stdout) if done.returncode == 0 else None
    return about


def main() -> None:
    """Measures the workloads that are asked for and writes the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--small", action="store_true", help="sizes that show agreement, not speed")
    parser.add_argument("--families", default="memory,matmul,attention,model")
    parser.add_argument("--workloads", default="", help="only these, by name")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a burst")
    parser.add_argument("--prepare-timeout", type=float, default=180)
    parser.add_argument("--logs", type=Path, default=None)
    parser.add_argument(
        "--minutes",
        type=float,
        default=math.inf,
        help="after which no workload is begun; --resume does the others",
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep what --out has already, and do what it lacks"
    )
    args = parser.parse_args()
    logs = args.logs or args.out.parent / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    names = args.contenders.split(",")
    end = time.monotonic() + 60 * args.minutes
    data: dict[str, Any] = {"machine": machine(args.device), "workloads": {}}
    if args.resume and args.out.exists():
        data["workloads"] = json.loads(args.out.read_text())["workloads"]
    left: list[str] = []
    processes = [Process(n, args.device, args.small, logs / f"{n}.log") for n in names]
    sys.path.insert(0, str(HERE.parent / "peers"))
    wanted = set(filter(None, args.workloads.split(",")))
    try:
        for workload in all_of(args.small, frozenset(args.families.split(","))):
            if (wanted and workload.name not in wanted) or workload.name in data["workloads"]:
                continue
            if time.monotonic() > end:
                left.append(workload.name)
                continue
            data["workloads"][workload.name] = measure(workload, processes, args)
            args.out.write_text(json.dumps(data, indent=1))
            print(f"{workload.name} done", file=sys.stderr, flush=True)
    finally:
        for process in processes:
            process.close()
    print("\n".join(table(data["workloads"], names, data["machine"].get("copy_gb_per_second"))))
    if left:
        print(f"\nLeft for another run with --resume: {', '.join(left)}.")


if __name__ == "__main__":
    main()
