"""Training steps among two processes of one thread each, beside PyTorch's DDP and FSDP and JAX's
processes, all by gloo on one machine.

    python bench/ranks/run.py [MODEL…] [--rounds 5] [--contenders xlac,ddp,fsdp,jax]

A sample is a run of its own, contenders take turns; a figure is the least step of any run, a ratio
the median over rounds of xlac's least step over the other's. Needs mpirun, PyTorch and JAX.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from trained_models import SPECS

HERE = Path(__file__).parent
COMMANDS = {
    "xlac": ["mpirun", "--bind-to", "core", "-n", "2", sys.executable, "xlac_steps.py", "{}"],
    "xlac optimizer": [
        *("mpirun", "--bind-to", "core", "-n", "2"),
        *(sys.executable, "xlac_steps.py", "{}", "optimizer"),
    ],
    "xlac weights": [
        *("mpirun", "--bind-to", "core", "-n", "2"),
        *(sys.executable, "xlac_steps.py", "{}", "weights"),
    ],
    "ddp": [sys.executable, "torch_steps.py", "{}", "2"],
    "fsdp": [sys.executable, "torch_steps.py", "{}", "2", "fsdp"],
    "jax": [sys.executable, "jax_steps.py", "{}", "2"],
    "xlac alone": ["taskset", "-c", "0", sys.executable, "xlac_steps.py", "{}"],
}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def sample(contender: str, model: str) -> float:
    """Milliseconds of the quickest step of one run. Raises SystemExit where it fails."""
    command = [part.replace("{}", model) for part in COMMANDS[contender]]
    env = os.environ | AS_ROOT | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=HERE, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.count(",") == 5]
    if done.returncode or not lines:
        raise SystemExit(f"{contender} failed on {model}:\n{done.stdout}{done.stderr}")
    return float(lines[-1].split(",")[3])


def main() -> None:
    """Prints a row for each model and contender."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=list(SPECS), metavar="MODEL")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--contenders", type=lambda text: text.split(","), default=list(COMMANDS), metavar="NAME,…"
    )
    asked = parser.parse_args()
    print("| model | contender | ms | xlac's over it |\n|---|---|---|---|")
    for model in asked.models:
        rounds = [{c: sample(c, model) for c in asked.contenders} for _ in range(asked.rounds)]
        for c in asked.contenders:
            ratio = median(one["xlac"] / one[c] for one in rounds) if "xlac" in rounds[0] else 1.0
            print(f"| {model} | {c} | {min(one[c] for one in rounds):.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
