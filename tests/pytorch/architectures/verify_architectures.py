"""`make verify-architectures`: models of the types that `architectures.yaml` lists run compiled, in
a process that may crash, without a fallback of ours and with at most twice eager's error.

Results are kept in a file, as those of `make verify-models`: a run may be interrupted, and goes on
where it was. Graphs that PyTorch breaks a model into are counted apart.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tests.pytorch.architectures.small_models import NAMES
from tests.verify.models import Results, summary, verify_all
from xlac.cache.fingerprint import compiler
from xlac_sdk.host.registry import find

RESULTS = ROOT / "out" / "verify-architectures.jsonl"
SECONDS = 900.0  # of one model, on a busy machine
LEAST = 60  # models that are right
WORKER = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, os.path.dirname(os.path.dirname(sys.stdin.readline().rstrip("\\n"))))
from tests.pytorch.architectures.judged import verdict
for line in sys.stdin:
    print(json.dumps(verdict(os.path.basename(json.loads(line)["file"]))), file=answers, flush=True)
"""


def main() -> int:
    """Verifies what has no result yet, and sums up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="types whose names contain this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=None, help="after which no model begins")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="those that were bad or late, too")
    given = parser.parse_args()
    chosen = [name for name in NAMES if given.only in name]
    results = Results(given.results, compiler(find("cpu")))
    results.read()
    pending = [
        (name, Path(name))
        for name in chosen
        if name not in results.known or (given.again and results.known[name]["verdict"] != "right")
    ]
    limit = None if given.minutes is None else 60 * given.minutes
    verify_all(pending, results, given.jobs, SECONDS, limit, WORKER)
    lines, well = summary(results.known, chosen)
    print("\n".join(lines))
    right = sum(one["verdict"] == "right" for one in results.known.values())
    return 0 if well and (given.only or right >= LEAST) else 1


if __name__ == "__main__":
    sys.exit(main())
