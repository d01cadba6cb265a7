"""What a step costs within a part of the memory of its values, beside the step without a limit.

    python bench/training/halved.py [ROW…] [--share 0.5] [--bursts 7] [--seconds 0.3]

The limit leaves `share` of the arena, which is all that a step takes beyond weights, what the
optimizer keeps, inputs and outputs. Where that cannot be met, the message says what bounds it. Two
processes of one thread take turns; the losses of three steps are compared to the bit, or, where
sums are in another order (as where loops keep fewer carries), up to rounding.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from pair import step_bursts, turns
from step_rows import ROWS

HEAD = """| row | arena, MB | limit for it | of it | estimate | processor time | bounds it |
|---|---|---|---|---|---|---|"""


def step_program(row: str, limit: int | None) -> Any:
    """The program of a row's step. Raises LimitError."""
    from xlac.driver import lower, specialized
    from xlac.memory.limit import MemoryLimit
    from xlac.spec.load import load_training
    from xlac.training.program import graphs_of
    from xlac_sdk.host.registry import find
    from xlac_sdk.target import Request

    asked = ROWS[row]
    file = Path(__file__).parent / "models" / f"{asked.network}.yaml"
    graphs = graphs_of(*load_training(file, params=asked.params))
    memory = None if limit is None else MemoryLimit(limit)
    return lower(specialized(graphs.step), find("cpu").target(Request()), memory=memory).program


def compared(row: str, limit: int, bursts: int, seconds: float, exact: bool) -> float:
    """The processor time of a step within a limit over that without. The losses must be equal, or
    near where sums are in another order.
    """
    env = os.environ | {"OMP_NUM_THREADS": "1", "XLAC_CACHE": "off"}
    commands = [[sys.executable, __file__, row, "--contender", str(one)] for one in (0, limit)]
    losses, figures = turns(commands, env, bursts, seconds)
    np.testing.assert_allclose(losses[0], losses[1], rtol=0 if exact else 1e-5)
    free, limited = map(min, zip(*figures, strict=True))
    return limited / free


def table_row(row: str, share: float, bursts: int, seconds: float) -> str:
    """A row of the table."""
    from xlac.memory.limit import needed
    from xlac_sdk.source import LimitError

    free = step_program(row, None)
    arena = free.arena_bytes
    limit = needed(free, True) - int(arena * (1 - share))
    first = f"| {row} | {arena / 1e6:.1f} | {arena * share / 1e6:.1f}"
    try:
        program = step_program(row, limit)
    except LimitError as error:
        (said, *_) = error.diagnostics
        least = int(said.message.split(" bytes")[0].rpartition(" ")[2].replace(",", ""))
        saved = arena - (needed(free, True) - least)
        where = said.message.partition("while '")[2].partition("'")[0]
        return f"{first} | {saved / arena:.2f} at least | | | {where} |"
    part = program.arena_bytes / arena
    again = program.facts.get("recomputed", {"factor": 1.0})
    exact = not again.get("sums_reordered")
    time = compared(row, limit, bursts, seconds, exact)
    note = "" if exact else "sums in another order"
    return f"{first} | {part:.2f} | {again['factor']:.2f} | {time:.2f} | {note} |"


def main() -> None:
    """Prints a row for each model: steps within a part of the memory, and without a limit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", default=list(ROWS), metavar="ROW")
    parser.add_argument("--share", type=float, default=0.5, help="of the arena that is left")
    parser.add_argument("--bursts", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a burst, at least a step")
    parser.add_argument("--contender", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.contender is not None:
        limit = asked.contender or None
        return step_bursts(asked.rows[0], time.process_time, threads=1, max_memory=limit)
    print(HEAD, flush=True)
    for row in asked.rows:
        print(table_row(row, asked.share, asked.bursts, asked.seconds), flush=True)


if __name__ == "__main__":
    main()
