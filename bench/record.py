"""One file of everything that a run found: `python bench/record.py WORK OUT.json`.

WORK holds `peers.json` and, where they were made, `ceilings.json`, `cold.json` (the slow compilers,
see `peers/prepare_cold.py`) and `own.json`. For those compilers the compile time and memory of the
cold process count. A burst is kept as its median, the cores that others used meanwhile and, of
several threads, how far apart the cores were (1: wholly).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

COLD = ("compile_cpu_seconds", "compile_seconds", "process_cpu_seconds", "peak_rss_mb")
BURST = ("median", "foreign_cores", "apart")


def record(work: Path) -> dict[str, Any]:
    """The files of a working folder as one."""
    data: dict[str, Any] = _read(work / "peers.json")
    for workload, threads in _read(work / "cold.json").get("workloads", {}).items():
        for count, contenders in threads.items():
            results = data["workloads"].get(workload, {"results": {}})["results"].get(count, {})
            for name, cold in contenders.items():
                if name in results:
                    results[name] |= {key: cold[key] for key in COLD if key in cold}
    for results in (
        results
        for entry in data["workloads"].values()
        for run in entry["results"].values()
        for results in run.values()
    ):
        results["raw_bursts"] = [
            [burst[key] for key in BURST if key in burst] for burst in results.get("raw_bursts", [])
        ]
    data["ceilings"] = _read(work / "ceilings.json").get("rows", [])
    data["own"] = _read(work / "own.json")
    data["load_at_end"] = os.getloadavg()
    return data


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(record(Path(sys.argv[1]))) + "\n", encoding="utf-8")
