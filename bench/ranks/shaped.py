"""How much of the messages of a training step computation hides, over a link of three rates.

    python bench/ranks/shaped.py [MODEL…] [--rows 64] [--rounds 3] [--shares 0.2,0.4,0.6]

As root. Two ranks of one thread each are on two hosts (network namespaces, by TCP) whose link is
shaped (tbf), in turn, to rates at which the wire of a step takes some shares of its computation. A
round is a run over the free link, whose recorded step predicts the others, and a run over each
rate. What is predicted: the step, its wire, and how much of that can be hidden in the order in
which the program starts its messages and waits for them. The rate and latency of a link are those
of all-reduces alone on it. What is measured: the step; hidden is what the wire would add to the
computation, less what it adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "mpi"))

from mpirun import ENVIRONMENT
from namespaces import TwoHosts, two_hosts, without

COLUMNS = (
    *("link", "computation", "wire", "share of it", "wire that cannot be hidden"),
    *("step predicted", "measured", "over predicted", "hidden of what can be"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is measured, and the beginning of the command that runs each sample."""

    hosts: TwoHosts
    model: str
    rows: int
    by: list[str]


def told(asked: Asked, links: list[tuple[float, float]]) -> Any:
    """What a run of `shaped_steps.py` prints."""
    given = (asked.model, str(asked.rows), "12", *(f"{latency},{rate}" for latency, rate in links))
    ran = subprocess.run(
        [*asked.by, *asked.hosts.mpirun(2), sys.executable, "shaped_steps.py", *given],
        cwd=HERE,
        env={**os.environ, **ENVIRONMENT, "OMPI_MCA_mpi_yield_when_idle": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if ran.returncode:
        raise SystemExit(ran.stderr)
    return json.loads(ran.stdout.splitlines()[-1])


def link_of(probes: dict[str, float]) -> tuple[float, float]:
    """Latency and rate: of the smallest message, and of the largest."""
    times = {int(nbytes): seconds for nbytes, seconds in probes.items()}
    least, most = min(times), max(times)
    return times[least], (most - least) / (times[most] - times[least])


def rates_of(asked: Asked, shares: list[float]) -> list[float]:
    """Rates at which the wire takes such shares of the computation."""
    asked.hosts.shape(None)
    (free,) = told(asked, [(0.0, 1.0)])["predicted"]
    return [free["wire"] / (share * free["compute"]) for share in shares]


def one_round(asked: Asked, rates: list[float]) -> list[dict[str, float]]:
    """A row for each rate, in seconds."""
    shaped = []
    for rate in rates:
        asked.hosts.shape(rate)
        shaped.append(told(asked, []))
    asked.hosts.shape(None)
    links = [link_of(one["probes"]) for one in shaped]
    free = told(asked, links)
    found = []
    for (latency, rate), one, predicted in zip(links, shaped, free["predicted"], strict=True):
        found.append({**predicted, "measured": one["step"], "latency": latency, "rate": rate})
    return found


def row(rounds: list[dict[str, float]]) -> str:
    """A line of the table, from the rounds of a rate."""
    middle = {name: median(one[name] for one in rounds) for name in rounds[0]}
    ratio = median(one["measured"] / one["step"] for one in rounds)
    hidden = median(
        (one["compute"] + one["wire"] - one["measured"]) / (one["wire"] - one["exposed"])
        for one in rounds
    )
    cells = [
        f"{middle['rate'] / 1e6:.1f} MB/s, {middle['latency'] * 1e6:.0f} us",
        *(f"{middle[name] * 1e3:.1f}" for name in ("compute", "wire")),
        f"{middle['wire'] / middle['compute']:.0%}",
        *(f"{middle[name] * 1e3:.1f}" for name in ("exposed", "step", "measured")),
        f"{ratio:.2f}",
        f"{hidden:.0%}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Prints a table for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=["transformer"], metavar="MODEL")
    parser.add_argument("--rows", type=int, default=64, help="of the batch of both ranks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--shares",
        type=lambda text: [float(part) for part in text.split(",")],
        default=[0.2, 0.4, 0.6],
    )
    parser.add_argument(
        "--by", type=str.split, default=[], help="a command that runs each sample with nothing else"
    )
    given = parser.parse_args()
    if without():
        sys.exit(without())
    with tempfile.TemporaryDirectory() as folder, two_hosts(Path(folder)) as hosts:
        for model in given.models:
            asked = Asked(hosts, model, given.rows, given.by)
            rates = rates_of(asked, given.shares)
            rounds = [one_round(asked, rates) for _ in range(given.rounds)]
            print(f"{model}, {given.rows} rows; times in ms")
            print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
            for at in range(len(rates)):
                print(row([one[at] for one in rounds]), flush=True)


if __name__ == "__main__":
    main()
