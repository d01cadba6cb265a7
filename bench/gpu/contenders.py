"""The contenders of the GPU benchmark, each in a process of its own: `python contenders.py NAME
--device cuda`.

A process reads one JSON object a line and answers each with one: {"prepare": workload} compiles,
runs once and says how far the result is from float64; {"burst": seconds} says what a call took. A
call is asked for with operands that are on the device already and leaves its result there; times
are of many calls in a row up to the end of the last, divided by their number, so they are the
larger of what the device and what the host needs. `submit` is the host's part alone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from frameworks import CONTENDERS, Contender
from problems import all_of
from workload import Workload

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers")]

SETS = 3  # of operands that calls take in turn, so that a cache does not hold them all


class Session:
    """One workload, compiled."""

    def __init__(self, contender: Contender, workload: Workload) -> None:
        self.contender = contender
        arrays = workload.arrays() if workload.model is None else workload.model.inputs
        types = {k: dtype for k, (_, dtype, _) in workload.operands.items()}
        self.sets = [
            [contender.put(a, types.get(k, "")) for k, a in arrays.items()] for _ in range(SETS)
        ]
        begin = time.perf_counter()
        self.function = contender.compiled(workload, self.sets[0])
        result = self.call(0)
        contender.sync(result)
        self.compile_seconds = time.perf_counter() - begin
        self.error = self._error(workload, arrays, contender.numpy(result))
        self.accurate = self.error <= workload.tolerance

    def call(self, turn: int) -> Any:
        """Calls the function on one of the sets of inputs, by turns."""
        return self.function(*self.sets[turn % SETS])

    def _error(
        self, workload: Workload, arrays: dict[str, np.ndarray], results: list[np.ndarray]
    ) -> float:
        if workload.model is None:
            expected = [workload.reference(*(a.astype(np.float64) for a in arrays.values()))]
        else:
            expected = list(workload.reference(workload.model.weights, list(arrays.values())))
        worst = 0.0
        for got, wanted in zip(results, expected, strict=True):
            distance = float(
                np.linalg.norm(got.reshape(-1) - np.asarray(wanted, np.float64).reshape(-1))
            )
            size = float(np.linalg.norm(wanted)) or 1.0
            worst = max(worst, distance / size if np.isfinite(distance) else float("inf"))
        return worst

    def burst(self, seconds: float) -> dict[str, float]:
        """Time a call, and the host's part of it, as medians over batches of calls."""
        for turn in range(3):
            result = self.call(turn)
        self.contender.sync(result)
        calls = 1
        while True:  # as many calls a batch as take a few milliseconds
            begin = time.perf_counter()
            for turn in range(calls):
                result = self.call(turn)
            self.contender.sync(result)
            took = time.perf_counter() - begin
            if took > 5e-3 or calls >= 4096:
                break
            calls *= 2
        whole, host = [], []
        end = time.perf_counter() + seconds
        while not whole or time.perf_counter() < end:
            begin = time.perf_counter()
            for turn in range(calls):
                result = self.call(turn)
            submitted = time.perf_counter()
            self.contender.sync(result)
            whole.append((time.perf_counter() - begin) / calls)
            host.append((submitted - begin) / calls)
        return {
            "seconds": statistics.median(whole),
            "submit": statistics.median(host),
            "least": min(whole),
            "batches": len(whole),
        }


def main() -> None:
    """Answers the requests of `run.py` on standard input, a line of JSON each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print does not disturb the answers
    contender: Contender | None = None
    session: Session | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if "prepare" in asked:
                session = None
                contender = contender or CONTENDERS[args.name](args.device)
                families = frozenset({asked["family"]})
                workload = next(
                    w for w in all_of(args.small, families) if w.name == asked["prepare"]
                )
                session = Session(contender, workload)
                reply: dict[str, Any] = {
                    "error": session.error,
                    "accurate": session.accurate,
                    "compile_seconds": session.compile_seconds,
                }
            elif session is None:
                reply = {"failure": "nothing is prepared"}
            else:
                reply = session.burst(asked["burst"])
        except Exception as problem:  # a contender that fails is a result
            import traceback

            traceback.print_exc()
            reply = {"failure": f"{type(problem).__name__}: {problem}"[:400]}
            session = None
        answers.write(json.dumps(reply) + "\n")
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    os._exit(0)  # some runtimes hang in their destructors


if __name__ == "__main__":
    main()
