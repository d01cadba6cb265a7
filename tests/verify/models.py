"""`make verify-models`: `xlac verify` over 700 models as others wrote them finds none wrong.

They are ONNX's own (converted from PyTorch, single operators, the standard's cases), JAX's programs
of tests/stablehlo/corpus, and the shipped specs. Each is verified in a process that may crash or be
late, with every kind of drawn inputs. Results are kept in a file, a line of JSON each: those of
this compiler are not verified again, so a run may be interrupted, and goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from xlac.cache.fingerprint import compiler
from xlac.debug.tune.process import TuningProcess, WorkerLost
from xlac_sdk.host.registry import find

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "out" / "verify-models.jsonl"
SECONDS = 120.0  # of one model
CASES = 3  # of an operator
WORKER = """
import json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, sys.stdin.readline().rstrip("\\n"))
from models import verdict
for line in sys.stdin:
    print(json.dumps(verdict(json.loads(line)["file"])), file=answers, flush=True)
"""
BAD = ("wrong", "crash")


def models() -> Iterator[tuple[str, Path]]:
    """The models by name."""
    for place in sorted((ROOT / "specs").glob("*.yaml")):
        yield f"specs/{place.name}", place
    for place in sorted((ROOT / "tests" / "stablehlo" / "corpus").glob("*.mlir")):
        yield f"jax/{place.name}", place
    import onnx

    data = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        for place in sorted((data / kind).glob("*/model.onnx")):
            yield f"onnx/{kind}/{place.parent.name}", place
    for place in sorted((data / "light").glob("*.onnx")):
        yield f"onnx/light/{place.name}", place
    yield from _node_models()


def _node_models() -> Iterator[tuple[str, Path]]:
    """The standard's cases of single operators, CASES of each: their package makes them, here once
    for each of its versions.
    """
    import onnx

    folder = ROOT / "out" / "verify-models" / onnx.__version__
    if not folder.exists():
        from onnx.backend.test.case.node import collect_testcases

        room = folder.with_suffix(f".{os.getpid()}")
        room.mkdir(parents=True)
        taken = Counter[str]()
        with np.errstate(all="ignore"):
            for case in collect_testcases(None):
                operators = {node.op_type for node in case.model.graph.node}
                kind = min(operators, key=lambda operator: taken[operator])
                taken[kind] += 1
                if taken[kind] <= CASES:
                    onnx.save(case.model, room / f"{case.name.removeprefix('test_')}.onnx")
        room.rename(folder)
    for place in sorted(folder.glob("*.onnx")):
        yield f"onnx/node/{place.name}", place


def verdict(file: str) -> dict[str, Any]:
    """What `xlac.verify` says of a file: "right", "wrong" with what is wrong, or "refused" with the
    code of the error; "crash" for an exception that is no error of the user's.
    """
    import xlac

    try:
        found = xlac.verify(file, allow_kernels=False)
    except xlac.XlacError as error:
        codes = [d.code for d in getattr(error, "diagnostics", ())] or ["?"]
        return {"verdict": "refused", "why": codes[0], "text": str(error)[:500]}
    except Exception as error:
        return {"verdict": "crash", "why": type(error).__name__, "text": str(error)[:500]}
    if found.right:
        return {"verdict": "right", "why": "", "text": f"{len(found.values)} values"}
    said = [
        *found.causes,
        *(f"{v.draw} {v.name}: {v.deviation}" for v in found.values if not v.right),
    ]
    return {"verdict": "wrong", "why": "", "text": "; ".join(said)[:2000]}


@dataclass(eq=False)
class Results:
    """The results of one compiler, in a file that is written line by line."""

    file: Path
    compiler: str
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> None:
        """Takes what the file has of this compiler; a line that was cut short is none."""
        for line in self.file.read_text("utf-8").splitlines() if self.file.exists() else ():
            try:
                one = json.loads(line)
            except ValueError:
                continue
            if one["compiler"] == self.compiler:
                self.known[one["model"]] = one

    def add(self, model: str, result: dict[str, Any]) -> None:
        """Keeps a result."""
        one = {"model": model, "compiler": self.compiler, **result}
        with self.lock:
            self.known[model] = one
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with self.file.open("a", encoding="utf-8") as opened:
                opened.write(json.dumps(one) + "\n")


def verify_all(
    pending: list[tuple[str, Path]],
    results: Results,
    jobs: int,
    seconds: float,
    limit: float | None,
    program: str = WORKER,
    tell: Callable[[str], object] = print,
) -> None:
    """Verifies models in `jobs` processes, each within some seconds; begins none after `limit`."""
    todo, end = iter(pending), None if limit is None else time.monotonic() + limit
    lock = threading.Lock()

    def work() -> None:
        with TuningProcess(program, str(Path(__file__).parent)) as process:
            while end is None or time.monotonic() < end:
                with lock:
                    name, file = next(todo, ("", ROOT))
                if not name:
                    return
                begun = time.monotonic()
                try:
                    result = process.ask({"file": str(file)}, seconds)
                except WorkerLost as error:
                    late = time.monotonic() - begun >= seconds
                    why = "late" if late else "crash"
                    result = {"verdict": why, "why": "", "text": str(error)}
                results.add(name, {**result, "seconds": round(time.monotonic() - begun, 2)})
                if result["verdict"] in BAD:
                    tell(f"{name}: {result['verdict']}: {result['text']}")

    workers = [threading.Thread(target=work) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def summary(known: dict[str, dict[str, Any]], names: list[str]) -> tuple[list[str], bool]:
    """The lines that sum up results, and whether all models are verified and none is bad."""
    of = [known[name] for name in names if name in known]
    counts = Counter(one["verdict"] for one in of)
    lines = [
        f"{len(of)} of {len(names)} models: "
        + ", ".join(f"{n} {v}" for v, n in counts.most_common())
    ]
    codes = Counter(one["why"] for one in of if one["verdict"] == "refused")
    if codes:
        lines.append("refused: " + ", ".join(f"{n} {code}" for code, n in codes.most_common()))
    lines += [
        f"{one['model']}: {one['verdict']}: {one['text']}"
        for one in of
        if one["verdict"] in (*BAD, "late")
    ]
    return lines, len(of) == len(names) and not any(counts[bad] for bad in BAD)


def main() -> int:
    """Verifies what has no result yet, and sums up."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one model, at most")
    parser.add_argument("--minutes", type=float, default=None, help="after which no model begins")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="those that were bad or late, too")
    given = parser.parse_args()
    chosen = [(name, file) for name, file in models() if given.only in name]
    results = Results(given.results, compiler(find("cpu")))
    results.read()
    again = ("late", *BAD) if given.again else ()
    pending = [
        (name, file)
        for name, file in chosen
        if name not in results.known or results.known[name]["verdict"] in again
    ]
    limit = None if given.minutes is None else 60 * given.minutes
    verify_all(pending, results, given.jobs, given.seconds, limit)
    lines, well = summary(results.known, [name for name, _ in chosen])
    print("\n".join(lines))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
