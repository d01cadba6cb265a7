"""Compile every workload once with the compilers that are slow to do so, with nothing kept from before.

    SUITE_KEPT=DIR python prepare_cold.py --models DIR --out cold.json [--workloads a,b] [--contenders x,y] [--threads 1,2]

Writes what each process says after its first call: CPU seconds to load, compile and call once, peak memory, error.
A run of `run.py` with the same SUITE_KEPT takes their programs from there; the others compile in that run. Pairs that
the file has are kept, so a preparation may be stopped and resumed; without the file, SUITE_KEPT begins empty.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from pathlib import Path

from harness.registry import CONTENDERS
from harness.session import Session

KEEPS = ("torch_inductor", "torch_aoti", "iree")     # contenders whose programs protocol.kept keeps


def compiled(name: str, folder: Path, threads: int, args) -> dict:
    """What a fresh process of a contender says of itself when it has compiled a workload and called it once."""
    session = Session(CONTENDERS[name], folder, threads, args.logs / f"{folder.name}.{name}.t{threads}.cold.log")
    session.prepare(args.prepare_timeout)
    session.close()
    said = {k: v for k, v in (session.ready or {}).items() if k not in ("event", "ok")}
    return {"threads": threads, **said, **({"failure": session.failure} if session.failure else {})}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--models", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--workloads", default="")
    p.add_argument("--contenders", default=",".join(KEEPS))
    p.add_argument("--threads", default="1,2")
    p.add_argument("--prepare-timeout", type=float, default=600)
    p.add_argument("--logs", type=Path, default=Path("logs"))
    args = p.parse_args()
    args.logs.mkdir(parents=True, exist_ok=True)
    if not args.out.exists():
        shutil.rmtree(os.environ["SUITE_KEPT"], ignore_errors=True)
    Path(os.environ["SUITE_KEPT"]).mkdir(parents=True, exist_ok=True)
    data = json.loads(args.out.read_text()) if args.out.exists() else {"workloads": {}}
    chosen = args.workloads.split(",") if args.workloads else [d.name for d in sorted(args.models.iterdir())]
    threads = [int(n) for n in args.threads.split(",")]
    for workload in chosen:
        for name in args.contenders.split(","):
            if not CONTENDERS[name].runs(workload):
                continue
            for n in threads:
                done = data["workloads"].setdefault(workload, {}).setdefault(str(n), {})
                if name in done:
                    continue
                done[name] = compiled(name, args.models / workload, n, args)
                args.out.write_text(json.dumps(data, indent=1))
                print(f"[{time.strftime('%H:%M:%S')}] {workload} {name} t{n}: {done[name].get('failure') or done[name]['compile_cpu_seconds']}", flush=True)


if __name__ == "__main__":
    main()
