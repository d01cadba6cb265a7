"""Measures xlac beside its peers: `python -m suite.run` in bench, or `make bench`.

    python -m suite.run --work .work --minutes 120 [--rows a,b,CLASS] [--contenders x,y]
    python -m suite.run --work .work --make            # only the rows' folders

What is measured is on disk at once, in WORK/runs/PROCESSOR/samples.jsonl: a run that was stopped or
whose budget was short goes on where it was when it is started again, until every row has `--rounds`
processes of each contender. Another processor begins a file of its own. `--new` begins again.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

from .contenders import CONTENDERS, installed
from .cores import built
from .loop import Run, Settings
from .machine import machine, slug, title
from .rows import Maker, chosen
from .samples import Samples, alone


def main(argv: list[str] | None = None) -> int:
    """Measures what is asked for; 1 if a row's folder could not be made with --make."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    listed = lambda text: [one for one in text.split(",") if one]
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=120, help="the budget")
    parser.add_argument("--rows", type=listed, default=[], help="names of rows or classes")
    parser.add_argument("--contenders", type=listed, default=[], help=", ".join(CONTENDERS))
    parser.add_argument("--threads", type=listed, default=["1", "2"])
    parser.add_argument("--rounds", type=int, default=5, help="processes of each contender")
    parser.add_argument("--seconds", type=float, default=0.1, help="of a burst")
    parser.add_argument("--jobs", type=int, default=2, help="contenders that prepare at once")
    parser.add_argument(
        "--compiling", type=float, default=0.2, help="slow compilers' share of the budget"
    )
    parser.add_argument(
        "--timeout", type=float, default=120, help="seconds to prepare; slow compilers thrice"
    )
    parser.add_argument("--make", action="store_true", help="only makes the rows' folders")
    parser.add_argument("--new", action="store_true", help="forgets what was measured here before")
    asked = parser.parse_args(argv)
    work = asked.work.resolve()
    maker, rows = Maker(work / "models"), chosen(asked.rows)
    if asked.make:
        begin, failed = time.monotonic(), maker.make(rows)
        print(f"{len(rows) - len(failed)} rows of {len(rows)}, {time.monotonic() - begin:.0f} s")
        for row in failed:
            print(f"{row.name} could not be made: {work / 'logs'}/make.{row.maker}.log")
        return min(len(failed), 1)
    facts = machine()
    place = work / "runs" / slug(facts)
    contenders, absent = installed(asked.contenders)
    for said in absent:
        print(said)
    kept = work / "kept" / slug(facts)
    os.environ |= {"SUITE_KEPT": str(kept), "SUITE_TMP": str(work)}
    settings = Settings(
        work, kept, asked.minutes * 60, asked.rounds, asked.seconds, jobs=asked.jobs
    )
    settings.timeout, settings.compiling = asked.timeout, asked.compiling
    settings.binary = built(place)
    counts = [n for n in map(int, asked.threads) if n <= facts["cores"]]
    print(f"{title(facts)}: {len(rows)} rows, {', '.join(contenders)}")
    with alone(place):
        if asked.new and (place / "samples.jsonl").exists():
            (place / "samples.jsonl").rename(place / f"samples.{int(time.time())}.jsonl")
        samples = Samples(place / "samples.jsonl")
        run = Run(rows, counts, contenders, samples, settings, maker.folder)
        try:
            run.measure()
        finally:
            ended = {"machine": facts, "skipped": run.skipped, "absent": absent}
            ended |= {"ended": time.time(), "load": os.getloadavg()}
            (place / "run.json").write_text(json.dumps(ended, indent=1) + "\n", "utf-8")
    print(f"{place}/samples.jsonl")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
